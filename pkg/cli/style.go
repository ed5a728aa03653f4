package cli

import (
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"hook-sidecar/pkg/report"
)

// Environ is an environment, as NAME=VALUE.
type Environ []string

// Variable returns the value of a variable, "" where it is not set.
func (e Environ) Variable(name string) string {
	for _, entry := range e {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// styleOf returns the style of text in a file or, for "" and "-", on standard
// output. It is plain except on a terminal. NO_COLOR disables colours
// (no-color.org), and a locale other than UTF-8 disables box characters.
func styleOf(out io.Writer, environ Environ, file string) report.Style {
	if file != "" && file != "-" || !isTerminal(out) {
		return report.Style{}
	}
	style := report.Style{Width: columns(out, environ)}
	if environ.Variable("TERM") != "dumb" {
		style.Colour, style.Unicode = environ.Variable("NO_COLOR") == "", isUTF8(environ)
	}
	return style
}

// columns returns how many columns the terminal has, 0 if it does not say. The
// variable COLUMNS overrides it (POSIX.1-2017, 8.3).
func columns(out io.Writer, environ Environ) int {
	if n, err := strconv.ParseUint(environ.Variable("COLUMNS"), 10, 16); err == nil {
		return int(n)
	}
	if f, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// isTerminal takes every character device for a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// isUTF8 reports whether the locale's encoding is UTF-8. The first variable that
// is set decides (POSIX.1-2017, 8.2).
func isUTF8(environ Environ) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := environ.Variable(name); value != "" {
			value = strings.ToLower(value)
			return strings.HasSuffix(value, "utf-8") || strings.HasSuffix(value, "utf8")
		}
	}
	return false
}
