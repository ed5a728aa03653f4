package placement

import (
	"strconv"

	"hook-sidecar/pkg/topology"
)

// slot is the devices that share a slot of the guest: one, or functions of one
// device, function 0 first.
type slot []Decision

// planned is the ID of a controller that has no index yet.
type planned int

func (p planned) String() string { return "planned controller " + strconv.Itoa(int(p)) }

// wantedTree is a tree while it is made.
type wantedTree struct {
	tree        *topology.Tree
	controllers int
}

func (b *wantedTree) controller(parent *topology.Node, kind topology.NodeKind) *topology.Node {
	b.controllers++
	return b.tree.Add(parent, topology.Node{Kind: kind, ID: planned(b.controllers)})
}

// port adds a port with the devices of a slot.
func (b *wantedTree) port(parent *topology.Node, kind topology.NodeKind, s slot) {
	port := b.controller(parent, kind)
	for i, d := range s {
		function := 0
		if pci, _ := d.ID.PCI(); i > 0 {
			function = int(pci.Function)
		}
		b.tree.Add(port, topology.Node{Kind: topology.Endpoint, ID: d.ID, Function: function})
	}
}
