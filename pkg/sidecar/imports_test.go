package sidecar

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestImports: what answers a call needs none of the tools, not even through another package.
// Import rules show direct imports only.
func TestImports(t *testing.T) {
	tools := []string{
		"tools", "archive", "cli", "cluster", "collect", "doctor", "fit", "paste", "picture",
		"recorded", "redact", "sample", "verdict", "why",
	}

	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}

	for imported := range strings.Lines(string(out)) {
		path, isOwn := strings.CutPrefix(strings.TrimSpace(imported), "hook-sidecar/pkg/")
		parts := strings.Split(path, "/")
		isTool := func(name string) bool { return slices.Contains(parts, name) }
		if isOwn && slices.ContainsFunc(tools, isTool) {
			t.Errorf("the answer to a call needs %s", path)
		}
	}
}
