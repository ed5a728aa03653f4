package main

import (
	"bytes"
	"io"
	"log/slog"
	"strings"

	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/terminal"
)

// newLog returns the log of serve and onDefineDomain.
func newLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(terminal.JSONWriter{To: w}, nil))
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

// style returns the style of text in a file or, for "" and "-", on standard output.
func (a *app) style(file string) report.Style { return terminal.StyleOf(a.out, a.environ, file) }
