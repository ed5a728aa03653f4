//go:build lane

package e2e

import (
	"slices"
	"testing"

	"hook-sidecar/test/tree"
)

// checkPathTypes: mirror keeps every path type; any layout keeps devices of two
// nodes apart and those of one node together. What is on no node is SYS to all.
func checkPathTypes(t *testing.T, i inner, node, guest map[string]tree.Spot) {
	t.Helper()
	var types []string
	for n, a := range i.devices {
		for _, b := range i.devices[n+1:] {
			want, got := tree.PathType(node[a.ID], node[b.ID]), tree.PathType(guest[a.ID],
				guest[b.ID])
			types = append(types, want)
			if want != got && (i.layout == "mirror" || want == "SYS" || got == "SYS") {
				t.Errorf("%s and %s: %s on the node, %s in the inner guest", a.ID, b.ID, want, got)
			}
		}
	}

	for _, each := range []string{"PIX", "PXB", "PHB", "NODE", "SYS"} {
		if !slices.Contains(types, each) {
			t.Errorf("no pair of the node's devices is %s, so that was not tried", each)
		}
	}
}
