package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
)

// TestLost runs scripts in place of QEMU: a guest that a signal or a reset ends is started once
// more, and one that QEMU refuses is not.
func TestLost(t *testing.T) {
	t.Setenv(oracle.RootVariable, "")
	for _, c := range []struct {
		name, first, second string // what QEMU does
		boots               int
		refused, lost       bool // the error
	}{
		{"well", "echo GUEST-END", "", 1, false, false},
		{"signal", "kill -ABRT $$", "echo GUEST-END", 2, false, false},
		{"reset", "echo Linux", "echo GUEST-END", 2, false, false},
		{"reset twice", "echo Linux", "echo Linux", 2, false, true},
		{"refused", "exit 1", "", 1, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			program := filepath.Join(dir, "qemu")
			script := fmt.Sprintf(`#!/bin/sh
cd %s
[ -e again ] || { touch again; %s; exit; }
%s
`, dir, c.first, c.second)
			expect.NoError(t, os.WriteFile(program, []byte(script), 0o755))

			lab := &Lab{system: System{program: program}}
			_, err := lab.Boot(t.Context(), nil, SeaBIOS)
			if errors.Is(err, ErrLost) != c.lost || (err != nil) != (c.lost || c.refused) {
				t.Error(err)
			}
			if boots, retries := lab.Counts(); boots != c.boots || retries != c.boots-1 {
				t.Errorf("%d boots, %d retries, want %d boots", boots, retries, c.boots)
			}
		})
	}
}
