package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"hook-sidecar/pkg/words"
)

// Style is how text is written for a terminal or a file.
type Style struct {
	Colour bool // ANSI colours, for a terminal
	Width  int  // columns of the terminal; 0 if there is none
}

// Text takes as many columns as the terminal: at least the width of a table, at most one that is
// easy to read. Without a terminal it takes presetWidth.
const (
	minWidth    = 80
	presetWidth = 100
	maxWidth    = 140
)

// Columns returns how many columns a line has.
func (s Style) Columns() int {
	if s.Width == 0 {
		return presetWidth
	}
	return min(max(s.Width, minWidth), maxWidth)
}

// Colour is a colour of ECMA-48, 8.3.117, or bold.
type Colour string

// The colours that are legible on dark and on light backgrounds.
const (
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Cyan   Colour = "36"

	Bold Colour = "1"

	plain Colour = ""
)

// Paint colours a text that is not empty.
func (s Style) Paint(colour Colour, text string) string {
	if !s.Colour || colour == plain || text == "" {
		return text
	}
	return "\x1b[" + string(colour) + "m" + text + "\x1b[0m"
}

// cut stands for the characters that a text has lost.
const cut = ".."

// Fit cuts a text that takes more than width columns.
func Fit(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-len(cut))]) + cut
}

// FitMiddle shortens a text in its middle: aliases differ at their ends.
func FitMiddle(text string, width int) string {
	runes, end := []rune(text), max(0, width-len(cut))/2
	if len(runes) <= width {
		return text
	}
	return Fit(text, width-end) + string(runes[len(runes)-end:])
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-columns(text)))
}

// columns returns how many columns a text takes: KubeVirt allows no wide characters in names of
// devices (kubevirt.io/api, GPU.Name).
func columns(text string) int { return utf8.RuneCountInString(text) }

// Wrap breaks a text into lines of a width. The first begins at a column, the others are
// indented.
func Wrap(text string, width, column, indent int) string {
	var b strings.Builder
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+columns(word) > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent

		default:
			b.WriteByte(' ')
			column++
		}

		b.WriteString(word)
		column += columns(word)
	}

	return b.String()
}

func (s Style) wrap(text string, column, indent int) string {
	return Wrap(text, s.Columns(), column, indent)
}

// printer collects text in a style.
type printer struct {
	strings.Builder
	Style
}

// line writes a line without the spaces at its end.
func (p *printer) line(text string) { p.WriteString(strings.TrimRight(text, " ") + "\n") }

// heading writes the title of a part, with an empty line before it.
func (p *printer) heading(text string) { p.line("\n" + p.Paint(Bold, text)) }

func (p *printer) wrapped(colour Colour, text string) {
	p.line(p.Paint(colour, p.wrap(text, 0, 2)))
}

// remedy writes the remedy of the problem above it.
func (p *printer) remedy(text string) {
	const head = "  remedy: "
	p.line("  " + p.Paint(Green, "remedy:") + " " +
		p.wrap(words.Printable(text), len(head), len(head)))
}

// columnWidths returns the widths of the widest cells.
func columnWidths(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], columns(cell))
		}
	}

	return widths
}

func tableWidth(rows [][]string, gap int) int {
	width := -gap
	for _, w := range columnWidths(rows) {
		width += w + gap
	}
	return width
}

func rowText(row []string, widths []int, gap int) string {
	line, last := "", len(row)-1
	for i, cell := range row[:last] {
		line += pad(cell, widths[i]+gap)
	}
	return line + row[last]
}

func (p *printer) to(w io.Writer) error {
	_, err := fmt.Fprint(w, p.String())
	return err
}
