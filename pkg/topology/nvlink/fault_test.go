package nvlink_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
	"hook-sidecar/test/expect"
)

// TestFault asks for every set of the GPUs of each board: a fault is said of those that are no
// partition, and it names all partitions of the set's size.
func TestFault(t *testing.T) {
	for board, gpuCount := range map[string]int{
		"hgx-a100": 8, "hgx-h100": 8, "hgx-b200": 8, "hgx-a100-two": 16,
	} {
		list, err := nvlink.Parse(expect.File(t, "../../../testdata/partitions/"+board+".json"))
		expect.NoError(t, err)

		legal, sizes := map[int]bool{}, map[int]int{}
		for _, p := range list.Partitions {
			set := 0
			for _, m := range p.Modules {
				set |= 1 << (m - 1)
				list.Addresses[m] = topology.Address{Bus: uint8(0x80 - m)}
			}

			legal[set] = true
			sizes[len(p.Modules)]++
		}

		for set := 1; set < 1<<gpuCount; set++ {
			var gpus []topology.Address
			for m := range nvlink.Module(gpuCount) {
				if set>>m&1 == 1 {
					gpus = append(gpus, list.Addresses[m+1])
				}
			}

			fault := list.Fault(gpus)
			if (fault == "") != legal[set] {
				t.Errorf("%s, set %08b: %q", board, set, fault)
			}

			if named := strings.Count(fault, "("); fault != "" && named != sizes[len(gpus)]+1 {
				t.Errorf("%s, set %08b: %d partitions are named, want %d", board, set, named-1,
					sizes[len(gpus)])
			}
		}
	}
}

// TestFaultWithoutAddresses: in a service VM Fabric Manager knows no addresses, and only the number
// of GPUs can be wrong. GPUs that the list does not have are not compared.
func TestFaultWithoutAddresses(t *testing.T) {
	list, err := nvlink.Parse(expect.File(t, "../../../testdata/partitions/hgx-h100.json"))
	expect.NoError(t, err)
	gpus := []topology.Address{{Bus: 1}, {Bus: 2}, {Bus: 3}}
	const three = "its 3 GPUs are not an NVLink partition, so CUDA may not start (802, system " +
		"not yet initialized); none of this node has 3 GPUs"
	if got := list.Fault(gpus); got != three {
		t.Errorf("three: %q, want %q", got, three)
	}

	if got := list.Fault(gpus[:2]); got != "" {
		t.Errorf("two: %q", got)
	}

	if got := (nvlink.List{}).Fault(gpus); got != "" {
		t.Errorf("no list: %q", got)
	}

	list.Addresses[1] = topology.Address{Bus: 9}
	if got := list.Fault(gpus); got != "" {
		t.Errorf("other GPUs: %q", got)
	}
}

// TestFaultOfUnlisted: of a GPU that failed Fabric Manager lists no partition, so a VM with it and
// a whole partition is a fault, too. A GPU of a board without NVSwitches is none of its concern.
func TestFaultOfUnlisted(t *testing.T) {
	list, err := nvlink.Parse(expect.File(t, "../../../testdata/partitions/hgx-h100.json"))
	expect.NoError(t, err)
	list.Addresses[1], list.Addresses[3] = topology.Address{Bus: 1}, topology.Address{Bus: 3}
	if got := list.Fault([]topology.Address{{Bus: 1}, {Bus: 3}}); got != "" {
		t.Errorf("a partition: %q", got)
	}

	if got := list.Fault([]topology.Address{{Bus: 1}, {Bus: 3}, {Bus: 8}}); got == "" {
		t.Error("a partition and an unlisted GPU: no fault")
	}

	for device, want := range map[uint16]bool{0x2330: true, 0x26b9: false} { // H100, L40S
		f := topology.Function{Vendor: 0x10de, Device: device, Address: topology.Address{Bus: 8}}
		if got := list.Concerns(&f); got != want {
			t.Errorf("%04x: %v, want %v", device, got, want)
		}
	}
}

// TestNumberFault: without a list only a number of GPUs that no board with NVSwitches has is wrong.
func TestNumberFault(t *testing.T) {
	const h100, b200, l40s = 0x2330, 0x2901, 0x26b9
	for _, test := range []struct {
		model   uint16
		count   int
		isFault bool
	}{
		{h100, 1, false}, {h100, 2, false}, {h100, 4, false}, {h100, 8, false},
		{h100, 3, false}, // of a board with four GPUs
		{h100, 5, true}, {h100, 6, true}, {h100, 7, true}, {h100, 15, true}, {h100, 16, false},
		{h100, 17, false},
		{b200, 3, true}, {b200, 4, false}, {b200, 8, false},
		{l40s, 3, false}, {l40s, 7, false},
	} {
		functions := []*topology.Function{nil}
		for range test.count {
			functions = append(functions, &topology.Function{Vendor: 0x10de, Device: test.model})
		}

		if got := nvlink.NumberFault(functions); (got != "") != test.isFault {
			t.Errorf("%d of %04x: %q", test.count, test.model, got)
		}
	}
}

// TestIsJoined: of GPUs 1, 2 and 3 of an H100 board 1 and 3 are a partition, so 2 has no NVLink.
func TestIsJoined(t *testing.T) {
	list, err := nvlink.Parse(expect.File(t, "../../../testdata/partitions/hgx-h100.json"))
	expect.NoError(t, err)
	gpus := make([]topology.Address, 3)
	for i := range gpus {
		gpus[i] = topology.Address{Bus: uint8(i + 1)}
		list.Addresses[nvlink.Module(i+1)] = gpus[i]
	}

	for i, want := range []bool{true, false, true} {
		if got := list.IsJoined(gpus[i], gpus); got != want {
			t.Errorf("GPU %d: %v, want %v", i+1, got, want)
		}
	}

	if !(nvlink.List{}).IsJoined(gpus[1], gpus) {
		t.Error("without a list a GPU has no NVLink")
	}
}
