package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"unicode"

	"hook-sidecar/pkg/report"
)

// escaped returns a text as one line that a terminal shows and does not obey: what is
// not printable becomes an escape of Go. Names in a VMI and in a domain are text of
// others: an escape sequence can change the terminal, a newline can forge a message.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// escapedJSON returns JSON that a terminal does not obey. Package json escapes the
// control characters below U+0020 and not those from U+0080 to U+009F, with which a
// terminal's commands may begin, too (ECMA-48, 5.4).
func escapedJSON(data []byte) []byte {
	const lead = 0xc2 // of their two bytes in UTF-8, and of no other's second byte
	var out []byte
	for {
		at := bytes.IndexByte(data, lead)
		switch {
		case at < 0 && out == nil:
			return data
		case at < 0:
			return append(out, data...)
		case at+1 < len(data) && data[at+1] <= 0x9f:
			out = fmt.Appendf(append(out, data[:at]...), `\u%04x`, data[at+1])
		default:
			out = append(out, data[:min(at+2, len(data))]...)
		}
		data = data[min(at+2, len(data)):]
	}
}

// newLog returns the log of serve and onDefineDomain.
func newLog(w io.Writer) *slog.Logger { return slog.New(slog.NewJSONHandler(jsonWriter{w}, nil)) }

// jsonWriter writes escapedJSON, of whole lines.
type jsonWriter struct{ to io.Writer }

func (w jsonWriter) Write(line []byte) (int, error) {
	if _, err := w.to.Write(escapedJSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

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
