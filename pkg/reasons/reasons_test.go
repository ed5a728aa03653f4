package reasons_test

import (
	"testing"

	"hook-sidecar/pkg/reasons"
)

// Every reason has a meaning, for explain, and every warning a remedy.
func TestTablesAreComplete(t *testing.T) {
	for _, r := range reasons.Reasons() {
		if r.Meaning() == "" {
			t.Errorf("reason %s has no meaning", r)
		}
	}
	for _, c := range reasons.Codes() {
		if c.Remedy() == "" {
			t.Errorf("warning %s has no remedy", c)
		}
	}
}
