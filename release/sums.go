package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeSums writes SHA256SUMS, which `sha256sum -c` reads, over all files of a
// folder.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir) // by name
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(lines.String()), 0o644)
}
