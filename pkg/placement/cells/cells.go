// Package cells finds the NUMA cell of the guest that a NUMA node of the host is: from where the
// cells' memory is, and from where their vCPUs are pinned.
package cells

import (
	"fmt"
	"maps"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Map maps nodes of the host to cells of the guest.
type Map struct {
	cells []topology.CellID // ascending
	// the nodes that memory of a cell is on, per memnode
	memory map[topology.CellID][]topology.IDs
	// how many vCPUs of a cell are pinned to CPUs of a node and to no others
	pinned map[topology.CellID]map[topology.NodeID]int
}

// Read reads the memory and the vCPUs of a domain. A list that it cannot read
// it ignores with a warning, as KubeVirt does (pkg/util/hardware/hw_utils.go,
// LookupDevicesNumaNodesWithWarnings).
func Read(d *domain.Domain, host *topology.Host) (Map, []reasons.Finding) {
	m := Map{
		memory: map[topology.CellID][]topology.IDs{},
		pinned: map[topology.CellID]map[topology.NodeID]int{},
	}

	var warnings []reasons.Finding
	parse := func(list, where string, id int) (topology.IDs, bool) {
		ids, err := topology.ParseIDs(list)
		if err != nil {
			warnings = append(warnings,
				reasons.NewFinding(reasons.CodeBadNodeset, nil,
					fmt.Sprintf("%s %d: %v", where, id, err)))
		}

		return ids, err == nil
	}

	pins := map[int]topology.IDs{} // by vCPU
	for _, pin := range d.Pins {
		if cpus, ok := parse(pin.CPUSet, "cputune/vcpupin of vCPU", pin.VCPU); ok {
			pins[pin.VCPU] = cpus
		}
	}

	byNode := pinsByNode(pins, host)
	for _, cell := range d.Cells {
		m.cells = append(m.cells, cell.ID)
		if vcpus, ok := parse(cell.CPUs, "cpus of cpu/numa/cell", int(cell.ID)); ok {
			m.pinned[cell.ID] = countPins(vcpus, byNode)
		}
	}

	slices.Sort(m.cells)
	m.cells = slices.Compact(m.cells)

	for _, memnode := range d.Memnodes {
		if !slices.Contains(m.cells, memnode.Cell) {
			warnings = append(warnings, reasons.NewFinding(reasons.CodeUnknownCell, nil,
				fmt.Sprintf("numatune/memnode names cell %d, which does not exist in the guest",
					memnode.Cell)))
			continue
		}

		if nodes, ok := parse(memnode.Nodeset, "numatune/memnode of cell", int(memnode.Cell)); ok {
			m.memory[memnode.Cell] = append(m.memory[memnode.Cell], nodes)
		}
	}

	return m, warnings
}

// pinsByNode returns the vCPUs that are pinned to CPUs of each node and to no others, ascending.
func pinsByNode(pins map[int]topology.IDs, host *topology.Host) map[topology.NodeID][]int {
	byNode := map[topology.NodeID][]int{}
	for _, vcpu := range slices.Sorted(maps.Keys(pins)) {
		for _, node := range host.Nodes {
			if cpus := pins[vcpu]; !cpus.IsEmpty() && cpus.IsSubsetOf(node.CPUs) {
				byNode[node.ID] = append(byNode[node.ID], vcpu)
			}
		}
	}

	return byNode
}

// countPins returns how many of the vCPUs of a cell are pinned to each node. It searches, since a
// domain may have thousands of cells and of pins.
func countPins(vcpus topology.IDs, byNode map[topology.NodeID][]int) map[topology.NodeID]int {
	counts := map[topology.NodeID]int{}
	for node, pinned := range byNode {
		for low, high := range vcpus.Ranges() {
			from, _ := slices.BinarySearch(pinned, low)
			to, _ := slices.BinarySearch(pinned, high+1)
			counts[node] += to - from
		}
	}

	return counts
}

// Of returns the cell of a node of the host: the one that alone has memory on it, else the one
// with most of the vCPUs pinned to CPUs of the node and to no others, the lowest on a tie. Without
// one it returns nil and the reason.
func (m Map) Of(node topology.NodeID) (*topology.CellID, reasons.Reason) {
	var withMemory, mostPinned *topology.CellID
	memories, most := 0, 0
	for i, cell := range m.cells {
		if slices.ContainsFunc(m.memory[cell], func(nodes topology.IDs) bool {
			return nodes.Contains(int(node))
		}) {
			withMemory, memories = &m.cells[i], memories+1
		}
		if count := m.pinned[cell][node]; count > most {
			mostPinned, most = &m.cells[i], count
		}
	}

	switch {
	case memories == 1:
		return withMemory, reasons.Memnode
	case mostPinned != nil:
		return mostPinned, reasons.VCPUPin
	case memories > 1:
		return nil, reasons.AmbiguousCell
	}

	return nil, reasons.NoGuestCell
}
