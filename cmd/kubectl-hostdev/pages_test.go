package main

import (
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/pages"
)

func newRoot() *cobra.Command {
	return (&app{config: newKubeconfig()}).newRoot()
}

// TestPages parses every kubectl hostdev command of the pages.
func TestPages(t *testing.T) {
	pages.Check(t, "../..", func(args []string) (*cobra.Command, []string) {
		return newRoot(), args
	})
}

// TestGeneratedCommands compares docs/kubectl-hostdev.md with the help of the commands; -update
// rewrites it.
func TestGeneratedCommands(t *testing.T) {
	expect.Golden(t, *update, filepath.Join("..", "..", "docs", "kubectl-hostdev.md"),
		[]byte(pages.Reference(newRoot(), "cmd/kubectl-hostdev -run GeneratedCommands")))
}
