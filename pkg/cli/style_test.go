package cli_test

import (
	"bytes"
	"os"
	"testing"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/report"
	"hook-sidecar/test/expect"
)

// TestStyle takes a character device for a terminal. Each reason for plain text
// disables its own part, and nothing else.
func TestStyle(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	})
	terminal := cli.Program{Streams: cli.Streams{Out: device}}
	pipe := cli.Program{Streams: cli.Streams{Out: &bytes.Buffer{}}}
	tests := map[string]struct {
		program cli.Program
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
			test.program.Environ = test.environ
			if got := test.program.Style(test.file); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}
