package placement

import (
	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// predict tells the address that the guest's kernel shows for an address of
// libvirt's. Firmware numbers each root bus on its own, from its busNr (the main
// bus from 0), and gives the next number to each bridge, depth first in the
// order of slot and function. Checked with SeaBIOS and OVMF on libvirt 9 and 11.
// It is nil below the main bus until every device has an address.
func predict(t *tree) func(domain.GuestAddress) *topology.Address {
	numbers := map[int]int{}
	if isSettled(t.domain) {
		number(t, 0, 0, numbers)
	}
	for _, e := range t.expanders() {
		if e.BusNr != nil {
			number(t, e.Index, *e.BusNr, numbers)
		}
	}
	return func(a domain.GuestAddress) *topology.Address {
		bus, known := numbers[a.Bus]
		if !known {
			return nil
		}
		return &topology.Address{Bus: uint8(bus), Device: uint8(a.Slot), Function: uint8(a.Function)}
	}
}

// number gives bus numbers to a bus and to all below it, and returns the next.
func number(t *tree, bus, next int, numbers map[int]int) int {
	if _, seen := numbers[bus]; seen || next >= busNumberCount {
		return next
	}
	numbers[bus] = next
	next++
	for _, c := range t.below[bus] {
		next = number(t, c.Index, next, numbers)
	}
	return next
}

// isSettled reports whether every device and controller has its address.
func isSettled(d *domain.Domain) bool {
	for _, c := range d.Controllers {
		if c.Index != 0 && c.Address == nil {
			return false
		}
	}
	return hungry(d) == 0 && !lacksBridge(d) && len(holes(d)) == 0
}
