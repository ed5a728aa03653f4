package placement

import (
	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
)

// predict returns the address that the guest's kernel shows for an address of
// libvirt's. Firmware numbers each root bus on its own, from its busNr (the root
// bus from 0), and gives the next number to each bridge, depth first in the
// order of slot and function. Checked with SeaBIOS and OVMF on libvirt 9 and 11.
// The address is nil under the root bus until every device has one.
func predict(g guest) func(domain.GuestAddress) *topology.Address {
	numbers := map[*topology.Node]int{}
	if isSettled(g) {
		numberBus(g.rootBus(), 0, numbers)
	}
	for _, e := range g.numbered() {
		numberBus(g.node(e.Index), *e.BusNr, numbers)
	}
	return func(a domain.GuestAddress) *topology.Address {
		bus, known := numbers[g.node(a.Bus)]
		if !known {
			return nil
		}
		return &topology.Address{Bus: uint8(bus), Device: uint8(a.Slot), Function: uint8(a.Function)}
	}
}

// numberBus gives bus numbers to a bus and to all under it, and returns the next.
func numberBus(n *topology.Node, next int, numbers map[*topology.Node]int) int {
	if n.Kind == topology.Endpoint || next >= busNumberCount {
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
func isSettled(g guest) bool {
	for _, c := range g.Controllers {
		if c.Index != 0 && c.Address == nil {
			return false
		}
	}
	return len(g.Controllers) == len(g.source.Controllers) && libvirt.Unaddressed(g.source, g.others) == 0 && !libvirt.LacksBridge(g.others)
}
