package nvlink_test

import (
	"testing"

	"hook-sidecar/pkg/nvlink"
	"hook-sidecar/pkg/topology"
)

func TestSwitchFault(t *testing.T) {
	const a100, h100, b200 = 0x1af1, 0x22a3, 0x2900
	for _, test := range []struct {
		model          uint16
		gpus, switches int
		want           string
	}{
		{h100, 8, 4, ""},
		{h100, 8, 0, ""}, // shared NVSwitch
		{h100, 1, 0, ""},
		{h100, 0, 4, ""}, // the VM of Fabric Manager
		{h100, 8, 3,
			"3 NVSwitches beside 8 GPUs: of this board 8 GPUs take 4, and VMs with other numbers none, with Fabric Manager elsewhere"},
		{h100, 4, 4,
			"4 NVSwitches beside 4 GPUs: of this board 8 GPUs take 4, and VMs with other numbers none, with Fabric Manager elsewhere"},
		{h100, 1, 1,
			"1 NVSwitch beside 1 GPU: of this board 8 GPUs take 4, and VMs with other numbers none, with Fabric Manager elsewhere"},
		{a100, 16, 12, ""},
		{a100, 8, 6, ""},
		{a100, 4, 3, ""},
		{a100, 2, 1, ""},
		{a100, 4, 6,
			"6 NVSwitches beside 4 GPUs: of this board 2 GPUs take 1, 4 GPUs take 3, 8 GPUs take 6, 16 GPUs take 12, and VMs with other numbers none, with Fabric Manager elsewhere"},
		{b200, 4, 2, ""}, // no such board is known
	} {
		functions := []*topology.Function{
			nil, {Vendor: 0x15b3, Class: 0x020700}, {Vendor: 0x8086, Class: 0x068000, Device: h100},
		}

		for range test.gpus {
			functions = append(functions, &topology.Function{Vendor: 0x10de, Class: 0x030200})
		}

		for range test.switches {
			functions = append(functions, &topology.Function{
				Vendor: 0x10de, Class: 0x068000, Device: test.model,
			})
		}

		if got := nvlink.SwitchFault(functions); got != test.want {
			t.Errorf("%d GPUs, %d NVSwitches %04x: %q, want %q", test.gpus, test.switches,
				test.model, got, test.want)
		}
	}
}
