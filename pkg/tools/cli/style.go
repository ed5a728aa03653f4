package cli

import (
	"os"
	"strconv"

	"golang.org/x/term"

	"hook-sidecar/pkg/report"
)

// Style returns the style of text in a file or, for "" and "-", on standard output. It is
// plain except on a terminal. NO_COLOR disables colours (no-color.org).
func (p *Program) Style(file string) report.Style {
	if !isStandardOutput(file) || !IsTerminal(p.Out) {
		return report.Style{}
	}
	return report.Style{
		Width:  columns(p.Out.(*os.File), p.Environ),
		Colour: p.Environ.Variable("TERM") != "dumb" && p.Environ.Variable("NO_COLOR") == "",
	}
}

// IsTerminal reports whether a stream is a terminal. /dev/null, which a container may have as
// its standard output, is a character device, too, and none.
func IsTerminal(stream any) bool {
	file, isFile := stream.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

// columns returns how many columns a terminal has, 0 if that is unknown. The variable
// COLUMNS overrides it (POSIX.1-2017, 8.3).
func columns(terminal *os.File, environ Environ) int {
	if n, err := strconv.ParseUint(environ.Variable("COLUMNS"), 10, 16); err == nil {
		return int(n)
	}

	width, _, err := term.GetSize(int(terminal.Fd()))
	if err != nil {
		return 0
	}

	return width
}
