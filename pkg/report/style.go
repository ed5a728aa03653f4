package report

import (
	"strings"
	"unicode/utf8"
)

// Style is how text is written for a terminal or a file.
type Style struct {
	Colour  bool // ANSI colours, for a terminal
	Unicode bool // lines of box characters instead of ASCII
	Width   int  // columns of the terminal; 0 where there is none
}

// Text takes presetWidth columns where there is no terminal. On one it takes what the
// terminal has, within limits: a table needs minWidth, and longer lines than maxWidth
// are hard to read.
const (
	minWidth    = 80
	presetWidth = 100
	maxWidth    = 140
)

// width is how many columns the text takes at most.
func (s Style) width() int {
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

	plain Colour = ""
	bold  Colour = "1"
)

// Paint colours a text that is not empty.
func (s Style) Paint(colour Colour, text string) string {
	if !s.Colour || colour == plain || text == "" {
		return text
	}
	return "\x1b[" + string(colour) + "m" + text + "\x1b[0m"
}

// colour is the colour of a look in text.
func (l look) colour() Colour {
	return map[look]Colour{farther: Yellow, nearer: Cyan, unplaced: Red}[l]
}

// lines are the parts that a tree is drawn with.
type lines struct{ fork, last, pass, gap, chain, cut, between string }

func (s Style) lines() lines {
	if s.Unicode {
		return lines{fork: "├─", last: "└─", pass: "│ ", gap: "  ", chain: "──", cut: "…", between: " · "}
	}
	return lines{fork: "|-", last: "`-", pass: "| ", gap: "  ", chain: "--", cut: "..", between: " | "}
}

// fit cuts a text that takes more than width columns.
func (s Style) fit(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	cut := s.lines().cut
	runes := []rune(text)
	return string(runes[:max(0, width-columns(cut))]) + cut
}

// pad fills a text with spaces to a width.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-columns(text)))
}

// columns is how many columns a text takes: names of devices have no wide
// characters, KubeVirt allows letters, digits and few signs (kubevirt.io/api,
// GPU.Name).
func columns(text string) int { return utf8.RuneCountInString(text) }

// wrap breaks a text between words; lines after the first are indented. The first one
// begins at a column.
func (s Style) wrap(text string, column, indent int) string {
	return wrapWords(text, s.width(), column, indent)
}

func wrapWords(text string, width, column, indent int) string {
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

// writeLine writes a line without the spaces at its end.
func writeLine(b *strings.Builder, line string) {
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}
