package reasons_test

import (
	"testing"

	"hook-sidecar/pkg/reasons"
)

// Every reason has a meaning, for explain.
func TestTableIsComplete(t *testing.T) {
	for _, r := range reasons.Reasons() {
		if r.Meaning() == "" {
			t.Errorf("reason %s has no meaning", r)
		}
	}
}
