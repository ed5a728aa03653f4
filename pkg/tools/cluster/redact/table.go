package redact

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

var (
	// wide is a cell of a table whose cells have two blanks between them, or more.
	wide = lazyregexp.New(`\S+(?: \S+)*`)
	// word is a cell of one whose cells have one.
	word = lazyregexp.New(`\S+`)
	// capitals is the name of a column, as kubectl prints it, and heading that of other tables.
	capitals = lazyregexp.New(`^[A-Z][A-Z0-9_-]*$`)
	heading  = lazyregexp.New(`^"?[\w.*-]+(?: [\w.*-]+)?"?$`)
	// border is a line that a table draws, and shortCell what no password is.
	border    = lazyregexp.New(`^[-+|:= \x{2500}-\x{257f}]+$`)
	shortCell = lazyregexp.New(`^(?:\d{0,3}|-*|<none>|true|false|yes|no|` + Mark + `)$`)
)

// The separators of cells: a rule as Markdown and SQL's programs print it, CSV's signs, several
// blanks, one blank.
const (
	blanks, blank = "", " "
	rule1, rule2  = "|", "│"
)

var separators = []string{rule1, rule2, ",", ";", "\t", blanks, blank}

// cell is where a table has one in its line.
type cell struct{ begin, end int }

// table is a table of which the header was read.
type table struct {
	separator string
	cells     []cell // of the header
	secret    []bool // which columns have secrets
}

// removeColumns removes the cells under a header that names a secret.
func removeColumns(text string) string {
	if strings.Count(strings.TrimSuffix(text, "\n"), "\n") == 0 {
		return text
	}

	var b strings.Builder
	var t *table
	for line := range strings.Lines(text) {
		row := strings.TrimRight(line, " \r\n")
		if t != nil && t.isRow(row) {
			b.WriteString(t.row(row) + line[len(row):])
			continue
		}

		t = headerOf(row)
		b.WriteString(line)
	}

	return b.String()
}

// headerOf returns the table whose header a line is; nil if it is none that names a secret. A quote
// or a colon may be before it, where a program logs it.
func headerOf(line string) *table {
	if !nameHints.isIn(strings.ToLower(line)) {
		return nil
	}

	for _, begin := range []int{
		0, strings.LastIndex(line, ": ") + len(": "), strings.LastIndexAny(line, `"'`) + 1,
	} {
		for _, separator := range separators {
			if t := newTable(line[min(begin, len(line)):], separator); t != nil {
				return t
			}
		}
	}

	return nil
}

// newTable returns the table whose header a line is with a separator.
func newTable(line, separator string) *table {
	t := &table{separator: separator, cells: cellsOf(line, separator)}

	// With nothing but blanks between cells any sentence would be a header, so there it has to be
	// in capitals, as kubectl prints it.
	isName := heading.MatchString
	if separator == blanks || separator == blank {
		isName = capitals.MatchString
	}

	hasSecret := false
	for _, c := range t.cells {
		name := strings.Trim(line[c.begin:c.end], " *")
		if name != "" && !isName(name) {
			return nil
		}

		name = strings.ToLower(strings.Trim(name, `"`))

		// A column named value is in tables about anything.
		isSecret := doubtOf(name) == certain && name != "value"
		hasSecret = hasSecret || isSecret
		t.secret = append(t.secret, isSecret)
	}

	if len(t.cells) < 2 || !hasSecret {
		return nil
	}

	return t
}

// cellsOf returns the cells of a line.
func cellsOf(line, separator string) (cells []cell) {
	if separator == blanks || separator == blank {
		form := wide
		if separator == blank {
			form = word
		}
		for _, found := range form.FindAllStringIndex(line, -1) {
			cells = append(cells, cell{found[0], found[1]})
		}
		return cells
	}

	at := 0
	for part := range strings.SplitSeq(line, separator) {
		cells = append(cells, cell{at, at + len(part)})
		at += len(part) + len(separator)
	}

	return cells
}

// isRow reports whether a line is a row of the table.
func (t *table) isRow(line string) bool {
	switch t.separator {
	case blanks:
		return len(cellsOf(line, blanks)) > 1 || strings.HasPrefix(line, "  ")
	case blank:
		return len(cellsOf(line, blank)) == len(t.cells)
	case rule1, rule2:
		return strings.Contains(line, t.separator) || border.MatchString(line)
	}
	return len(cellsOf(line, t.separator)) >= len(t.cells)
}

// row returns a row without the secrets of its cells.
func (t *table) row(line string) string {
	cells := cellsOf(line, t.separator)
	for i, c := range slices.Backward(cells) {
		text := strings.TrimSpace(line[c.begin:c.end])
		if !t.isSecret(i, c) || shortCell.MatchString(text) || border.MatchString(text) {
			continue
		}
		line = line[:c.begin] + strings.Replace(line[c.begin:c.end], text, Mark, 1) + line[c.end:]
	}

	return line
}

// isSecret reports whether a cell is in a column of secrets. In a table with blanks the name above a
// cell says in which it is.
func (t *table) isSecret(i int, c cell) bool {
	if t.separator == blanks {
		i = 0
		for i+1 < len(t.cells) && t.cells[i+1].begin <= c.begin {
			i++
		}
	}
	return i < len(t.secret) && t.secret[i]
}
