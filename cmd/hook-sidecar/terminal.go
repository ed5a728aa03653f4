package main

import (
	"os"
	"strings"

	"hook-sidecar/pkg/report"
)

// style returns the style of text in a file or, for "" and "-", on standard
// output. It is plain except on a terminal. NO_COLOR disables colours
// (no-color.org), and a locale other than UTF-8 disables box characters.
func (a *app) style(file string) report.Style {
	if file != "" && file != "-" || !isTerminal(a.out) || a.variable("TERM") == "dumb" {
		return report.Style{}
	}
	return report.Style{Colour: a.variable("NO_COLOR") == "", Unicode: a.isUTF8()}
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
func (a *app) isUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := a.variable(name); value != "" {
			value = strings.ToLower(value)
			return strings.HasSuffix(value, "utf-8") || strings.HasSuffix(value, "utf8")
		}
	}
	return false
}
