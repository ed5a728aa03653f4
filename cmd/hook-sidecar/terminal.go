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

	"golang.org/x/term"

	"hook-sidecar/pkg/doctor"
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
	if file != "" && file != "-" || !isTerminal(a.out) {
		return report.Style{}
	}
	style := report.Style{Width: a.columns()}
	if a.variable("TERM") != "dumb" {
		style.Colour, style.Unicode = a.variable("NO_COLOR") == "", a.isUTF8()
	}
	return style
}

// columns returns how many columns the terminal has, 0 if it does not say. The
// variable COLUMNS overrides it (POSIX.1-2017, 8.3).
func (a *app) columns() int {
	if n, err := strconv.ParseUint(a.variable("COLUMNS"), 10, 16); err == nil {
		return int(n)
	}
	if f, ok := a.out.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// colouredDiff returns a unified diff in the colours of git diff.
func colouredDiff(diff []byte, style report.Style) []byte {
	if !style.Colour {
		return diff
	}
	var b bytes.Buffer
	for line := range bytes.Lines(diff) {
		text, isWhole := strings.CutSuffix(string(line), "\n")
		switch {
		case strings.HasPrefix(text, "@@"):
			text = style.Paint(report.Cyan, text)
		case strings.HasPrefix(text, "-"):
			text = style.Paint(report.Red, text)
		case strings.HasPrefix(text, "+"):
			text = style.Paint(report.Green, text)
		}
		b.WriteString(text)
		if isWhole {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// statusLine returns a result of doctor as a line, with its status in colour.
func statusLine(r doctor.Result, style report.Style) string {
	status := string(r.Status)
	colour := map[doctor.Status]report.Colour{doctor.Fail: report.Red, doctor.Warn: report.Yellow, doctor.Pass: report.Green, doctor.Note: report.Cyan}[r.Status]
	return style.Paint(colour, status) + strings.TrimPrefix(escaped(r.String()), status)
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
