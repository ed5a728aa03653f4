package topology_test

import (
	"testing"

	"hook-sidecar/pkg/topology"
)

func TestNeedsAtomics(t *testing.T) {
	for name, test := range map[string]struct {
		function *topology.Function
		want     bool
	}{
		"MI300X":       {&topology.Function{Vendor: 0x1002, Device: 0x74a1, Class: 0x120000}, true},
		"Radeon":       {&topology.Function{Vendor: 0x1002, Device: 0x744c, Class: 0x030000}, true},
		"Radeon, 0380": {&topology.Function{Vendor: 0x1002, Device: 0x67df, Class: 0x038000}, true},
		"accelerator of another programming interface": {&topology.Function{
			Vendor: 0x1002, Device: 0x740f, Class: 0x120001,
		}, true},
		"MI300A":          {&topology.Function{Vendor: 0x1002, Device: 0x74a0, Class: 0x120000}, false},
		"audio of Radeon": {&topology.Function{Vendor: 0x1002, Device: 0xab30, Class: 0x040300}, false},
		"H100":            {&topology.Function{Vendor: 0x10de, Device: 0x2330, Class: 0x030200}, false},
		"virtual function": {&topology.Function{
			Vendor: 0x1002, Device: 0x73a1, Class: 0x030000, PhysFn: &topology.Address{Bus: 3},
		}, false},
		"virtual function, as a guest shows it": {&topology.Function{
			Vendor: 0x1002, Device: 0x74b5, Class: 0x120000,
		}, false},
		"not shown": {nil, false},
	} {
		if got := test.function.NeedsAtomics(); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
