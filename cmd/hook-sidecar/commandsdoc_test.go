package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// TestCommandsDoc compares docs/commands.md with the help of the commands; -update
// rewrites it.
func TestCommandsDoc(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "commands.md")
	got := commandsDoc((&app{}).newRoot())
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs from the help of the commands (-file +help), rewrite it with go test ./cmd/hook-sidecar -run CommandsDoc -update:\n%s", file, d)
	}
}

// commandsDoc returns the reference of the commands, generated from their help.
func commandsDoc(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Commands\n\nGenerated from the `--help` of each command by `go test ./cmd/hook-sidecar -run CommandsDoc -update`.\n")
	b.WriteString("Data goes to standard output, messages go to standard error.\n")
	for _, cmd := range append([]*cobra.Command{root}, root.Commands()...) {
		fmt.Fprintf(&b, "\n## %s\n\n", cmd.Name())
		about, exits, found := strings.Cut(cmd.Long, "\nExit status")
		fmt.Fprintf(&b, "%s.\n\n```\n%s\n```\n\n%s\n", cmd.Short, cmd.UseLine(), strings.TrimSpace(about))
		if list, ok := strings.CutPrefix(exits, ":\n"); ok {
			fmt.Fprintf(&b, "\nExit status:\n\n```\n%s\n```\n", list)
		} else if found {
			fmt.Fprintf(&b, "\nExit status%s\n", exits)
		}
		fmt.Fprintf(&b, "\nExamples:\n\n```\n%s\n```\n", cmd.Example)
		if flags := cmd.LocalFlags().FlagUsages(); flags != "" && cmd != root {
			fmt.Fprintf(&b, "\nFlags:\n\n```\n%s```\n", flags)
		}
	}
	return b.String()
}
