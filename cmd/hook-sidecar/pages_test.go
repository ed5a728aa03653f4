package main

import (
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/pages"
)

// TestPages parses every hook-sidecar command of the pages.
func TestPages(t *testing.T) {
	pages.Check(t, "../..", func(args []string) (*cobra.Command, []string) {
		words := withCommand(append([]string{"hook-sidecar"}, args...), false)
		return commands(), words
	})
}

// TestCommandsDoc compares docs/commands.md with the help of the commands; -update
// rewrites it.
func TestCommandsDoc(t *testing.T) {
	expect.Golden(t, *update, filepath.Join("..", "..", "docs", "commands.md"),
		[]byte(pages.Reference(commands(), "cmd/hook-sidecar -run CommandsDoc")))
}
