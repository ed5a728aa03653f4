package cli_test

import (
	"bytes"
	"os"
	"testing"

	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/test/expect"
)

// TestStyle takes a pseudoterminal, whose main side counts as a terminal, too (pty(7)). Each
// reason for plain text disables its own part, and nothing else. /dev/null is no terminal.
func TestStyle(t *testing.T) {
	device, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	})

	terminal := &cli.Program{Streams: cli.Streams{Out: device}}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, null.Close()) })
	discards := &cli.Program{Streams: cli.Streams{Out: null}}
	pipe := &cli.Program{Streams: cli.Streams{Out: &bytes.Buffer{}}}
	tests := map[string]struct {
		program *cli.Program
		file    string
		environ []string
		want    report.Style
	}{
		"terminal":                {terminal, "", nil, report.Style{Colour: true}},
		"/dev/null":               {discards, "", nil, report.Style{}},
		"-o - is standard output": {terminal, "-", nil, report.Style{Colour: true}},
		"NO_COLOR":                {terminal, "", []string{"NO_COLOR=1"}, report.Style{}},
		// no-color.org: "when present and not an empty string"
		"NO_COLOR is empty":    {terminal, "", []string{"NO_COLOR="}, report.Style{Colour: true}},
		"a terminal from 1978": {terminal, "", []string{"TERM=dumb"}, report.Style{}},
		"a file":               {terminal, "report.txt", nil, report.Style{}},
		"a pipe":               {pipe, "", nil, report.Style{}},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.program.Environ = test.environ
			if got := test.program.Style(test.file); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}
