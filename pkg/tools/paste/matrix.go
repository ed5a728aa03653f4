package paste

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
	"hook-sidecar/pkg/words/lazyregexp"
)

// relation is the path type that a word of a table says.
var relation = map[string]topology.PathType{
	"PIX": topology.PIX, "PXB": topology.PXB, "PHB": topology.PHB, "NODE": topology.NODE,
	"SYS": topology.SYS, "SOC": topology.SYS, // drivers before 390
}

var (
	// peers are the words of nvidia-smi topo -p2p, which say whether two GPUs reach each other.
	peers = []string{"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"}

	// joined are vendors' words for links of their own, which hide the path through PCI Express:
	// MetaX' HT and MX, Huawei's HCCS.
	joined = []string{"HT", "MX", "HCCS"}

	ncclNV = lazyregexp.New(`^NV[0-9]{1,2}$`)
)

// maxTables limits the tables of a text. A machine has three: -m, -mp and -p2p.
const maxTables = 64

func isMatrix(t text) bool {
	isHeader := func(line string) bool {
		_, is := header(line)
		return is
	}

	return anyLine(t, isHeader) && !isROCmSMI(t) // whose tables have the same first row
}

// readMatrix reads nvidia-smi topo -m, -mp and -p2p: a row per device, with a word per column.
// Fields are found by their words, since tabs get lost where output is pasted. Drivers differ:
// older ones name a NIC mlx5_0 and have no "NUMA Affinity", newer ones have a legend of NICs and
// "GPU NUMA ID".
func readMatrix(t text) (Machine, error) {
	m := Machine{Sources: []Source{NVIDIASMI}}
	tables := 0
	for i, line := range t.lines {
		head, is := header(line)
		if !is {
			continue
		}

		if tables++; tables > maxTables {
			return Machine{}, fmt.Errorf("more than %d tables: paste those of one machine",
				maxTables)
		}

		table, err := readTable(head, t.lines[i+1:])
		if err != nil {
			return Machine{}, err
		}

		if err := m.addTable(table); err != nil {
			return Machine{}, err
		}
	}

	if len(m.Peers) > 0 {
		m.note("nvidia-smi topo -p2p says what peers may do and not where they are: paste " +
			"nvidia-smi topo -mp, too")
	}

	m.settle()
	m, err := m.sorted()
	return m.withTree(), err
}

// addTable adds what a table says. Devices of a second table are those of the first by name.
func (m *Machine) addTable(t matrix) error {
	if t.cells == nil {
		return fmt.Errorf("the table has names and no rows: %s",
			words.Abridge(strings.Join(t.names, " ")))
	}

	// The legend has the name that a NIC has in other texts, by which they are joined.
	addresses := make([]topology.Address, len(t.names))
	for i, name := range t.names {
		addresses[i] = m.named(cmp.Or(t.drives[name], name), name)
	}

	if m.types == nil {
		m.types = make(map[Pair]topology.PathType, len(t.names)*len(t.cells)/2)
	}

	if cut := t.cutRows(); len(cut) > 0 {
		m.note("the table is cut: %s have fewer than %s; paste it whole, in a wide terminal or "+
			"from a file",
			words.FirstOf(cut, 4, ", "), words.Counted(len(t.names), "column"))
	}

	if t.isCut() {
		m.LacksDevices = true
		m.note("the table is cut at the right: columns after %s are missing; paste it whole, in a "+
			"wide terminal or from a file", t.names[len(t.names)-1])
	}

	for row, cells := range t.cells {
		for col, word := range cells {
			isSaid := col < row && row < len(t.cells[col]) && t.cells[col][row] == word
			if isSaid {
				continue // in the row of the other device
			}

			if err := m.addCell(addresses[row], addresses[col], word); err != nil {
				return fmt.Errorf("row %s: %w", t.names[row], err)
			}
		}

		// nvidia-smi writes affinities of GPUs only.
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

	d := topology.Function{
		Address: matrixStandIn.address(len(m.Functions)), Class: topology.ClassEthernet,
	}
	if isGPUName(label) {
		d.Class = topology.ClassVGA
	}

	m.Functions = append(m.Functions, d)
	m.name(d.Address, name)
	m.lacksNode(d.Address)
	return d.Address
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
		old, isKnown := m.types[PairOf(a, b)]
		if isKnown && old != between {
			m.note("%s and %s are %s in one row and %s in another", m.Label(a), m.Label(b), old,
				between)
		}

		if !isKnown || old != between {
			m.relate(a, b, between)
		}

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

	default:
		return fmt.Errorf("invalid path type %q", words.Abridge(word))
	}

	return nil
}

// graceNodes match the NUMA nodes of Grace's GPUs, as 0,2-17: that of the CPU, and those of the
// GPU's memory (https://github.com/sgl-project/sglang/issues/11208).
var graceNodes = lazyregexp.New(`^([0-9]+),[0-9]+-[0-9]+$`)

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
		case "NUMA Affinity", "Node Affinity", "Memory Affinity", "NUMA":
			own := graceNodes.FindStringSubmatch(fields[i])
			if own != nil {
				m.linkC2C(d.Address)
				fields[i] = own[1]
			}

			d.Node, _ = onNode(fields[i])
			delete(m.nodeless, d.Address)
		case "GPU NUMA ID":
			if _, err := onNode(fields[i]); err == nil {
				m.linkC2C(d.Address)
			}
		}
	}

	if id, known := d.Node.Node(); known {
		m.addNode(id, cpus)
	}

	m.nearCPUs(d.Address, cpus)
}
