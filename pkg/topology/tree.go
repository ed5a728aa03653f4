package topology

import (
	"fmt"
	"iter"
	"slices"
)

// Tree is a PCI Express tree, of a host or of a guest: PCIe roots, the bridges under them, and the
// devices at the ends.
type Tree struct {
	Roots       []*Node
	devices     map[DeviceID]*Node
	controllers []*Node // by Index
	others      map[ID]*Node
	spare       []Node // for the nodes that follow: one allocation for many
}

// ID names a node within its tree. It is a comparable value:
//
//	PCIeRoot   a root of a host
//	Address    a bridge of a host, or the function that mediated devices are parts of
//	Index      a root bus or a bridge of a guest
//	DeviceID   a passthrough device
//
// and others of a package's own. A node that is never looked up by its ID may have none.
type ID interface{ String() string }

// Index is the index of a PCI controller in a libvirt domain; 0 is the root bus (pcie.0).
type Index int

// String returns libvirt's name for the controller, "pci.3".
func (i Index) String() string { return fmt.Sprintf("pci.%d", int(i)) }

// NodeKind is the kind of a node of a tree.
type NodeKind int

// The kinds of node.
const (
	Root           NodeKind = iota // a host bridge; in a guest the root bus or an expander bus
	RootPort                       // a port of a root
	UpstreamPort                   // the upper end of a switch
	DownstreamPort                 // a port of a switch
	Bridge                         // any other bridge: to conventional PCI
	MDEVParent                     // the PCI function that mediated devices are parts of
	Endpoint                       // a device
)

// IsPort reports whether a link leaves a node of the kind downwards.
func (k NodeKind) IsPort() bool { return k == RootPort || k == DownstreamPort }

// IsSwitch reports whether nvidia-smi and NCCL count a node of the kind as a switch between the
// devices under it, as they do a bridge to conventional PCI.
func (k NodeKind) IsSwitch() bool { return k == UpstreamPort || k == Bridge }

// Node is a node of a tree. Tree.Add makes it, and it does not change in a complete tree.
type Node struct {
	Kind NodeKind
	ID   ID
	// NUMA is the NUMA node of the host or the cell of the guest of this node itself; see
	// NUMANode.
	NUMA *int
	// Slot distinguishes the devices of one bus: their functions share it. It is negative where
	// it is unknown.
	Slot     int
	Function int
	Parent   *Node // nil at the top
	Children []*Node

	depth    int // nodes above it
	switches int // of these, switches
}

// NoSlot is the Slot of a node without an address.
const NoSlot = -1

// NewTree returns an empty tree with room for passthrough devices, and for other nodes with an ID
// than controllers.
func NewTree(devices, others int) *Tree {
	return &Tree{devices: make(map[DeviceID]*Node, devices), others: make(map[ID]*Node, others)}
}

// Add adds a node under a parent, or at the top without one. A node that the tree has already
// stays as it is.
func (t *Tree) Add(parent *Node, n Node) *Node {
	if known := t.Node(n.ID); known != nil {
		return known
	}

	// Nodes come from blocks, and no block grows: pointers to its nodes have to stay valid.
	if len(t.spare) == 0 {
		t.spare = make([]Node, 32)
	}

	added := &t.spare[0]
	t.spare = t.spare[1:]
	*added = n
	added.Parent, added.Children = parent, nil

	switch id := n.ID.(type) {
	case nil:
	case DeviceID:
		t.devices[id] = added
	case Index:
		if missing := int(id) + 1 - len(t.controllers); missing > 0 {
			t.controllers = append(t.controllers, make([]*Node, missing)...)
		}
		t.controllers[id] = added

	default:
		t.others[id] = added
	}

	if parent == nil {
		t.Roots = append(t.Roots, added)
		return added
	}

	// Depth and switches are counted now and once: a parent is in its place before it gets
	// children, and stays there.
	parent.Children = append(parent.Children, added)
	added.depth, added.switches = parent.depth+1, parent.switches
	if parent.Kind.IsSwitch() {
		added.switches++
	}

	return added
}

// Node returns the node with an ID, or nil.
func (t *Tree) Node(id ID) *Node {
	switch id := id.(type) {
	case nil:
		return nil
	case DeviceID: // a map of these is several times as fast as one of interfaces
		return t.devices[id]
	case Index:
		if id < 0 || int(id) >= len(t.controllers) {
			return nil
		}
		return t.controllers[id]
	}

	return t.others[id]
}

// Devices returns the nodes of devices, in their order; nil for those that the tree lacks.
func (t *Tree) Devices(ids []DeviceID) []*Node {
	return Map(ids, func(id DeviceID) *Node { return t.devices[id] })
}

// Only returns the tree of the endpoints in ids and the nodes above them, in the order of ids.
func (t *Tree) Only(ids []DeviceID) *Tree {
	part := NewTree(len(ids), len(ids))
	for _, id := range ids {
		var at *Node
		for _, n := range t.Node(id).Path() {
			at = part.Add(at, *n)
		}
	}

	return part
}

// Path returns the nodes from the top to n, both included; nil for nil.
func (n *Node) Path() []*Node {
	if n == nil {
		return nil
	}

	path := make([]*Node, n.depth+1)
	for at := n; at != nil; at = at.Parent {
		path[at.depth] = at
	}

	return path
}

// Shared returns the part from the top on that all paths have; nil without paths.
func Shared[T comparable](paths ...[]T) []T {
	if len(paths) == 0 {
		return nil
	}

	shared := paths[0]
	for _, path := range paths[1:] {
		n := 0
		for n < min(len(shared), len(path)) && shared[n] == path[n] {
			n++
		}
		shared = shared[:n]
	}

	return shared
}

// Top returns the node at the top of n's path.
func (n *Node) Top() *Node {
	for n.Parent != nil {
		n = n.Parent
	}
	return n
}

// Depth returns the number of nodes above n.
func (n *Node) Depth() int { return n.depth }

// Switches returns the nodes above n that count as a switch, the outermost first.
func (n *Node) Switches() []*Node {
	return slices.DeleteFunc(n.Path(), func(above *Node) bool {
		return above == n || !above.Kind.IsSwitch()
	})
}

// IsUnderSwitch reports whether a node above n counts as a switch.
func (n *Node) IsUnderSwitch() bool { return n.switches > 0 }

// NUMANode returns the NUMA node of the host, or the cell of the guest, that n is on: its own, or
// the one of the nearest node above it that has one; nil if none has.
func (n *Node) NUMANode() *int {
	for ; n != nil; n = n.Parent {
		if n.NUMA != nil {
			return n.NUMA
		}
	}
	return nil
}

// Walk yields n and all nodes under it, each before those under it.
func (n *Node) Walk() iter.Seq[*Node] {
	return func(yield func(*Node) bool) { n.walk(yield) }
}

func (n *Node) walk(yield func(*Node) bool) bool {
	if !yield(n) {
		return false
	}

	for _, c := range n.Children {
		if !c.walk(yield) {
			return false
		}
	}

	return true
}

// Endpoints yields the devices at n and under it.
func (n *Node) Endpoints() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for at := range n.Walk() {
			if at.Kind == Endpoint && !yield(at) {
				return
			}
		}
	}
}

// Bridges counts the nodes at n and under it other than endpoints. In a guest, each takes a bus
// number (QEMU docs/pcie.txt).
func (n *Node) Bridges() int {
	count := 0
	for at := range n.Walk() {
		if at.Kind != Endpoint {
			count++
		}
	}

	return count
}

// Same compares what two pointers point to; nil equals only nil.
func Same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// Map returns f of each item.
func Map[T, U any](items []T, f func(T) U) []U {
	all := make([]U, len(items))
	for i, item := range items {
		all[i] = f(item)
	}
	return all
}

// CountFunc counts the items that satisfy f.
func CountFunc[T any](items []T, f func(T) bool) int {
	n := 0
	for _, item := range items {
		if f(item) {
			n++
		}
	}

	return n
}
