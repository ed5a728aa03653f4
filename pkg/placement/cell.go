package placement

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// cells maps nodes of the host to cells of the guest.
type cells struct {
	known    []topology.CellID
	memories []memory
	pinned   map[topology.CellID]map[topology.NodeID]int // how many vCPUs of a cell are pinned to CPUs of a node and to no others
}

// memory is the nodes that memory of a cell is on.
type memory struct {
	cell  topology.CellID
	nodes topology.IDs
}

// readCells reads what the domain says of memory and vCPUs. What it cannot read
// it ignores with a warning, as KubeVirt does (pkg/util/hardware/hw_utils.go,
// LookupDevicesNumaNodesWithWarnings).
func readCells(d *domain.Domain, host *topology.Host) (cells, []reasons.Warning) {
	var c cells
	for _, cell := range d.Cells {
		c.known = append(c.known, cell.ID)
	}
	var unreadMemory, unreadPins []reasons.Warning
	c.memories, unreadMemory = readMemnodes(d, c.known)
	c.pinned, unreadPins = readPins(d, host)
	return c, append(unreadMemory, unreadPins...)
}

func readMemnodes(d *domain.Domain, known []topology.CellID) (memories []memory, warnings []reasons.Warning) {
	for _, m := range d.Memnodes {
		if !slices.Contains(known, m.Cell) {
			warnings = append(warnings, reasons.NewWarning(reasons.CodeUnknownCell, nil,
				fmt.Sprintf("numatune/memnode names cell %d, which does not exist in the guest", m.Cell)))
			continue
		}
		nodes, err := topology.ParseIDs(m.Nodeset)
		if err != nil {
			warnings = append(warnings, badNodeset(fmt.Sprintf("numatune/memnode of cell %d", m.Cell), err))
			continue
		}
		memories = append(memories, memory{m.Cell, nodes})
	}
	return memories, warnings
}

func readPins(d *domain.Domain, host *topology.Host) (map[topology.CellID]map[topology.NodeID]int, []reasons.Warning) {
	var warnings []reasons.Warning
	pins := make(map[int]topology.IDs, len(d.Pins)) // by vCPU
	for _, pin := range d.Pins {
		cpus, err := topology.ParseIDs(pin.CPUSet)
		if err != nil {
			warnings = append(warnings, badNodeset(fmt.Sprintf("cputune/vcpupin of vCPU %d", pin.VCPU), err))
			continue
		}
		pins[pin.VCPU] = cpus
	}
	pinned := map[topology.CellID]map[topology.NodeID]int{}
	for _, cell := range d.Cells {
		vcpus, err := topology.ParseIDs(cell.CPUs)
		if err != nil {
			warnings = append(warnings, badNodeset(fmt.Sprintf("cpus of cpu/numa/cell %d", cell.ID), err))
			continue
		}
		pinned[cell.ID] = countPins(vcpus, pins, host)
	}
	return pinned, warnings
}

// countPins is how many of the vCPUs are pinned to CPUs of each node, and to no others.
func countPins(vcpus topology.IDs, pins map[int]topology.IDs, host *topology.Host) map[topology.NodeID]int {
	counts := map[topology.NodeID]int{}
	for vcpu, cpus := range pins {
		if cpus.IsEmpty() || !vcpus.Contains(vcpu) {
			continue
		}
		for _, node := range host.Nodes {
			if cpus.IsSubsetOf(node.CPUs) {
				counts[node.ID]++
			}
		}
	}
	return counts
}

func badNodeset(where string, err error) reasons.Warning {
	return reasons.NewWarning(reasons.CodeBadNodeset, nil, fmt.Sprintf("%s: %v", where, err))
}

// findCell is the cell of a device, with the reason why it is that one, or why
// it has none. adoptCells may change it.
func findCell(in Input, d Device, cells cells) (*topology.CellID, reasons.Reason) {
	node, known := d.HostNode.Node()
	switch {
	case !in.Host.Shows(d.ID):
		return nil, reasons.NoSysfs // whatever the guest has
	case len(in.Domain.Cells) == 0:
		return nil, reasons.NoGuestNUMA
	case !known:
		return nil, reasons.NoHostNode
	}
	return cells.forNode(node)
}

// forNode is the cell of a node of the host: the one that alone has
// memory on it, else the one with most of the vCPUs pinned to it. Without one
// it returns nil and the reason.
func (c cells) forNode(node topology.NodeID) (*topology.CellID, reasons.Reason) {
	named := c.withMemory(node)
	if len(named) == 1 {
		return &named[0], reasons.Memnode
	}
	if cell := c.byPins(node); cell != nil {
		return cell, reasons.VCPUPin
	}
	if len(named) > 1 {
		return nil, reasons.AmbiguousCell
	}
	return nil, reasons.NoGuestCell
}

// withMemory is the cells with memory on a node, each once.
func (c cells) withMemory(node topology.NodeID) []topology.CellID {
	var named []topology.CellID
	for _, m := range c.memories {
		if m.nodes.Contains(int(node)) && !slices.Contains(named, m.cell) {
			named = append(named, m.cell)
		}
	}
	return named
}

// byPins is the cell with most vCPUs pinned to CPUs of the node and to no
// others; the lowest on a tie, nil where no vCPU is.
func (c cells) byPins(node topology.NodeID) *topology.CellID {
	var best *topology.CellID
	most := 0
	for _, cell := range slices.Sorted(slices.Values(c.known)) {
		if count := c.pinned[cell][node]; count > most {
			best, most = &cell, count
		}
	}
	return best
}
