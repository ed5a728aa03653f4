package placement

import (
	"fmt"
	"slices"

	"k8s.io/utils/cpuset"

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
// it passes over with a warning, as KubeVirt does (pkg/util/hardware/hw_utils.go,
// LookupDevicesNumaNodesWithWarnings).
func (b *builder) readCells() cells {
	c := cells{
		memnodes: map[topology.NodeID][]topology.CellID{},
		pinned:   map[topology.CellID][]cpuset.CPUSet{},
		nodes:    map[topology.NodeID]cpuset.CPUSet{},
	}
	for _, cell := range b.Domain.Cells {
		c.known = append(c.known, cell.ID)
	}
	for _, node := range b.Host.Nodes {
		c.nodes[node.ID] = node.CPUs
	}
	b.readMemnodes(&c)
	b.readPins(&c)
	return c
}

func (b *builder) readMemnodes(c *cells) {
	for _, m := range b.Domain.Memnodes {
		if !slices.Contains(c.known, m.Cell) {
			b.warn(reasons.CodeUnknownCell, nil, fmt.Sprintf("numatune/memnode names cell %d, which the guest has not", m.Cell))
			continue
		}
		nodes, err := topology.ParseIDs(m.Nodeset)
		if err != nil {
			b.warn(reasons.CodeBadNodeset, nil, fmt.Sprintf("numatune/memnode of cell %d: %v", m.Cell, err))
			continue
		}
		for _, n := range nodes.UnsortedList() {
			node := topology.NodeID(n)
			if !slices.Contains(c.memnodes[node], m.Cell) {
				c.memnodes[node] = append(c.memnodes[node], m.Cell)
			}
		}
	}
}

func (b *builder) readPins(c *cells) {
	pins := map[int]cpuset.CPUSet{}
	for _, pin := range b.Domain.Pins {
		cpus, err := topology.ParseIDs(pin.CPUSet)
		if err != nil {
			b.warn(reasons.CodeBadNodeset, nil, fmt.Sprintf("cputune/vcpupin of vCPU %d: %v", pin.VCPU, err))
			continue
		}
		pins[pin.VCPU] = cpus
	}
	for _, cell := range b.Domain.Cells {
		vcpus, err := topology.ParseIDs(cell.CPUs)
		if err != nil {
			b.warn(reasons.CodeBadNodeset, nil, fmt.Sprintf("cpus of cpu/numa/cell %d: %v", cell.ID, err))
			continue
		}
		for _, vcpu := range vcpus.UnsortedList() {
			if cpus, pinned := pins[vcpu]; pinned && !cpus.IsEmpty() {
				c.pinned[cell.ID] = append(c.pinned[cell.ID], cpus)
			}
		}
	}
}

// of is the cell that stands for a node of the host: the one that alone has
// memory on it, else the one with most of the vCPUs pinned to it. Without one
// it returns nil and the reason.
func (c cells) of(node topology.NodeID) (*topology.CellID, reasons.Reason) {
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
