package paste

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/words"
	"hook-sidecar/pkg/words/lazyregexp"
)

// The words of nvidia-smi topo, and of tables that other programs made after it.
var (
	// column matches the name of a row and a column: GPU0, NIC0, mlx5_0, also where the space
	// between two names got lost.
	column = lazyregexp.New(`(?:GPU|NPU|DCU|MLU|NIC)[0-9]{1,4}|mlx[0-9]_bond_[0-9]|` +
		`mlx[0-9]_[0-9]{1,3}|(?:ib|eth|bnxt_re|irdma|efa|rdmap|hfi|en|roce)[0-9a-z_]*`)

	// cell matches a word at the beginning of what may be several without a space between.
	cell = lazyregexp.New(`^(?:NV[0-9]{1,2}|NODE|PIX|PXB|PHB|SYS|SOC|HT|HCCS|MX|` +
		`CNS|GNS|TNS|NS|OK|DR|NA|N/A|X|U)`)

	// cutCell matches the beginning of a word, where the rest of a text is missing.
	cutCell = lazyregexp.New(`^(?:N|NO|NOD|P|PI|PX|PH|S|SY|SO)$`)

	// cutName and cutTitle match the beginning of a name or a title, where the rest of a line is
	// missing.
	cutName  = lazyregexp.New(`^(?:G|GP|GPU|N|NI|NIC|m|ml|mlx|mlx[0-9]_?)$`)
	cutTitle = lazyregexp.New(`^(?:C|CP|CPU A[a-z]*)$`)

	// titles match the columns after those of devices. A page may cut "NUMA Affinity" short.
	titles = lazyregexp.New(`CPU Affinity|NUMA Affinity|GPU NUMA ID|Node Affinity|` +
		`Memory Affinity|NUMA\b`)

	// affinities match CPUs and what may be after them: 0-55,112-167    0    N/A
	affinities = lazyregexp.New(`^\s*[0-9]+[-,][0-9,-]+(?:\s+(?:[0-9,-]+|N/A))*\s*$`)

	// numbered matches a device in the table of gpustack-runtime: Device 0.
	numbered = lazyregexp.New(`\bDevice ([0-9]{1,4})\b`)

	// vendor matches the first field of that table's header.
	vendor = lazyregexp.New(`^\s*\|\s*[A-Z]+\s*\|\s*Device 0\b`)
)

// matrix is a table: names, and the words of its cells.
type matrix struct {
	names  []string
	rows   map[string]int // of the names
	titles []string       // of the columns after those of devices
	lacks  bool           // names in the header
	titled bool           // the header goes on after the names
	cells  [][]string     // per row; nil without rows
	rest   [][]string     // per row what is after the cells
	drives map[string]string
}

// tableHeader is the first row of a table.
type tableHeader struct {
	names []string // of columns
	after string   // the text after them: titles of further columns
	isCut bool     // in the middle of the name of a device
}

// header reads the first row of a table; false for another line. The first row begins with GPU0 and
// the row of GPU0 with "GPU0 X".
func header(line string) (head tableHeader, is bool) {
	line = nvidiaNames(line)
	mayBe := strings.Contains(line, "GPU0") || strings.Contains(line, "NPU0")
	if !mayBe || len(line) > 32*maxDevices || hasSelf(line) {
		return head, false
	}

	row := strings.ReplaceAll(line, "|", " ")
	if at := titles.FindStringIndex(row); at != nil {
		row, head.after = row[:at[0]], row[at[0]:]
	}

	head.names = column.FindAllString(row, -1)
	if len(head.names) == 0 || head.names[0] != "GPU0" && head.names[0] != "NPU0" {
		return head, false
	}

	// A header has names and titles, and nothing else but the beginning of one that is cut off.
	left := strings.TrimSpace(column.ReplaceAllString(row, ""))
	head.isCut = cutName.MatchString(left)
	if cutTitle.MatchString(left) {
		head.after, left = left, ""
	}

	return head, left == "" || head.isCut
}

// hasSelf reports whether a line has the X of a device and itself near its beginning, as most rows
// of GPU0 do and no header does.
func hasSelf(line string) bool {
	at := strings.Index(line[:min(len(line), 200)], "GPU0")
	if at < 0 {
		return false
	}

	rest := strings.TrimLeft(line[at+len("GPU0"):], " \t|")
	return rest == "X" || strings.HasPrefix(rest, "X ") || strings.HasPrefix(rest, "X\t")
}

// nvidiaNames replaces the names of gpustack-runtime's table by those of nvidia-smi.
func nvidiaNames(line string) string {
	if !strings.Contains(line, "| Device ") {
		return line
	}

	line = vendor.ReplaceAllString(line, "| Device 0")
	return numbered.ReplaceAllString(line, "GPU$1")
}

// tableReader reads the lines under a header.
type tableReader struct {
	matrix
	after string // the header's text after the names of devices
	last  int    // the row that a line of cells alone continues; -1 before the first row
}

// readTable reads the rows under a header, until the next one.
func readTable(head tableHeader, lines []string) (matrix, error) {
	r := tableReader{after: head.after, last: -1}
	r.lacks = head.isCut
	r.drives, r.rows = map[string]string{}, map[string]int{}
	if err := r.addNames(head.names); err != nil {
		return r.matrix, err
	}

	for _, line := range lines {
		if _, is := header(line); is {
			break
		}

		if err := r.line(nvidiaNames(line)); err != nil {
			return r.matrix, err
		}
	}

	r.titles, r.titled = titles.FindAllString(r.after, -1), r.after != ""
	return r.matrix, nil
}

// addNames adds names of columns.
func (t *matrix) addNames(names []string) error {
	if len(t.names)+len(names) > maxDevices {
		return errTooMany
	}

	for _, name := range names {
		if _, isKnown := t.rows[name]; !isKnown {
			t.rows[name] = len(t.names)
		}
		t.names = append(t.names, name)
	}

	return nil
}

// line reads a line: more of the header, a row, a name of the legend, or the rest of a row that a
// terminal has broken.
func (r *tableReader) line(line string) error {
	// A narrow terminal breaks the header into lines. It goes on until its titles, or the first
	// row.
	if r.last < 0 && r.after == "" {
		if names, after, is := moreHeader(line); is {
			r.after = after
			return r.addNames(names)
		}
	}

	row, fields := r.row(line)
	switch {
	// A line of the legend, such as NIC0: mlx5_0.
	case row >= 0 && len(fields) == 1 && strings.HasSuffix(strings.Fields(line)[0], ":"):
		r.drives[r.names[row]] = fields[0]
	case row >= 0:
		r.last = row
		return r.add(row, fields)
	case r.continues(line):
		return r.add(r.last, strings.Fields(line))
	}

	return nil
}

// continues reports whether a line is the rest of the last row: cells that it lacks, or the
// affinities after them.
func (r *tableReader) continues(line string) bool {
	if r.last < 0 {
		return false
	}

	if len(r.cells[r.last]) < len(r.names) {
		return isCells(line)
	}

	return r.after != "" && len(r.rest[r.last]) == 0 && affinities.MatchString(line)
}

// moreHeader reads a line of a header that a terminal has broken: names of columns, and what is
// after them, or only that.
func moreHeader(line string) (names []string, after string, is bool) {
	head := line
	if at := titles.FindStringIndex(line); at != nil {
		head, after = line[:at[0]], line[at[0]:]
	}

	if strings.TrimSpace(column.ReplaceAllString(head, "")) != "" {
		return nil, after, after != ""
	}

	names = column.FindAllString(head, -1)
	return names, after, len(names) > 0 || after != ""
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
		row, isName := t.rows[strings.TrimSuffix(field, ":")]
		if isName && i+1 < len(fields) &&
			(strings.HasSuffix(field, ":") || cell.MatchString(fields[i+1])) {
			return row, fields[i+1:]
		}
	}

	if len(fields) == 0 {
		return -1, nil
	}

	// "GPU0XPIX", without spaces
	at := column.FindStringIndex(fields[0])
	if at == nil || at[0] != 0 {
		return -1, nil
	}

	name, glued := fields[0][:at[1]], fields[0][at[1]:]
	if row, isName := t.rows[name]; isName && cell.MatchString(glued) {
		return row, append([]string{glued}, fields[1:]...)
	}

	return -1, nil
}

// add adds fields to a row: words of cells, which may be without a space between, until there is
// one per column, then the rest. The last word of a text that is cut is left out.
func (t *matrix) add(row int, fields []string) error {
	if t.cells == nil {
		t.cells, t.rest = make([][]string, len(t.names)), make([][]string, len(t.names))
	}

	for i, field := range fields {
		for field != "" && len(t.cells[row]) < len(t.names) {
			word := firstCell(field)
			if word == "" && i == len(fields)-1 && cutCell.MatchString(field) {
				return nil
			}

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

// firstCell returns the word that a field begins with; "" for none.
func firstCell(field string) string {
	if _, isPath := relation[field]; isPath { // most of a table's fields
		return field
	}
	return cell.FindString(field)
}

// cutRows returns the names of GPUs whose rows are cut or missing.
func (t *matrix) cutRows() []string {
	return slices.DeleteFunc(slices.Clone(t.names), func(name string) bool {
		return !isGPUName(name) || len(t.cells[t.rows[name]]) == len(t.names)
	})
}

// isCut reports whether columns are missing at the right: the header ends in the middle of a name,
// or a row has more cells than that, or there are path types and no "CPU Affinity", which each
// nvidia-smi writes: a terminal of 80 columns ends after ten of eight.
func (t *matrix) isCut() bool {
	isPath := func(word string) bool { return relation[word] != 0 }
	hasMore := slices.ContainsFunc(t.rest, func(fields []string) bool {
		return len(fields) > 0 && isPath(fields[0])
	})
	hasPaths := slices.ContainsFunc(t.cells, func(cells []string) bool {
		return slices.ContainsFunc(cells, isPath)
	})
	return t.lacks || hasMore || hasPaths && !t.titled
}

// isGPUName reports whether a table's name is that of a GPU or another accelerator.
func isGPUName(name string) bool {
	return slices.ContainsFunc([]string{"GPU", "NPU", "DCU", "MLU"}, func(kind string) bool {
		return strings.HasPrefix(name, kind)
	})
}
