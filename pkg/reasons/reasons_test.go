package reasons_test

import (
	"testing"

	"hook-sidecar/pkg/reasons"
)

// TestReasonsAndWarningsSayWhat: explain shows the meaning of each reason, and
// whoever reads a warning can do something about it.
func TestReasonsAndWarningsSayWhat(t *testing.T) {
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
