package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"hook-sidecar/pkg/report"
)

// TestStyle takes a character device for a terminal. Each reason for plain text
// disables what it is about, and nothing else.
func TestStyle(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	})
	terminal := app{streams: streams{out: device}}
	pipe := app{streams: streams{out: &bytes.Buffer{}}}
	tests := map[string]struct {
		app     app
		file    string
		environ []string
		want    report.Style
	}{
		"terminal":                {terminal, "", []string{"LANG=en_US.UTF-8"}, report.Style{Colour: true, Unicode: true}},
		"-o - is standard output": {terminal, "-", []string{"LANG=C.utf8"}, report.Style{Colour: true, Unicode: true}},
		"NO_COLOR":                {terminal, "", []string{"LANG=en_US.UTF-8", "NO_COLOR=1"}, report.Style{Unicode: true}},
		// no-color.org: "when present and not an empty string"
		"NO_COLOR is empty":    {terminal, "", []string{"NO_COLOR="}, report.Style{Colour: true}},
		"another locale":       {terminal, "", []string{"LANG=en_US.UTF-8", "LC_ALL=C"}, report.Style{Colour: true}},
		"no locale":            {terminal, "", nil, report.Style{Colour: true}},
		"a terminal from 1978": {terminal, "", []string{"LANG=en_US.UTF-8", "TERM=dumb"}, report.Style{}},
		"a file":               {terminal, "report.txt", []string{"LANG=en_US.UTF-8"}, report.Style{}},
		"a pipe":               {pipe, "", []string{"LANG=en_US.UTF-8"}, report.Style{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.app.environ = test.environ
			if got := test.app.style(test.file); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

// FuzzEscaped: nothing that a terminal obeys is left, printable text stays, and JSON
// has the same value.
func FuzzEscaped(f *testing.F) {
	for _, text := range []string{"plain", "ä € 漢", "\x1b[31m\n\u009b1m", "\u00a0\u0080\u009f\u202e", "\xc2", "a\xc2\x9b\x9b", "\\u009b\\"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line := escaped(text)
		if at := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); at >= 0 {
			t.Errorf("%q becomes %q", text, line)
		}
		if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && utf8.ValidString(text) && line != text {
			t.Errorf("%q becomes %q", text, line)
		}
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		safe := escapedJSON(data)
		if at := strings.IndexFunc(string(safe), func(r rune) bool { return r < ' ' || r >= 0x80 && r <= 0x9f }); at >= 0 {
			t.Errorf("%q is %q in JSON", text, safe)
		}
		var want, got string
		if err := errors.Join(json.Unmarshal(data, &want), json.Unmarshal(safe, &got)); err != nil || got != want {
			t.Errorf("%q is %q in JSON: %q, %v", text, safe, got, err)
		}
	})
}
