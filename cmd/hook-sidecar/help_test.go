package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/sidecar"
	"hook-sidecar/pkg/tools/cli"
)

// commands returns the root command, which serve has not started a log for.
func commands() *cobra.Command {
	return newRoot(&cli.Program{}, &sidecar.Log{}, []string{"serve"})
}

// TestHelp checks that the help of every command has an example and the meaning of
// the exit status.
func TestHelp(t *testing.T) {
	all := [][]string{nil}
	for _, c := range commands().Commands() {
		all = append(all, []string{c.Name()})
	}

	for _, command := range all {
		t.Run(strings.Join(command, " "), func(t *testing.T) {
			var out, messages bytes.Buffer
			args := append([]string{"hook-sidecar"}, command...)
			code := run(t.Context(), append(args, "--help"), nil, cli.Streams{
				In: strings.NewReader(""), Out: &out, Err: &messages,
			})

			if code != 0 || messages.Len() > 0 {
				t.Errorf("exit status %d, on standard error: %s", code, &messages)
			}

			for _, part := range []string{"Usage:\n", "Examples:\n  ", "\nExit status"} {
				if !strings.Contains(out.String(), part) {
					t.Errorf("no %q in the help:\n%s", part, &out)
				}
			}

			for line := range strings.Lines(out.String()) {
				// Terminals wrap longer lines. pflag aligns the flags, so these may be
				// longer.
				if isFlag := strings.HasPrefix(strings.TrimSpace(line), "-"); len(line) > 101 &&
					!isFlag {
					t.Errorf("a line of %d bytes: %s", len(line), line)
				}
			}
		})
	}
}
