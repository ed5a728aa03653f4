package nvlink_test

import (
	"testing"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
	"hook-sidecar/test/expect"
)

// TestSwitchFault: only the numbers of the guide's tables go together in full passthrough.
func TestSwitchFault(t *testing.T) {
	const a100, h100, b200 = 0x1af1, 0x22a3, 0x2900
	for _, test := range []struct {
		model          uint16
		gpus, switches int
		want           string
	}{
		{h100, 8, 4, ""},
		{h100, 8, 0, ""},  // shared NVSwitch
		{h100, 16, 4, ""}, // MGX H20 NVL16
		{h100, 1, 0, ""},
		{h100, 0, 4, ""}, // the VM of Fabric Manager
		{h100, 8, 3,
			"3 NVSwitches beside 8 GPUs: of this board 8 GPUs take 4, 16 GPUs take 4, and VMs " +
				"with other numbers none, with Fabric Manager elsewhere"},
		{h100, 4, 4,
			"4 NVSwitches beside 4 GPUs: of this board 8 GPUs take 4, 16 GPUs take 4, and VMs " +
				"with other numbers none, with Fabric Manager elsewhere"},
		{h100, 1, 1,
			"1 NVSwitch beside 1 GPU: of this board 8 GPUs take 4, 16 GPUs take 4, and VMs with " +
				"other numbers none, with Fabric Manager elsewhere"},
		{a100, 16, 12, ""},
		{a100, 8, 6, ""},
		{a100, 4, 3, ""},
		{a100, 2, 1, ""},
		{a100, 4, 6,
			"6 NVSwitches beside 4 GPUs: of this board 2 GPUs take 1, 4 GPUs take 3, 8 GPUs " +
				"take 6, 16 GPUs take 12, and VMs with other numbers none, with Fabric Manager elsewhere"},
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

		if got := (nvlink.List{}).SwitchFault(functions, &topology.Host{}); got != test.want {
			t.Errorf("%d GPUs, %d NVSwitches %04x: %q, want %q", test.gpus, test.switches,
				test.model, got, test.want)
		}
	}
}

// vm returns so many GPUs and NVSwitches of an H100 board.
func vm(gpus, switches int) (functions []*topology.Function) {
	for range gpus {
		functions = append(functions, &topology.Function{
			Vendor: 0x10de, Class: 0x030200, Device: 0x2330,
		})
	}

	for range switches {
		functions = append(functions, &topology.Function{
			Vendor: 0x10de, Class: 0x068000, Device: 0x22a3,
		})
	}

	return functions
}

// TestIdleSwitches: Fabric Manager needs a driver of the host to have the NVSwitches, so where none
// has, a VM with several GPUs and no NVSwitch has NVLinks only through another VM.
func TestIdleSwitches(t *testing.T) {
	const (
		idle = "4 GPUs and none of the board's 4 NVSwitches, which no driver of the node uses " +
			"either: CUDA does not start unless Fabric Manager in another VM has activated these " +
			"GPUs' partition"
		whole = "8 GPUs and none of the board's 4 NVSwitches, which no driver of the node uses " +
			"either: CUDA does not start unless the VM gets 4 NVSwitches, or Fabric Manager in " +
			"another VM has activated these GPUs' partition"
	)
	virtual := vm(4, 0)
	for _, f := range virtual {
		f.PhysFn = &topology.Address{Bus: 1}
	}

	pcie := vm(4, 0)
	for _, f := range pcie {
		f.Device = 0x2331 // H100 PCIe
	}

	for name, test := range map[string]struct {
		functions []*topology.Function
		drivers   []string // of the host's NVSwitches
		want      string
	}{
		"unbound":         {vm(4, 0), []string{"", "", "", ""}, idle},
		"the whole board": {vm(8, 0), []string{"", "", "", ""}, whole},
		"for passthrough": {vm(4, 0), []string{"vfio-pci", "vfio-pci", "vfio-pci", "vfio-pci"}, idle},
		"the node's":      {vm(4, 0), []string{"nvidia-nvswitch", "nvidia-nvswitch"}, ""},
		"no PCI devices":  {vm(4, 0), nil, ""}, // B200, or a board without NVSwitches
		"one GPU":         {vm(1, 0), []string{"", "", "", ""}, ""},
		"vGPUs":           {virtual, []string{"", "", "", ""}, ""}, // full passthrough has none
		"no NVLink":       {pcie, []string{"", "", "", ""}, ""},
	} {
		host := &topology.Host{}
		for i, driver := range test.drivers {
			host.Functions = append(host.Functions, topology.Function{
				Address: topology.Address{Bus: uint8(i)}, Driver: driver,
				Vendor: 0x10de, Class: 0x068000, Device: 0x22a3,
			})
		}

		if got := (nvlink.List{}).SwitchFault(test.functions, host); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}

		list := nvlink.List{Partitions: []nvlink.Partition{{Modules: []nvlink.Module{1, 2}}}}
		if got := list.SwitchFault(test.functions, host); got != "" {
			t.Errorf("%s, with a list of partitions: %q", name, got)
		}
	}
}

// TestSharedSwitches: who lists partitions has the NVSwitches, so a VM with some of the GPUs has
// none. With all GPUs and NVSwitches it runs Fabric Manager itself, and the list is an old one.
func TestSharedSwitches(t *testing.T) {
	list, err := nvlink.Parse(expect.File(t, "../../../testdata/partitions/hgx-a100.json"))
	expect.NoError(t, err)
	for _, test := range []struct {
		gpus, switches int
		want           string
	}{
		{4, 0, ""},
		{0, 6, ""}, // the VM of Fabric Manager
		{4, 3, "3 NVSwitches beside 4 of 8 GPUs: the Fabric Manager that lists the node's NVLink " +
			"partitions needs the NVSwitches, and a VM with a partition none"},
		{8, 6, ""},
		{8, 5, "5 NVSwitches beside 8 GPUs: of this board 2 GPUs take 1, 4 GPUs take 3, 8 GPUs " +
			"take 6, 16 GPUs take 12, and VMs with other numbers none, with Fabric Manager elsewhere"},
	} {
		functions := vm(test.gpus, test.switches)
		for _, f := range functions {
			if f.IsNVSwitch() {
				f.Device = 0x1af1
			}
		}

		got := list.SwitchFault(functions, &topology.Host{})
		if got != test.want {
			t.Errorf("%d GPUs, %d NVSwitches: %q, want %q", test.gpus, test.switches, got, test.want)
		}
	}
}

// TestIsWhole: eight GPUs are a whole host with one board's NVSwitches, and half of one with two
// A100 boards' twelve. B200's NVSwitches are no PCI devices.
func TestIsWhole(t *testing.T) {
	for _, test := range []struct {
		model          uint16
		gpus, switches int
		want           bool
	}{
		{0x1af1, 8, 6, true}, {0x1af1, 8, 12, false}, {0x1af1, 16, 12, true}, {0x1af1, 4, 6, false},
		{0x22a3, 8, 4, true}, {0x22a3, 4, 4, false},
		{0, 8, 0, true}, {0, 16, 0, true}, {0, 7, 0, false},
	} {
		host := &topology.Host{}
		for range test.switches {
			host.Functions = append(host.Functions, topology.Function{
				Vendor: 0x10de, Class: 0x068000, Device: test.model,
			})
		}

		if got := nvlink.IsWhole(test.gpus, host); got != test.want {
			t.Errorf("%d GPUs of a host with %d NVSwitches %04x: %v, want %v", test.gpus,
				test.switches, test.model, got, test.want)
		}
	}
}
