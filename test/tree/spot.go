// Package tree is the tests' own reader of domains. It shares no code with the
// product, so that the two check each other: XML elements (xml.go), the PCI Express
// tree of a domain (domain.go), what libvirt accepts and QEMU or the firmware loses
// (faults.go), the rules for a result (rules.go), where a guest sees each device
// (seen.go), and path types on host and guest (spot.go).
package tree

import "strings"

// Unknown is a NUMA node, guest cell or bus number that is not given.
const Unknown = -1

// Spot is the place of a device in a PCI Express tree.
type Spot struct {
	Root    string   // host bridge or root bus; "" when not known
	Bridges []string // from the root port down
	Slot    string   // what the functions of one device share
	Node    int      // NUMA node or guest cell, or Unknown
}

// PathSpot returns the place that a path of sysfs gives, as in
// devices/pci0000:17/0000:17:01.0/0000:18:00.0. The last host bridge of the path is the device's
// own.
func PathSpot(path string, node int) Spot {
	parts := strings.Split(path, "/")
	slot, _, _ := strings.Cut(parts[len(parts)-1], ".")
	spot := Spot{Slot: slot, Node: node}
	for _, part := range parts[:len(parts)-1] {
		if strings.HasPrefix(part, "pci") {
			spot.Root, spot.Bridges = part, nil
		} else if spot.Root != "" {
			spot.Bridges = append(spot.Bridges, part)
		}
	}

	return spot
}

// PathType returns the path type of two devices in the words of `nvidia-smi topo -m`. Under one
// host bridge it counts the switches from where the paths meet down to both devices.
func PathType(a, b Spot) string {
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
	for _, bridges := range [][]string{a.Bridges, b.Bridges} {
		for depth := met; depth < len(bridges); depth++ {
			// A switch is named by its upstream port. Under the root port, upstream
			// and downstream ports alternate.
			switches[bridges[depth-(depth+1)%2]] = true
		}
	}

	if len(switches) > 1 {
		return "PXB"
	}

	return "PIX"
}
