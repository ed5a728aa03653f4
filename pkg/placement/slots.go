package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
)

// slots are free slots of the main bus for expander buses, or the budget that
// they exceed.
func (n *numbering) slots(count int) ([]int, []breach) {
	free := freeSlots(n.rest)
	left := max(0, min(len(free), n.main.slotsLeft()))
	if count > left {
		return nil, []breach{exceeded("slots of the main bus: the layout needs %d, %d are free: %d too many", count, left, count-left)}
	}
	return free[:count], nil
}

// openSlots are the slots of the main bus that the hook takes, in this order.
// Left out are those that libvirt keeps for devices without address: VGA (0x01),
// USB 2 (0x1a, 0x1d), sound (0x1b), a bridge (0x1e) and the chipset (0x1f).
// Taking one moves disks and NICs (measured, libvirt 9 and 11).
func openSlots() []int {
	return []int{
		0x1c, 0x19, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x10, 0x0f, 0x0e,
		0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02,
	}
}

// freeSlots are the open slots that nothing stands in.
func freeSlots(t *tree) []int {
	taken := t.domain.MainBusSlots()
	return slices.DeleteFunc(openSlots(), func(slot int) bool { return taken[slot] })
}

// portCapacity is how many root ports the main bus takes. libvirt packs those
// without address eight a slot, also into slots that hold one, and into what it
// keeps for devices that are not there; an open slot counts for each of these, so
// that the number is the same before libvirt gives addresses and after.
func (m mainBus) portCapacity() int {
	return functionsPerSlot * max(0, len(openSlots())-m.otherSlots)
}

// ports is how many root ports the main bus has in the end.
func (m mainBus) ports() int { return m.rootPorts + m.unplugged + m.coming }

// slotsLeft is how many slots the root ports leave to expander buses.
func (m mainBus) slotsLeft() int { return (m.portCapacity() - m.ports()) / functionsPerSlot }

// otherSlots counts the slots that hold something else than root ports: open
// ones, and any that an expander bus has or will have.
func otherSlots(t *tree) int {
	held := map[int]bool{}
	count := 0
	hold := func(a *domain.GuestAddress) {
		if a != nil && a.Bus == 0 && slices.Contains(openSlots(), a.Slot) {
			held[a.Slot] = true
		}
	}
	for _, c := range t.domain.Controllers {
		switch {
		case c.Model == domain.RootPort:
		case c.Model == domain.ExpanderBus && c.Address == nil:
			count++
		case c.Model == domain.ExpanderBus:
			held[c.Address.Slot] = true
		default:
			hold(c.Address)
		}
	}
	for _, h := range t.domain.Hostdevs {
		hold(h.Address)
	}
	for _, o := range t.domain.Others {
		hold(o.Address)
	}
	return count + len(held)
}
