package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// guestNUMA checks whether the guest has NUMA cells on known host nodes.
func guestNUMA(in Inputs) []Result {
	// Without a domain the VMI says what the guest will have.
	switch {
	case in.Plan == nil && in.VMI == nil, in.Plan != nil && !in.hasDevices():
		return nil
	case in.Plan == nil && len(in.missingForNUMA()) > 0:
		return in.noCells("the guest will have no NUMA cells")
	case in.Plan == nil:
		return pass("the VMI asks for guest NUMA cells")
	}

	d := in.Plan.Domain()
	cells := words.Counted(len(d.CPUCells()), "guest NUMA cell")
	switch {
	case len(d.Cells) == 0:
		return in.noCells("the guest has no NUMA cells")
	case len(d.Memnodes) == 0 && len(d.Pins) == 0:
		return warn("bind cells to nodes with numatune/memnode, or pin the vCPUs",
			"%s, on unknown host nodes", cells)
	}

	return pass("%s", cells)
}

// vcpuNodes checks whether the vCPUs of each device's cell are pinned to its NUMA node. Of a
// device without a cell, or in a cell without pins, it looks at all vCPUs.
func vcpuNodes(in Inputs) []Result {
	all := in.pinnedNodes(nil)
	if len(all) == 0 {
		return nil
	}

	far := map[string][]topology.DeviceID{}
	for _, d := range in.Plan.Devices {
		vcpus, pinned := "the vCPUs", all
		if nodes := in.pinnedNodes(d.Cell); d.Cell != nil && len(nodes) > 0 {
			vcpus, pinned = fmt.Sprintf("the vCPUs of cell %d", *d.Cell), nodes
		}

		if node, known := d.HostNode.Node(); known && !pinned[node] && in.hasCPUs(node) {
			text := fmt.Sprintf("on node %d, %s are pinned to %s", node, vcpus, joined(pinned))
			far[text] = append(far[text], d.ID)
		}
	}

	var found []Result
	for _, text := range slices.Sorted(maps.Keys(far)) {
		found = append(found,
			warn(reasons.NoGuestCell.Remedy(), "%s %s", areOrIs(far[text]), text)...)
	}

	return orPass(found, "pinned to %s, as the devices are", joined(all))
}

// pinnedNodes returns the nodes with CPUs that the vCPUs of a cell, or for nil all vCPUs, are
// pinned to. The plan warns of lists that cannot be read.
func (in Inputs) pinnedNodes(cell *topology.CellID) map[topology.NodeID]bool {
	nodes := map[topology.NodeID]bool{}
	d := in.Plan.Domain()
	var vcpus topology.IDs
	for _, c := range d.Cells {
		if cell != nil && c.ID == *cell {
			vcpus, _ = topology.ParseIDs(c.CPUs)
		}
	}

	for _, pin := range d.Pins {
		cpus, err := topology.ParseIDs(pin.CPUSet)
		if err != nil || cell != nil && !vcpus.Contains(pin.VCPU) {
			continue
		}

		for _, node := range in.Host.Nodes {
			if slices.ContainsFunc(slices.Collect(cpus.All()), node.CPUs.Contains) {
				nodes[node.ID] = true
			}
		}
	}

	return nodes
}

// hasCPUs reports whether a vCPU could be pinned to the node.
func (in Inputs) hasCPUs(node topology.NodeID) bool {
	return slices.ContainsFunc(in.Host.Nodes, func(n topology.NUMANode) bool {
		return n.ID == node && !n.CPUs.IsEmpty()
	})
}

// joined formats numbers of nodes: "node 0", "nodes 0, 1".
func joined(nodes map[topology.NodeID]bool) string {
	texts := topology.Map(slices.Sorted(maps.Keys(nodes)), func(n topology.NodeID) string {
		return strconv.Itoa(int(n))
	})
	if len(texts) == 1 {
		return "node " + texts[0]
	}
	return "nodes " + strings.Join(texts, ", ")
}

// noCells returns a FAIL with layout numa, which then places no device. Other layouts still place
// devices of one PCIe root together.
func (in Inputs) noCells(found string) []Result {
	remedy := ""
	if missing := in.missingForNUMA(); len(missing) > 0 {
		remedy = "set " + strings.Join(missing, " and ") + " in the VMI"
	}

	isUnplaced := func(d placement.Decision) bool { return d.Outcome == placement.Unplaced }
	isLost := in.Plan == nil || slices.ContainsFunc(in.Plan.Devices, isUnplaced)
	switch {
	case in.isOneNode():
		return note(cmp.Or(remedy, findings.CellsRemedy()),
			"%s: the host has one node, so they would tell the guest nothing about its devices", found)
	case in.layout().IsPerCell() && isLost:
		return fail(cmp.Or(remedy, reasons.NoGuestNUMA.Remedy()),
			"%s, so layout numa cannot place a device", found)
	}

	return warn(cmp.Or(remedy, findings.CellsRemedy()),
		"%s, so it sees no NUMA node of a device", found)
}

// isOneNode reports whether all devices are equally near to all CPUs of the host, as far as sysfs shows
// it, and auto has found no finer tree: the guest without cells has what the host has.
func (in Inputs) isOneNode() bool {
	return len(in.Host.Nodes) == 1 && in.Policy.Layout == policy.LayoutAuto && in.layout().IsPerCell()
}

// missingForNUMA returns the fields that the VMI lacks for NUMA cells (KubeVirt
// pkg/virt-launcher/virtwrap/converter/vcpu, guestMappingPassthrough).
func (in Inputs) missingForNUMA() []string {
	if in.VMI == nil {
		return nil
	}

	var missing []string
	if !in.VMI.DedicatedCPU {
		missing = append(missing, "spec.domain.cpu.dedicatedCpuPlacement")
	}

	if !in.VMI.Hugepages {
		missing = append(missing, "spec.domain.memory.hugepages")
	}

	if !in.VMI.GuestMappingPassthrough {
		missing = append(missing, "spec.domain.cpu.numa.guestMappingPassthrough")
	}

	return missing
}
