package placement

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// expander is an expander bus that the layout wants.
type expander struct {
	cell  *topology.CellID  // nil: without <node>
	root  topology.PCIeRoot // the host bridge it stands for, "" with numa
	ports []branch
}

// buses is how many bus numbers the expander takes, its own included.
func (e expander) buses() int { return 1 + busesOf(e.ports) }

// branch is what hangs below a root port or a downstream port: a slot with
// devices, or a switch with ports.
type branch struct {
	slot  []function
	ports []branch
}

// function is a device with its function number in the slot.
type function struct {
	device *device
	number int
}

// busesOf is how many bus numbers the ports and all below them take: one a
// port, and one a switch for its upstream port (QEMU docs/pcie.txt).
func busesOf(ports []branch) int {
	n := len(ports)
	for _, p := range ports {
		if p.slot == nil {
			n += 1 + busesOf(p.ports)
		}
	}
	return n
}

// layOut is the tree that the policy's layout wants for the placed devices, in
// the order of cells and PCIe roots; expanders without a cell come last.
func (b *builder) layOut() []expander {
	var wanted []expander
	for _, slot := range b.slots() {
		lead := slot[0].device
		root := lead.PCIeRoot
		if b.Policy.Layout == policy.LayoutNUMA {
			root = ""
		}
		at := slices.IndexFunc(wanted, func(e expander) bool {
			return e.root == root && compareCells(e.cell, lead.Cell) == 0
		})
		if at < 0 {
			at = len(wanted)
			wanted = append(wanted, expander{cell: lead.Cell, root: root})
		}
		wanted[at].ports = append(wanted[at].ports, branch{slot: slot})
	}
	slices.SortStableFunc(wanted, func(x, y expander) int {
		return cmp.Or(compareCells(x.cell, y.cell), cmp.Compare(x.root, y.root))
	})
	if b.Policy.Layout == policy.LayoutMirror {
		for i, e := range wanted {
			wanted[i].ports = mirror(e.ports)
		}
	}
	return wanted
}

// compareCells orders cells by number, none behind all.
func compareCells(x, y *topology.CellID) int {
	switch {
	case x == nil && y == nil:
		return 0
	case x == nil:
		return 1
	case y == nil:
		return -1
	}
	return cmp.Compare(*x, *y)
}

// slots groups the placed devices: the functions of one device share a slot and
// keep their numbers when function 0 is among them. Every other device has a
// slot of its own. Virtual functions never share: KubeVirt detaches them one by
// one before a migration, and a slot can only be unplugged as a whole.
func (b *builder) slots() [][]function {
	var slots [][]function
	for _, d := range b.devices {
		if d.Outcome != Placed {
			continue
		}
		if lead := b.functionZero(d); lead != nil && lead != d {
			at := slices.IndexFunc(slots, func(s []function) bool { return s[0].device == lead })
			pci, _ := d.ID.PCI()
			slots[at] = append(slots[at], function{device: d, number: int(pci.Function)})
			d.Reason = reasons.Companion
			continue
		}
		slots = append(slots, []function{{device: d}})
	}
	return slots
}

// functionZero is the placed device that is function 0 of d's own device, nil
// where there is none. Devices are in the order of ids, so it comes before d.
func (b *builder) functionZero(d *device) *device {
	pci, ok := d.ID.PCI()
	if !ok || b.isVirtualFunction(pci) {
		return nil
	}
	pci.Function = 0
	for _, other := range b.devices {
		if other.ID == topology.PCIDevice(pci) && other.Outcome == Placed && !b.isVirtualFunction(pci) &&
			compareCells(other.Cell, d.Cell) == 0 {
			return other
		}
	}
	return nil
}
