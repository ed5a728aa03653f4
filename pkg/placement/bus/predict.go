package bus

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
)

// Predict returns the address that the guest's kernel shows for an address of
// libvirt's. Firmware numbers each root bus on its own, from its busNr (the root
// bus from 0), and gives the next number to each bridge, depth first in the
// order of slot and function. Checked with SeaBIOS and OVMF on libvirt 9 and 11.
// The address is nil under the root bus until every device has one.
func (g Guest) Predict() func(domain.GuestAddress) *topology.Address {
	numbers := map[*topology.Node]int{}
	if g.isSettled() {
		numberBus(g.Root(), 0, numbers)
	}
	for _, e := range g.Numbered() {
		numberBus(g.Node(e.Index), *e.BusNr, numbers)
	}
	return func(a domain.GuestAddress) *topology.Address {
		bus, known := numbers[g.Node(a.Bus)]
		if !known {
			return nil
		}
		return &topology.Address{Bus: uint8(bus), Device: uint8(a.Slot), Function: uint8(a.Function)}
	}
}

// numberBus gives bus numbers to a bus and to all under it, and returns the next.
func numberBus(n *topology.Node, next int, numbers map[*topology.Node]int) int {
	if n.Kind == topology.Endpoint || next >= NumberCount {
		return next
	}
	numbers[n] = next
	next++
	for _, c := range n.Children {
		next = numberBus(c, next, numbers)
	}
	return next
}

// isSettled reports whether every device and controller of the domain has its
// address.
func (g Guest) isSettled() bool {
	isUnaddressed := func(c domain.Controller) bool { return c.Index != 0 && c.Address == nil }
	return !slices.ContainsFunc(g.Controllers, isUnaddressed) && libvirt.Unaddressed(g.Domain, g.Others) == 0 && !libvirt.LacksBridge(g.Others)
}
