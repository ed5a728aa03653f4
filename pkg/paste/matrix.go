package paste

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Names of the rows and columns of nvidia-smi topo, and of tables made after it: GPU0, NIC0,
// mlx5_0, also where the space between two names got lost.
var (
	column   = regexp.MustCompile(`(?:GPU|NPU|DCU|MLU|NIC)[0-9]{1,4}|mlx[0-9]_bond_[0-9]|mlx[0-9]_[0-9]{1,3}|(?:ib|eth|bnxt_re|irdma|efa|rdmap|hfi|en|roce)[0-9a-z_]*`)
	cell     = regexp.MustCompile(`^(?:NV[0-9]{1,2}|NODE|PIX|PXB|PHB|SYS|SOC|PIX|HT|HCCS|MX|CNS|GNS|TNS|NS|OK|DR|NA|N/A|X|U)`)
	titles   = regexp.MustCompile(`CPU Affinity|NUMA Affinity|GPU NUMA ID|Node Affinity|Memory Affinity`)
	ncclNV   = regexp.MustCompile(`^NV[0-9]{1,2}$`)
	relation = map[string]topology.PathType{
		"PIX": topology.PIX, "PXB": topology.PXB, "PHB": topology.PHB, "NODE": topology.NODE,
		"SYS": topology.SYS, "SOC": topology.SYS, // drivers before 390
	}
	// peers are the words of nvidia-smi topo -p2p, which say whether two GPUs reach each other.
	peers = []string{"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"}
	// joined are vendors' words for links of their own, which hide the path through PCI Express:
	// MetaX' HT and MX, Huawei's HCCS.
	joined = []string{"HT", "MX", "HCCS"}
)

// header returns the names of columns in the first row of a table, and what is after them; false
// for another line. The first row begins with GPU0 and the row of GPU0 with "GPU0 X".
func header(line string) (names []string, rest string, is bool) {
	if !strings.Contains(line, "GPU0") && !strings.Contains(line, "NPU0") ||
		len(line) > 32*maxDevices {
		return nil, "", false
	}

	head := strings.ReplaceAll(line, "|", " ")
	if at := titles.FindStringIndex(head); at != nil {
		head, rest = head[:at[0]], head[at[0]:]
	}

	names = column.FindAllString(head, -1)
	left := strings.TrimSpace(column.ReplaceAllString(head, ""))
	isFirst := len(names) > 0 && (names[0] == "GPU0" || names[0] == "NPU0")
	return names, rest, isFirst && left == ""
}

func isMatrix(t text) bool {
	isHeader := func(line string) bool {
		_, _, is := header(line)
		return is
	}

	return anyLine(t, isHeader) && !isROCmSMI(t) // whose tables have the same first row
}

// matrix is a table: names, and the words of its cells.
type matrix struct {
	names  []string
	titles []string // of the columns after those of devices
	cells  [][]string
	rest   [][]string // what is after the cells in each row
	drives map[string]string
}

// readMatrix reads nvidia-smi topo -m, -mp and -p2p: a row per device, with a word per column.
// Fields are found by their words, since tabs get lost where output is pasted. Drivers differ:
// older ones name a NIC mlx5_0 and have no "NUMA Affinity", newer ones have a legend of NICs and
// "GPU NUMA ID".
func readMatrix(t text) (Machine, error) {
	m := Machine{Sources: []Source{NVIDIASMI}}
	for i := 0; i < len(t.lines); i++ {
		names, rest, is := header(t.lines[i])
		if !is {
			continue
		}
		if len(names) > maxDevices {
			return Machine{}, errTooMany
		}

		table, err := readTable(names, rest, t.lines[i+1:])
		if err != nil {
			return Machine{}, err
		}

		if err := m.addTable(table); err != nil {
			return Machine{}, err
		}
	}

	m.settle()
	m, err := m.sorted()
	return m.withTree(), err
}

// readTable reads the rows under a header, until the next one.
func readTable(names []string, rest string, lines []string) (matrix, error) {
	table := matrix{names: names, drives: map[string]string{}}
	last := -1 // the row to which a line that has cells alone belongs: a terminal has broken it
	for _, line := range lines {
		if _, _, is := header(line); is {
			break
		}

		if last < 0 && rest == "" && isMoreColumns(line) {
			more := column.FindAllString(line, -1)
			table.names = append(table.names, more...)
			if at := titles.FindStringIndex(line); at != nil {
				rest = line[at[0]:]
			}

			continue
		}

		if last < 0 && rest == "" && titles.MatchString(line) {
			rest = line
			continue
		}

		if len(table.names) > maxDevices {
			return table, errTooMany
		}

		row, fields := table.row(line)
		switch {
		case row >= 0 && len(fields) == 1 && strings.HasSuffix(strings.Fields(line)[0], ":"):
			table.drives[table.names[row]] = fields[0]
		case row >= 0:
			last = row
			if err := table.add(row, fields); err != nil {
				return table, err
			}

		case last >= 0 && len(table.cells[last]) < len(table.names) && isCells(line):
			if err := table.add(last, strings.Fields(line)); err != nil {
				return table, err
			}
		}
	}

	table.titles = titles.FindAllString(rest, -1)
	return table, nil
}

// isMoreColumns reports whether a line has names of columns alone: a terminal has broken the
// header.
func isMoreColumns(line string) bool {
	if at := titles.FindStringIndex(line); at != nil {
		line = line[:at[0]]
	}
	return strings.TrimSpace(line) != "" &&
		strings.TrimSpace(column.ReplaceAllString(line, "")) == ""
}

// isCells reports whether a line has words of cells alone, perhaps with affinities after them.
func isCells(line string) bool {
	fields := strings.Fields(line)
	return len(fields) > 0 && cell.FindString(fields[0]) == fields[0]
}

// row returns which device a line is about, and the fields after its name; -1 for another line.
// Before the name may be what a logger has added.
func (t *matrix) row(line string) (int, []string) {
	fields := strings.Fields(strings.ReplaceAll(line, "|", " "))
	for i, field := range fields[:min(len(fields), 8)] {
		row := slices.Index(t.names, strings.TrimSuffix(field, ":"))
		if row >= 0 && i+1 < len(fields) &&
			(strings.HasSuffix(field, ":") || cell.MatchString(fields[i+1])) {
			return row, fields[i+1:]
		}

		if i > 0 {
			continue
		}

		for at, name := range t.names { // "GPU0XPIX", without spaces
			if glued, found := strings.CutPrefix(field, name); found && glued != "" &&
				cell.MatchString(glued) {
				return at, append([]string{glued}, fields[1:]...)
			}
		}
	}

	return -1, nil
}

// add adds fields to a row: words of cells, which may be without a space between, until there is
// one per column, then the rest.
func (t *matrix) add(row int, fields []string) error {
	if t.cells == nil {
		t.cells, t.rest = make([][]string, len(t.names)), make([][]string, len(t.names))
	}

	for _, field := range fields {
		for field != "" && len(t.cells[row]) < len(t.names) {
			word := cell.FindString(field)
			if word == "" {
				return fmt.Errorf("row %s: invalid path type %q: nvidia-smi writes X, PIX, PXB, "+
					"PHB, NODE, SYS, or NV and a number",
					t.names[row], words.Abridge(field))
			}

			t.cells[row] = append(t.cells[row], word)
			field = field[len(word):]
		}

		if field != "" {
			t.rest[row] = append(t.rest[row], field)
		}
	}

	return nil
}

// addTable adds what a table says. Devices of a second table are those of the first by name.
func (m *Machine) addTable(t matrix) error {
	addresses := make([]topology.Address, len(t.names))
	for i, name := range t.names {
		addresses[i] = m.named(cmp.Or(t.drives[name], name), name)
	}

	if t.cells == nil {
		return fmt.Errorf("the table has names and no rows: %s",
			words.Abridge(strings.Join(t.names, " ")))
	}

	m.cutRows(t)

	for row, words := range t.cells {
		for col, word := range words {
			if err := m.addCell(addresses[row], addresses[col], word); err != nil {
				return fmt.Errorf("row %s: %w", t.names[row], err)
			}
		}
		if d := m.at(addresses[row]); !d.IsNIC() {
			m.affinity(d, t.titles, t.rest[row])
		}
	}

	return nil
}

// named returns the address of the device with a name, which it adds if the machine has none;
// label is its name in the table.
func (m *Machine) named(name, label string) topology.Address {
	for _, d := range m.Functions {
		if m.Names[d.Address] == name {
			return d.Address
		}
	}

	d := topology.Function{Address: ofMatrix.address(len(m.Functions)), Class: 0x020000}
	if isGPUName(label) {
		d.Class = 0x030000
	}

	m.Functions = append(m.Functions, d)
	m.name(d.Address, name)
	m.lacksNode(d.Address)
	return d.Address
}

// isGPUName reports whether a table's name is that of a GPU or another accelerator.
func isGPUName(name string) bool {
	return slices.ContainsFunc([]string{"GPU", "NPU", "DCU", "MLU"}, func(kind string) bool {
		return strings.HasPrefix(name, kind)
	})
}

// at returns the device at an address, before the machine is sorted.
func (m *Machine) at(a topology.Address) *topology.Function {
	i := slices.IndexFunc(m.Functions, func(d topology.Function) bool { return d.Address == a })
	return &m.Functions[i]
}

// addCell adds what a cell says of two devices.
func (m *Machine) addCell(a, b topology.Address, word string) error {
	between, isPath := relation[word]
	switch {
	case a == b || word == "X" || word == "NA" || word == "N/A":
	case isPath:
		if old, known := m.types[PairOf(a, b)]; known && old != between {
			m.note("%s and %s are %s in one row and %s in another", m.Label(a), m.Label(b), old,
				between)
		}
		m.relate(a, b, between)
		m.Farthest = topology.SYS

	case ncclNV.MatchString(word), slices.Contains(joined, word):
		m.link(a)
		m.link(b)
		if slices.Contains(joined, word) {
			m.note("%s is a vendor's link between GPUs, which hides the path through PCI Express",
				word)
		}

	case slices.Contains(peers, word):
		if m.Peers == nil {
			m.Peers = map[Pair]string{}
		}
		m.Peers[PairOf(a, b)] = word
		m.note("nvidia-smi topo -p2p says what peers may do and not where they are: paste " +
			"nvidia-smi topo -mp, too")

	default:
		return fmt.Errorf("invalid path type %q", words.Abridge(word))
	}

	return nil
}

// cutRows says which rows of GPUs are cut or missing.
func (m *Machine) cutRows(t matrix) {
	var cut []string
	for row, name := range t.names {
		if isGPUName(name) && len(t.cells[row]) < len(t.names) {
			cut = append(cut, name)
		}
	}

	if len(cut) > 0 {
		m.note("the table is cut: %s have fewer than %s; paste it whole, in a wide terminal or "+
			"from a file",
			words.FirstOf(cut, 4, ", "), words.Counted(len(t.names), "column"))
	}
}

// affinity reads the columns after those of devices: the CPUs of a GPU, and its NUMA node, of which
// "N/A" and several are none. Where one is empty, which is not known.
func (m *Machine) affinity(d *topology.Function, titles, fields []string) {
	if len(fields) < len(titles) {
		return
	}

	var cpus topology.IDs
	for i, title := range titles {
		switch title {
		case "CPU Affinity":
			cpus, _ = topology.ParseIDs(fields[i])
		case "NUMA Affinity", "Node Affinity", "Memory Affinity":
			d.Node, _ = onNode(fields[i])
			delete(m.nodeless, d.Address)
		}
	}

	if id, known := d.Node.Node(); known {
		m.addNode(id, cpus)
	}
}
