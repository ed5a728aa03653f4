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

// HasAtomics reports whether QEMU lets a root port complete PCIe AtomicOps for a device of the
// domain (hw/vfio/pci.c, vfio_pci_enable_rp_atomics): it is directly under a root port, in slot 0 as
// function 0, without the multifunction bit and without another device there.
func (t *Tree) HasAtomics(id string) bool {
	at := t.Hostdevs[id].At
	if at == nil || at.Slot != 0 || at.Function != 0 {
		return false
	}

	address := t.Hostdevs[id].Node.Find("address")
	if t.Controllers[at.Bus].Model != "pcie-root-port" || address.Attr("multifunction") == "on" {
		return false
	}

	beside := 0
	for _, device := range t.Devices {
		if device.At != nil && device.At.Bus == at.Bus {
			beside++
		}
	}

	return beside == 1
}
