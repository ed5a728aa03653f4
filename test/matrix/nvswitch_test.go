package matrix_test

import (
	"slices"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/tree"
)

// TestNVSwitches: the NVSwitches of a VM are placed as on the host, like any device. Those of the
// H100 host are under one switch on node 1, and no GPU has that switch's PCIe root. Layout mirror
// builds the switch, root their PCIe root, and numa the node alone.
func TestNVSwitches(t *testing.T) {
	host := matrix.Sysfs{FS: readHost(t, "../../testdata/hosts/x86-2n8g-hgx-h100.txtar")}
	devices, err := host.Endpoints()
	expect.NoError(t, err)

	var gpus, switches []string
	for _, id := range devices {
		switch {
		case isClass(host, id, "0x0680"):
			switches = append(switches, id)
		case isClass(host, id, "0x0302"):
			gpus = append(gpus, id)
		}
	}

	if len(gpus) != 8 || len(switches) != 4 {
		t.Fatalf("%d GPUs and %d NVSwitches, want 8 and 4", len(gpus), len(switches))
	}

	domain := matrix.Domain(matrix.GuestNUMA{{0}, {1}}, slices.Concat(gpus, switches))
	for layout, want := range map[policy.Layout]struct{ beside, sameNode string }{
		policy.LayoutMirror: {"PIX", "NODE"},
		policy.LayoutRoot:   {"PHB", "NODE"},
		policy.LayoutNUMA:   {"PHB", "PHB"},
	} {
		after, _ := run(t, plan.Planner{Sysfs: host.FS}, withLayout(layout), domain)
		guest, err := tree.Read(after)
		expect.NoError(t, err)

		for i, a := range switches {
			for _, b := range switches[:i] {
				if got := guestType(guest, a, b); got != want.beside {
					t.Errorf("%s: %s and %s are %s, want %s", layout, a, b, got, want.beside)
				}
			}

			for _, gpu := range gpus {
				spot, _, err := host.Spot(gpu)
				expect.NoError(t, err)
				path := want.sameNode
				if spot.Node == 0 {
					path = "SYS"
				}

				if got := guestType(guest, a, gpu); got != path {
					t.Errorf("%s: %s and GPU %s are %s, want %s", layout, a, gpu, got, path)
				}
			}
		}

		again := plan.Planner{Sysfs: host.FS, Source: policy.Source{Flags: withLayout(layout)}}.
			Read(plan.Request{Domain: after}).Plan()
		if again.Err != nil || string(again.Domain) != string(after) {
			t.Errorf("%s: a second call changes the domain, or fails: %v", layout, again.Err)
		}
	}
}
