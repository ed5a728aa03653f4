package placement

import "hook-sidecar/pkg/topology"

// slot is the devices that share a slot of the guest: one, or functions of one
// device, function 0 first.
type slot []*Decision

// wantedTree is a tree while it is made. Its controllers have no index yet, so no ID.
type wantedTree struct{ tree *topology.Tree }

func (b wantedTree) controller(parent *topology.Node, kind topology.NodeKind) *topology.Node {
	return b.tree.Add(parent, topology.Node{Kind: kind, Slot: topology.NoSlot})
}

func (b wantedTree) expander(cell *topology.CellID) *topology.Node {
	n := topology.Node{Kind: topology.Root, Slot: topology.NoSlot}
	if cell != nil {
		n.NUMA = new(int(*cell))
	}
	return b.tree.Add(nil, n)
}

// port adds a port with the devices of a slot.
func (b wantedTree) port(parent *topology.Node, kind topology.NodeKind, s slot) {
	port := b.controller(parent, kind)
	for i, d := range s {
		n := topology.Node{Kind: topology.Endpoint, ID: d.ID}
		if i > 0 {
			pci, _ := d.ID.PCI()
			n.Function = int(pci.Function)
		}
		b.tree.Add(port, n)
	}
}
