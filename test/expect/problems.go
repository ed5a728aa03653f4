// Package expect compares what was read with what a test expects.
package expect

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/reasons"
)

// Problems checks that got has each problem of want, "CODE SOURCE: part of the
// text", and no other.
func Problems(t *testing.T, got []reasons.Problem, want []string) {
	t.Helper()
	expected := make([]bool, len(got))
	for _, w := range want {
		head, part, _ := strings.Cut(w, ": ")
		found := false
		for i, p := range got {
			if string(p.Code)+" "+p.Source == head && strings.Contains(p.Text, part) {
				found, expected[i] = true, true
			}
		}
		if !found {
			t.Errorf("no problem %q in %q", w, got)
		}
	}
	for i, p := range got {
		if !expected[i] {
			t.Errorf("unexpected problem %+v", p)
		}
	}
}
