package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestHelp asks every command for its help: an example to copy and what the
// exit status means are in each.
func TestHelp(t *testing.T) {
	commands := [][]string{nil}
	for _, c := range (&app{}).newRoot().Commands() {
		commands = append(commands, []string{c.Name()})
	}
	for _, command := range commands {
		t.Run(strings.Join(command, " "), func(t *testing.T) {
			var out, talk bytes.Buffer
			args := append([]string{"hook-sidecar"}, command...)
			code := run(t.Context(), append(args, "--help"), nil, streams{strings.NewReader(""), &out, &talk})
			if code != 0 || talk.Len() > 0 {
				t.Errorf("exit status %d, on standard error: %s", code, &talk)
			}
			for _, part := range []string{"Usage:\n", "Examples:\n  ", "\nExit status"} {
				if !strings.Contains(out.String(), part) {
					t.Errorf("no %q in the help:\n%s", part, &out)
				}
			}
			for line := range strings.Lines(out.String()) {
				// A terminal of 80 columns wraps what is longer; flags are lined up
				// by pflag and may be.
				if isFlag := strings.HasPrefix(strings.TrimSpace(line), "-"); len(line) > 101 && !isFlag {
					t.Errorf("a line of %d bytes: %s", len(line), line)
				}
			}
		})
	}
}
