package cli

import (
	"cmp"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"hook-sidecar/pkg/report"
)

// Style returns the style of text in a file or, for "" and "-", on standard output. It is
// plain except on a terminal, for which every character device is taken. NO_COLOR disables
// colours (no-color.org), and a locale other than UTF-8 disables box characters.
func (p *Program) Style(file string) report.Style {
	out, isFile := p.Out.(*os.File)
	if !isStandardOutput(file) || !isFile {
		return report.Style{}
	}
	if info, err := out.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return report.Style{}
	}
	style := report.Style{Width: columns(out, p.Environ)}
	if p.Environ.Variable("TERM") != "dumb" {
		style.Colour, style.Unicode = p.Environ.Variable("NO_COLOR") == "", isUTF8(p.Environ)
	}
	return style
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

// isUTF8 reports whether the locale's encoding is UTF-8. The first variable that
// is set decides (POSIX.1-2017, 8.2).
func isUTF8(environ Environ) bool {
	locale := strings.ToLower(cmp.Or(environ.Variable("LC_ALL"), environ.Variable("LC_CTYPE"), environ.Variable("LANG")))
	return strings.HasSuffix(locale, "utf-8") || strings.HasSuffix(locale, "utf8")
}
