package topology

import "cmp"

// PathType is the kind of path between two devices, in the words of `nvidia-smi topo -m` and of
// NCCL, from the nearest to the farthest.
type PathType uint8

// The path types.
const (
	Self PathType = iota // a device and itself
	PIX                  // at most one PCIe switch
	PXB                  // several PCIe switches, no host bridge
	PHB                  // one host bridge
	NODE                 // host bridges of one NUMA node
	SYS                  // across NUMA nodes, or nodes not known
)

// Compare orders path types from the nearest to the farthest, Self first.
func (p PathType) Compare(q PathType) int { return cmp.Compare(p, q) }

// Steps counts the types that p is nearer or farther than q.
func (p PathType) Steps(q PathType) int { return int(max(p, q) - min(p, q)) }

// String returns the form of nvidia-smi and NCCL; "X" for Self.
func (p PathType) String() string { return [...]string{"X", "PIX", "PXB", "PHB", "NODE", "SYS"}[p] }

// MarshalText returns the form in JSON.
func (p PathType) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// PathType returns the path type between two nodes of the tree, SYS where it lacks one of them.
func (t *Tree) PathType(a, b ID) PathType {
	if a == b {
		return Self
	}
	return t.Node(a).PathType(t.Node(b))
}

// PathType returns the path type between two nodes of a tree, SYS where one is nil.
func (n *Node) PathType(other *Node) PathType {
	switch common := Common(n, other); {
	case n == nil || other == nil:
		return SYS
	case n == other:
		return Self
	case common == nil:
		if own, others := n.NUMANode(), other.NUMANode(); own != nil && others != nil &&
			*own == *others {
			return NODE
		}
		return SYS

	case sameDevice(n, other):
		return PIX
	case common.Kind == Root:
		return PHB
	default:
		switches := n.switches + other.switches - 2*common.switches
		if common.Kind.IsSwitch() {
			switches-- // counted for both
		}
		if switches > 1 {
			return PXB
		}
		return PIX
	}
}

// Common returns the lowest node above two nodes, or nil where they have none.
func Common(x, y *Node) *Node {
	for x != nil && y != nil && x != y {
		switch {
		case x.depth > y.depth:
			x = x.Parent
		case x.depth < y.depth:
			y = y.Parent
		default:
			x, y = x.Parent, y.Parent
		}
	}

	if x != y {
		return nil
	}
	return x
}

// sameDevice reports whether two nodes are functions of one device, or parts of such.
func sameDevice(x, y *Node) bool {
	x, y = x.plugged(), y.plugged()
	return x.Parent == y.Parent && x.Slot == y.Slot && x.Slot != NoSlot
}

// plugged returns the node that is plugged into a bus: n, or the function that n is a part of.
func (n *Node) plugged() *Node {
	if n.IsMediated() {
		return n.Parent
	}
	return n
}

// IsMediated reports whether a node of a host is a mediated device, which is a part of the function
// above it.
func (n *Node) IsMediated() bool { return n.Parent != nil && n.Parent.Kind == MDEVParent }
