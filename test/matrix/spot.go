// Package matrix works out path types a second time: for the host from the
// files of a sysfs, for the guest from the XML of a domain. It shares no code
// with the product, whose promise about the two it is there to check.
package matrix

// Unknown stands for a NUMA node or cell that is not known.
const Unknown = -1

// Spot is where a device stands in a PCI Express tree.
type Spot struct {
	Root    string   // host bridge or root bus; "" when not known
	Bridges []string // from the root port down
	Slot    string   // what the functions of one device share
	Node    int      // NUMA node or cell, or Unknown
}

// Class is the path type between two spots in the words of
// `nvidia-smi topo -m`. It walks from one device up to where the paths meet and
// down to the other, and counts the switches on the way.
func Class(a, b Spot) string {
	if a.Root == "" || a.Root != b.Root {
		if a.Node != Unknown && a.Node == b.Node {
			return "NODE"
		}
		return "SYS"
	}
	if a.Slot == b.Slot {
		return "PIX"
	}
	met := 0
	for met < len(a.Bridges) && met < len(b.Bridges) && a.Bridges[met] == b.Bridges[met] {
		met++
	}
	if met == 0 {
		return "PHB"
	}
	switches := map[string]bool{}
	for _, s := range []Spot{a, b} {
		for depth := met; depth < len(s.Bridges); depth++ {
			switches[switchOf(s.Bridges, depth)] = true
		}
	}
	if len(switches) > 1 {
		return "PXB"
	}
	return "PIX"
}

// switchOf names the switch that a bridge belongs to by its upstream port.
// Below the root port, upstream and downstream ports take turns.
func switchOf(bridges []string, depth int) string {
	if depth%2 == 1 {
		return bridges[depth]
	}
	return bridges[depth-1]
}
