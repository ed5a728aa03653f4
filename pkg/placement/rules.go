package placement

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// breach is a rule that a domain breaks, or a budget that it exceeds.
type breach struct {
	code reasons.Code // reasons.CodeBrokenRule or reasons.CodeBudget
	text string
}

func broke(format string, args ...any) breach {
	return breach{reasons.CodeBrokenRule, fmt.Sprintf(format, args...)}
}

func exceeded(format string, args ...any) breach {
	return breach{reasons.CodeBudget, fmt.Sprintf(format, args...)}
}

// breaches are what a domain breaks and libvirt accepts all the same: QEMU or
// the firmware then lose devices without a word. Only trees that hold a movable
// device or nothing at all are looked into; budgets count for all.
func (b *builder) breaches(d *domain.Domain) []breach {
	t := newTree(filled(d))
	broken := b.brokenBudgets(t)
	for _, e := range t.expanders() {
		ours := b.holdsMovable(t, e.Index) && !t.isReferenced(e.Index)
		if ports := len(t.subtree(e.Index)); e.BusNr == nil && (ours || ports > 1) {
			broken = append(broken, broke("expander bus with index %d has no busNr, and libvirt's own leaves room for one port", e.Index))
		}
		if ours && e.Cell != nil && !slices.ContainsFunc(d.Cells, func(c domain.Cell) bool { return c.ID == *e.Cell }) {
			broken = append(broken, broke("expander bus with index %d names cell %d, which the guest has not", e.Index, *e.Cell))
		}
		if ours || !t.isReferenced(e.Index) && !t.isOccupied(e.Index) {
			broken = append(broken, b.brokenPorts(t, e)...)
		}
	}
	return append(broken, b.brokenFunctions(d)...)
}

func (b *builder) holdsMovable(t *tree, bus int) bool {
	below := append(t.subtree(bus), bus)
	return slices.ContainsFunc(t.domain.Hostdevs, func(h domain.Hostdev) bool {
		return h.Address != nil && slices.Contains(below, h.Address.Bus) && b.isMovable(h.ID)
	})
}

// isOccupied reports whether a device stands on a bus or below it.
func (t *tree) isOccupied(bus int) bool {
	occupied := t.occupants()
	return slices.ContainsFunc(append(t.subtree(bus), bus), func(below int) bool { return occupied[below] > 0 })
}

// brokenBudgets checks that each root bus has room for its bridges before the
// next one begins (QEMU docs/pcie.txt; measured exact to one), and that what is
// still to come finds an index and a slot.
func (b *builder) brokenBudgets(t *tree) []breach {
	var broken []breach
	next := busNumberCount
	for _, e := range t.numbered() {
		if need, room := 1+len(t.subtree(e.Index)), next-*e.BusNr; need > room {
			broken = append(broken, exceeded("bus numbers: the expander bus with index %d needs %d from %d on, there is room for %d: %d too many",
				e.Index, need, *e.BusNr, room, need-room))
		}
		next = *e.BusNr
	}
	if len(t.expanders()) == 0 {
		return broken
	}
	highest := highestIndex(t.domain)
	main := b.mainBus(t, highest)
	if need, room := main.buses(), next-t.automaticBuses(); need > room {
		broken = append(broken, exceeded("bus numbers: the main bus needs %d, the lowest expander bus begins at %d: %d too many", need, room, need-room))
	}
	if need, free := main.coming, maxIndex-highest; need > free {
		broken = append(broken, exceeded("controller indexes: %d more are needed, %d are free: %d too many", need, free, need-free))
	}
	// What finds no slot is libvirt's to refuse; but the hook adds no port for
	// hotplug that finds none.
	if need, room := main.ports(), main.portCapacity(); b.spare > 0 && highest >= kubevirtMaxIndex && need > room {
		broken = append(broken, exceeded("slots of the main bus: %d root ports are needed, there is room for %d: %d too many", need, room, need-room))
	}
	return broken
}

// brokenPorts checks the ports below an expander bus.
func (b *builder) brokenPorts(t *tree, e domain.Controller) []breach {
	var broken []breach
	for _, index := range t.subtree(e.Index) {
		c := t.at[index]
		parent := t.at[c.Address.Bus]
		if c.Index <= parent.Index {
			broken = append(broken, broke("controller with index %d is below that with index %d, which QEMU makes later", c.Index, parent.Index))
		}
		if want := portBelow(parent.Model); c.Model != want && b.holdsMovable(t, index) {
			broken = append(broken, broke("controller with index %d is a %s and stands where a %s belongs", c.Index, c.Model, want))
		}
	}
	for _, index := range t.freePorts(e.Index) {
		broken = append(broken, broke("port with index %d below expander bus %d is free: libvirt plugs any device without address there", index, e.Index))
	}
	return broken
}

// freePorts are the ports below an expander bus that hold nothing.
func (t *tree) freePorts(expander int) []int {
	occupied := t.occupants()
	return slices.DeleteFunc(t.subtree(expander), func(index int) bool {
		return t.at[index].Model == domain.UpstreamPort || occupied[index] > 0 || len(t.below[index]) > 0
	})
}

// portBelow is the controller that may stand above a passthrough device on a
// bus below an expander bus.
func portBelow(bus domain.Model) domain.Model {
	switch bus {
	case domain.ExpanderBus:
		return domain.RootPort
	case domain.UpstreamPort:
		return domain.DownstreamPort
	}
	return domain.UpstreamPort
}

// brokenFunctions checks that function 0 is there where a movable device has
// another function: the guest does not look for it without (PCI 3.0,
// 3.2.2.3.4). What other devices do among themselves is not ours to judge.
func (b *builder) brokenFunctions(d *domain.Domain) []breach {
	type slot struct{ bus, slot int }
	filled := map[slot]bool{}
	fill := func(a *domain.GuestAddress) {
		if a != nil && a.Function == 0 {
			filled[slot{a.Bus, a.Slot}] = true
		}
	}
	for _, h := range d.Hostdevs {
		fill(h.Address)
	}
	for _, o := range d.Others {
		fill(o.Address)
	}
	var broken []breach
	for _, h := range d.Hostdevs {
		if a := h.Address; a != nil && a.Function > 0 && a.Bus != 0 && !filled[slot{a.Bus, a.Slot}] && b.isMovable(h.ID) {
			broken = append(broken, broke("device %s is function %d of a slot without function 0", h.ID, a.Function))
		}
	}
	return broken
}

func (b *builder) isMovable(id topology.DeviceID) bool {
	return slices.ContainsFunc(b.devices, func(d *device) bool { return d.ID == id && d.movable })
}
