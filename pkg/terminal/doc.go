// Package terminal has what the commands print with: text that a terminal shows and
// does not obey (text.go), the style that fits standard output (style.go), and files
// that are written whole or not at all (file.go).
package terminal
