package topology

// PathType says what lies between two devices, in the words of
// `nvidia-smi topo -m`.
type PathType string

// The path types, from the nearest to the farthest.
const (
	PIX  PathType = "PIX"  // at most one PCIe switch
	PXB  PathType = "PXB"  // several PCIe switches, no host bridge
	PHB  PathType = "PHB"  // one host bridge
	NODE PathType = "NODE" // host bridges of one NUMA node
	SYS  PathType = "SYS"  // across NUMA nodes, or nodes not known
	Self PathType = "X"    // a device and itself
)

// Place is where a device stands in a PCI Express tree, of the host or of the
// guest. Names are those of the tree it belongs to and unique in it; only
// equality matters.
type Place struct {
	Root    string   // the host bridge or the root bus, "" when not known
	Bridges []string // the bridges above the device, root port first
	Slot    string   // domain, bus and device number, which its functions share
	Node    *int     // NUMA node or cell, nil when not known
}

// Class is the path type between the devices at a and b.
func Class(a, b Place) PathType {
	apart := a.Root != b.Root || a.Root == ""
	switch {
	case apart && a.Node != nil && b.Node != nil && *a.Node == *b.Node:
		return NODE
	case apart:
		return SYS
	case a.Slot == b.Slot:
		return PIX
	}
	shared := 0
	for shared < min(len(a.Bridges), len(b.Bridges)) && a.Bridges[shared] == b.Bridges[shared] {
		shared++
	}
	between := switchesBelow(a.Bridges, shared) + switchesBelow(b.Bridges, shared)
	if shared%2 == 0 {
		between++ // the paths part inside a switch, below its upstream port
	}
	switch {
	case shared == 0:
		return PHB
	case between <= 1:
		return PIX
	default:
		return PXB
	}
}

// switchesBelow counts the switches of a path that begin below its first shared
// bridges. The first bridge is a root port; behind it a switch is a pair, its
// upstream and its downstream port. A bridge to conventional PCI counts as one.
func switchesBelow(bridges []string, shared int) int {
	return len(bridges)/2 - shared/2
}
