package placement

import (
	"fmt"
	"slices"

	"k8s.io/utils/cpuset"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// cells maps nodes of the host to cells of the guest.
type cells struct {
	known    []topology.CellID
	memnodes map[topology.NodeID][]topology.CellID // the cells whose memory is on a node
	pinned   map[topology.CellID][]cpuset.CPUSet   // the host CPUs of each vCPU of a cell
	nodes    map[topology.NodeID]cpuset.CPUSet
}

// readCells reads what the domain says of memory and vCPUs. What it cannot read
// it ignores with a warning, as KubeVirt does (pkg/util/hardware/hw_utils.go,
// LookupDevicesNumaNodesWithWarnings).
func readCells(d *domain.Domain, host *topology.Host) (cells, []reasons.Warning) {
	c := cells{nodes: map[topology.NodeID]cpuset.CPUSet{}}
	for _, cell := range d.Cells {
		c.known = append(c.known, cell.ID)
	}
	for _, node := range host.Nodes {
		c.nodes[node.ID] = node.CPUs
	}
	var unreadMemory, unreadPins []reasons.Warning
	c.memnodes, unreadMemory = readMemnodes(d, c.known)
	c.pinned, unreadPins = readPins(d)
	return c, append(unreadMemory, unreadPins...)
}

func readMemnodes(d *domain.Domain, known []topology.CellID) (map[topology.NodeID][]topology.CellID, []reasons.Warning) {
	memnodes := map[topology.NodeID][]topology.CellID{}
	var warnings []reasons.Warning
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
		for _, n := range nodes.UnsortedList() {
			node := topology.NodeID(n)
			if !slices.Contains(memnodes[node], m.Cell) {
				memnodes[node] = append(memnodes[node], m.Cell)
			}
		}
	}
	return memnodes, warnings
}

func readPins(d *domain.Domain) (map[topology.CellID][]cpuset.CPUSet, []reasons.Warning) {
	var warnings []reasons.Warning
	pins := map[int]cpuset.CPUSet{}
	for _, pin := range d.Pins {
		cpus, err := topology.ParseIDs(pin.CPUSet)
		if err != nil {
			warnings = append(warnings, badNodeset(fmt.Sprintf("cputune/vcpupin of vCPU %d", pin.VCPU), err))
			continue
		}
		pins[pin.VCPU] = cpus
	}
	pinned := map[topology.CellID][]cpuset.CPUSet{}
	for _, cell := range d.Cells {
		vcpus, err := topology.ParseIDs(cell.CPUs)
		if err != nil {
			warnings = append(warnings, badNodeset(fmt.Sprintf("cpus of cpu/numa/cell %d", cell.ID), err))
			continue
		}
		for _, vcpu := range vcpus.UnsortedList() {
			if cpus := pins[vcpu]; !cpus.IsEmpty() {
				pinned[cell.ID] = append(pinned[cell.ID], cpus)
			}
		}
	}
	return pinned, warnings
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
	named := c.memnodes[node]
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

// byPins is the cell with most vCPUs pinned to CPUs of the node and to no
// others; the lowest on a tie, nil where no vCPU is.
func (c cells) byPins(node topology.NodeID) *topology.CellID {
	var best *topology.CellID
	most := 0
	for _, cell := range slices.Sorted(slices.Values(c.known)) {
		count := 0
		for _, cpus := range c.pinned[cell] {
			if cpus.IsSubsetOf(c.nodes[node]) {
				count++
			}
		}
		if count > most {
			best, most = &cell, count
		}
	}
	return best
}
