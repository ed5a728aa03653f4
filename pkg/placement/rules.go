package placement

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// violations are the rules that a domain breaks and that libvirt accepts all
// the same: QEMU or the firmware then lose devices without a word. Only trees
// that hold a movable device are looked into; bus numbers count for all.
func (b *builder) violations(d *domain.Domain) []error {
	t := newTree(d)
	broken := b.brokenBusNumbers(t)
	for _, e := range t.expanders() {
		if t.isReferenced(e.Index) || !b.holdsMovable(t, e.Index) {
			continue
		}
		if e.BusNr == nil {
			broken = append(broken, fmt.Errorf("expander bus with index %d has no busNr, and libvirt's own leaves room for one port", e.Index))
		}
		if e.Cell != nil && !slices.ContainsFunc(d.Cells, func(c domain.Cell) bool { return c.ID == *e.Cell }) {
			broken = append(broken, fmt.Errorf("expander bus with index %d names cell %d, which the guest has not", e.Index, *e.Cell))
		}
		broken = append(broken, brokenPorts(t, e)...)
	}
	return append(broken, b.brokenFunctions(d)...)
}

func (b *builder) holdsMovable(t *tree, expander int) bool {
	below := t.subtree(expander)
	return slices.ContainsFunc(t.domain.Hostdevs, func(h domain.Hostdev) bool {
		return h.Address != nil && slices.Contains(below, h.Address.Bus) && b.isMovable(h.ID)
	})
}

// brokenBusNumbers checks that each root bus has room for its bridges before
// the next one begins (QEMU docs/pcie.txt; measured exact to one).
func (b *builder) brokenBusNumbers(t *tree) []error {
	var broken []error
	next := busNumberCount
	expanders := t.numbered()
	for _, e := range expanders {
		if need, room := 1+len(t.subtree(e.Index)), next-*e.BusNr; need > room {
			broken = append(broken, fmt.Errorf("bus numbers: the expander bus with index %d needs %d from %d on, there is room for %d: %d too many",
				e.Index, need, *e.BusNr, room, need-room))
		}
		next = *e.BusNr
	}
	if len(expanders) > 0 {
		if need := b.mainBus(t).buses(); need > next {
			broken = append(broken, fmt.Errorf("bus numbers: the main bus needs %d, the lowest expander bus begins at %d: %d too many", need, next, need-next))
		}
	}
	return broken
}

// brokenPorts checks the ports below an expander bus.
func brokenPorts(t *tree, e domain.Controller) []error {
	var broken []error
	occupied := t.occupants()
	for _, index := range t.subtree(e.Index) {
		c := t.at[index]
		parent := t.at[c.Address.Bus]
		if c.Index <= parent.Index {
			broken = append(broken, fmt.Errorf("controller with index %d is below that with index %d, which QEMU makes later", c.Index, parent.Index))
		}
		if c.Address.Slot >= slotsPerBus {
			broken = append(broken, fmt.Errorf("controller with index %d is in slot %d, a bus has %d", c.Index, c.Address.Slot, slotsPerBus))
		}
		if c.Model != domain.UpstreamPort && occupied[index] == 0 && len(t.below[index]) == 0 {
			broken = append(broken, fmt.Errorf("port with index %d below expander bus %d is free: libvirt plugs any device without address there", index, e.Index))
		}
	}
	return broken
}

// brokenFunctions checks that function 0 is there where a movable device has
// another function: the guest does not look for it without (PCI 3.0,
// 3.2.2.3.4). What other devices do among themselves is not ours to judge.
func (b *builder) brokenFunctions(d *domain.Domain) []error {
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
	var broken []error
	for _, h := range d.Hostdevs {
		if a := h.Address; a != nil && a.Function > 0 && a.Bus != 0 && !filled[slot{a.Bus, a.Slot}] && b.isMovable(h.ID) {
			broken = append(broken, fmt.Errorf("device %s is function %d of a slot without function 0", h.ID, a.Function))
		}
	}
	return broken
}

func (b *builder) isMovable(id topology.DeviceID) bool {
	return slices.ContainsFunc(b.devices, func(d *device) bool { return d.ID == id && d.movable })
}
