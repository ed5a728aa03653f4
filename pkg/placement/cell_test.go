package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// The host of KubeVirt's pkg/util/hardware/hw_utils_test.go: a device on node 0
// with CPUs 0-3 and one on node 1 with CPUs 4-7. Of the others one has no node,
// and one does not exist on the host.
var (
	onNode0 = topology.PCIDevice(topology.Address{Device: 1})
	onNode1 = topology.PCIDevice(topology.Address{Device: 2})
	noNode  = topology.PCIDevice(topology.Address{Device: 3})
	unknown = topology.PCIDevice(topology.Address{Bus: 0xff})
)

// ids returns a list of numbers; the zero IDs of an invalid one fails what follows.
func ids(list string) topology.IDs {
	set, _ := topology.ParseIDs(list)
	return set
}

func twoNodeHost() *topology.Host {
	device := func(id topology.DeviceID, node topology.Affinity) topology.Function {
		a, _ := id.PCI()
		return topology.Function{
			Address: a, Node: node, Root: topology.PCIeRoot(fmt.Sprintf("pci0000:%02x", a.Device)),
		}
	}
	return &topology.Host{
		Nodes: []topology.NUMANode{{ID: 0, CPUs: ids("0-3")}, {ID: 1, CPUs: ids("4-7")}},
		Functions: []topology.Function{
			device(onNode0, topology.OnNode(0)), device(onNode1, topology.OnNode(1)),
			device(noNode, topology.Affinity{}),
		},
	}
}

// cellCase is a guest, and the cell and reason of each device in it.
type cellCase struct {
	name     string
	cells    []domain.Cell
	memnodes []domain.Memnode
	pins     []domain.VCPUPin
	devices  []topology.DeviceID
	want     []string // "cell reason" per device, "- reason" without a cell
	warnings []string // "code: part of the text"
}

// twoCells returns cells of vCPUs 0-3 and 4-7.
func twoCells() []domain.Cell { return []domain.Cell{{ID: 0, CPUs: "0-3"}, {ID: 1, CPUs: "4-7"}} }

func TestCells(t *testing.T) {
	for _, cases := range [][]cellCase{pinCases(), memnodeCases(), badInputCases()} {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.run(t) })
		}
	}
}

func (c cellCase) run(t *testing.T) {
	d := &domain.Domain{
		Arch: "x86_64", Machine: "q35", Cells: c.cells, Memnodes: c.memnodes, Pins: c.pins,
	}

	for _, id := range c.devices {
		d.Hostdevs = append(d.Hostdevs, domain.Hostdev{ID: id, HasMode: true})
	}

	policy, _, err := policy.Resolve(policy.Source{})
	expect.NoError(t, err)
	plan, err := placement.New(placement.Input{Domain: d, Host: twoNodeHost(), Policy: policy})
	expect.NoError(t, err)
	var got []string
	for _, decision := range plan.Devices {
		cell := "-"
		if decision.Cell != nil {
			cell = string(rune('0' + *decision.Cell))
		}

		if placed := decision.Outcome == placement.Placed; placed != (decision.Cell != nil) {
			t.Errorf("device %s is %s with cell %s, want it placed exactly if it has a cell",
				decision.ID, decision.Outcome, cell)
		}

		got = append(got, cell+" "+string(decision.Reason))
	}

	expect.Same(t, c.want, got, "cells (-want +got)")
	if len(plan.Warnings) != len(c.warnings) {
		t.Errorf("warnings %v, want %q", plan.Warnings, c.warnings)
	}

	for _, want := range c.warnings {
		code, text, _ := strings.Cut(want, ": ")
		if !slices.ContainsFunc(plan.Warnings, func(w reasons.Finding) bool {
			return string(w.Code) == code && strings.Contains(w.Text, text) && w.Remedy != ""
		}) {
			t.Errorf("warnings %v, want %q", plan.Warnings, want)
		}
	}
}

// pinCases returns hw_utils_test.go's cases without memnodes: vCPU pins alone decide.
func pinCases() []cellCase {
	one := []topology.DeviceID{onNode0}
	return []cellCase{
		{name: "no devices", cells: twoCells(), pins: []domain.VCPUPin{{VCPU: 0, CPUSet: "0"}}},
		{name: "no NUMA", devices: one, want: []string{"- no-guest-numa"}},
		{name: "no NUMA with pins", devices: one, pins: []domain.VCPUPin{
			{VCPU: 0, CPUSet: "0"},
		}, want: []string{"- no-guest-numa"}},
		{name: "no NUMA and unknown to the host", devices: []topology.DeviceID{
			unknown,
		}, want: []string{"- no-sysfs"}},
		{name: "cells and no pins", cells: twoCells(), devices: one, want: []string{
			"- no-guest-cell",
		}},
		{
			name: "a pin on each node", cells: twoCells(),
			devices: []topology.DeviceID{onNode0, onNode1},
			pins:    []domain.VCPUPin{{VCPU: 0, CPUSet: "0"}, {VCPU: 4, CPUSet: "4"}},
			want:    []string{"0 vcpupin", "1 vcpupin"},
		},
		{
			name: "pins cross over", cells: twoCells(),
			devices: []topology.DeviceID{onNode0, onNode1},
			pins:    []domain.VCPUPin{{VCPU: 0, CPUSet: "4"}, {VCPU: 4, CPUSet: "0"}},
			want:    []string{"1 vcpupin", "0 vcpupin"},
		},
		{
			// LookupDeviceVCPUAffinity: 0:0 1:1 2:2 are all on node 0. KubeVirt
			// takes the cell of the first; here the one with most counts.
			name: "most vCPUs", cells: []domain.Cell{{ID: 0, CPUs: "0"}, {ID: 1, CPUs: "1-2"}},
			devices: one,
			pins: []domain.VCPUPin{
				{VCPU: 0, CPUSet: "0"}, {VCPU: 1, CPUSet: "1"}, {VCPU: 2, CPUSet: "2"},
			},
			want: []string{"1 vcpupin"},
		},
		{
			// LookupDeviceVCPUAffinity: 0:0 1:3 2:4 are two on node 0, one on node 1.
			name:  "a tie goes to the lowest",
			cells: []domain.Cell{{ID: 0, CPUs: "1"}, {ID: 1, CPUs: "0,2"}}, devices: one,
			pins: []domain.VCPUPin{
				{VCPU: 0, CPUSet: "0"}, {VCPU: 1, CPUSet: "3"}, {VCPU: 2, CPUSet: "4"},
			},
			want: []string{"0 vcpupin"},
		},
		{
			name: "the pinned vCPU is in no cell", cells: []domain.Cell{{ID: 0, CPUs: "1"}},
			devices: one,
			pins:    []domain.VCPUPin{{VCPU: 0, CPUSet: "0"}}, want: []string{"- no-guest-cell"},
		},
		{
			name:  "a vCPU pinned to both nodes counts for neither",
			cells: []domain.Cell{{ID: 0, CPUs: "0-1"}, {ID: 1, CPUs: "2"}}, devices: one,
			pins: []domain.VCPUPin{
				{VCPU: 0, CPUSet: "0-7"}, {VCPU: 1, CPUSet: "3,4"}, {VCPU: 2, CPUSet: "1-2"},
			},
			want: []string{"1 vcpupin"},
		},
		{
			name: "no node and unknown to the host", cells: twoCells(),
			devices: []topology.DeviceID{noNode, unknown},
			pins:    []domain.VCPUPin{{VCPU: 0, CPUSet: "0"}, {VCPU: 4, CPUSet: "4"}},
			want:    []string{"- no-host-node", "- no-sysfs"},
		},
	}
}

// memnodeCases returns hw_utils_test.go's cases where memory is bound to nodes.
func memnodeCases() []cellCase {
	one, both := []topology.DeviceID{onNode0}, []topology.DeviceID{onNode0, onNode1}
	pin := []domain.VCPUPin{{VCPU: 0, CPUSet: "0"}}
	return []cellCase{
		{
			name: "memnode without pins", cells: twoCells(), devices: one,
			memnodes: []domain.Memnode{{Cell: 1, Nodeset: "0"}}, want: []string{"1 memnode"},
		},
		{
			name: "memnode before pins", cells: twoCells(), devices: one, pins: pin,
			memnodes: []domain.Memnode{{Cell: 1, Nodeset: "0"}}, want: []string{"1 memnode"},
		},
		{
			// KubeVirt warns of it; here the pin decides without the memnode.
			name: "ambiguous memnode and a pin", cells: twoCells(), devices: one, pins: pin,
			memnodes: []domain.Memnode{{Cell: 0, Nodeset: "0"}, {Cell: 1, Nodeset: "0"}},
			want:     []string{"0 vcpupin"},
		},
		{
			name: "ambiguous memnode and no pin", cells: twoCells(), devices: one,
			memnodes: []domain.Memnode{{Cell: 0, Nodeset: "0"}, {Cell: 1, Nodeset: "0"}},
			want:     []string{"- ambiguous-cell"},
		},
		{
			name: "the same cell twice is not ambiguous", cells: twoCells(), devices: one,
			memnodes: []domain.Memnode{{Cell: 1, Nodeset: "0"}, {Cell: 1, Nodeset: "0-1"}},
			want:     []string{"1 memnode"},
		},
		{
			name:    "cells without vCPUs",
			cells:   []domain.Cell{{ID: 0, CPUs: "0-3"}, {ID: 1}, {ID: 2}},
			devices: one, memnodes: []domain.Memnode{{Cell: 0, Nodeset: "0"}},
			want: []string{"0 memnode"},
		},
		{
			// Node 0 is named by both, node 1 by cell 1 alone.
			name: "overlapping memnodes", cells: twoCells(), devices: both,
			memnodes: []domain.Memnode{{Cell: 0, Nodeset: "0"}, {Cell: 1, Nodeset: "0-1"}},
			want:     []string{"- ambiguous-cell", "1 memnode"},
		},
	}
}

// badInputCases returns hw_utils_test.go's cases with invalid lists: the valid ones are
// used, the others reported.
func badInputCases() []cellCase {
	one, both := []topology.DeviceID{onNode0}, []topology.DeviceID{onNode0, onNode1}
	pin := []domain.VCPUPin{{VCPU: 0, CPUSet: "0"}}
	return []cellCase{
		{
			name:  "memnode of a cell that does not exist",
			cells: []domain.Cell{{ID: 0, CPUs: "0-3"}}, devices: one, pins: pin,
			memnodes: []domain.Memnode{{Cell: 1, Nodeset: "0"}}, want: []string{"0 vcpupin"},
			warnings: []string{"unknown-cell: cell 1"},
		},
		{
			name: "bad nodeset, unknown cell and a good memnode", cells: twoCells(), devices: both,
			memnodes: []domain.Memnode{
				{Cell: 0, Nodeset: "invalid"}, {Cell: 2, Nodeset: "0"}, {Cell: 1, Nodeset: "1"},
			},
			want:     []string{"- no-guest-cell", "1 memnode"},
			warnings: []string{"bad-nodeset: memnode of cell 0", "unknown-cell: cell 2"},
		},
		{
			name: "bad vcpupin", cells: twoCells(), devices: both,
			pins:     []domain.VCPUPin{{VCPU: 0, CPUSet: "zero"}, {VCPU: 4, CPUSet: "4"}},
			want:     []string{"- no-guest-cell", "1 vcpupin"},
			warnings: []string{"bad-nodeset: vcpupin of vCPU 0"},
		},
		{
			name:  "bad cpus of a cell",
			cells: []domain.Cell{{ID: 0, CPUs: "3-0"}, {ID: 1, CPUs: "4-7"}}, devices: both,
			pins:     []domain.VCPUPin{{VCPU: 0, CPUSet: "0"}, {VCPU: 4, CPUSet: "4"}},
			want:     []string{"- no-guest-cell", "1 vcpupin"},
			warnings: []string{"bad-nodeset: cell 0"},
		},
	}
}
