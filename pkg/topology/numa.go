package topology

import "strconv"

// NodeID is a NUMA node of the host.
type NodeID int

// CellID is a NUMA cell of the guest. It has its own type so that a host node
// cannot be mistaken for a guest cell.
type CellID int

// Affinity is the host NUMA node of a device, or none. The kernel writes -1 for
// none, which must not become node 0.
type Affinity struct {
	node  NodeID
	known bool
}

// OnNode returns the affinity to node n. The zero Affinity is no affinity.
func OnNode(n NodeID) Affinity { return Affinity{node: n, known: true} }

// Node returns the node, or false when there is no affinity.
func (a Affinity) Node() (NodeID, bool) { return a.node, a.known }

// String returns the node's number, or "none".
func (a Affinity) String() string {
	if !a.known {
		return "none"
	}
	return strconv.Itoa(int(a.node))
}

// NUMANode is one online NUMA node of the host.
type NUMANode struct {
	ID   NodeID
	CPUs IDs // devices/system/node/node<ID>/cpulist
}
