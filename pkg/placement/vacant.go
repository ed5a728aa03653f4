package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
)

// vacantPlaces are the places on the root bus of the expander buses at the
// positions in removed, by index: those that they have, or that libvirt would
// give them. A layout with fewer expander buses leaves some free; it returns how
// many of these libvirt would fill with root ports that then move from where they
// are without the hook.
func vacantPlaces(current guest, removed []int, wanted int) (places []domain.GuestAddress, fillers int) {
	if len(removed) == 0 {
		return nil, 0
	}
	added := addedPorts(current)
	given := libvirt.RootBusAddresses(current.source, current.others, added)
	lastPort := 0
	for _, c := range libvirt.WithRootPorts(current.source, added).Controllers {
		if a, found := addressOf(c, given); found && c.Model == domain.RootPort && a.Bus == 0 {
			lastPort = max(lastPort, a.Slot)
		}
	}
	isRemoved := map[int]bool{}
	for _, i := range removed {
		isRemoved[current.source.Controllers[i].Index] = true
	}
	for _, e := range current.expanders {
		if a, found := addressOf(e, given); found && isRemoved[e.Index] && a.Bus == 0 {
			places = append(places, a)
		}
	}
	for i, place := range places {
		if i >= wanted && place.Slot < lastPort {
			fillers = i + 1 - wanted
		}
	}
	return places, fillers
}

// addressOf is the address of a controller, or that libvirt gives it.
func addressOf(c domain.Controller, given map[int]domain.GuestAddress) (domain.GuestAddress, bool) {
	if c.Address != nil {
		return *c.Address, true
	}
	a, found := given[c.Index]
	return a, found
}

// addedPorts are the indexes of the root ports that libvirt adds: the missing ones,
// and those for devices without an address.
func addedPorts(g guest) []int {
	added, next := libvirt.Holes(g.source, g.others), libvirt.HighestIndex(g.Domain, g.others)
	for range rootBusOf(g, portCount{}, next).added {
		if next++; next <= libvirt.MaxIndex {
			added = append(added, next)
		}
	}
	return added
}

// holePorts are root ports of missing indexes where libvirt puts its own. That is
// after all others, so that they need an address where another port has none.
func holePorts(current guest, indexes []int) []domain.Controller {
	if len(indexes) == 0 {
		return nil
	}
	given := libvirt.RootBusAddresses(current.source, current.others, libvirt.Holes(current.source, current.others))
	return portsAfter(given, indexes, current.source.Controllers)
}

// unusedPorts are root ports of freed indexes in a domain without what the layout
// replaces. Devices without an address take the ports by index, so that these
// come before the others, unless one that holds a device would move.
func unusedPorts(rest guest, vacant []domain.GuestAddress, indexes []int) []domain.Controller {
	if len(indexes) == 0 {
		return nil
	}
	others := slices.Clone(rest.others)
	for i := range vacant {
		others = append(others, libvirt.Device{Device: domain.Device{Address: &vacant[i]}})
	}
	held := slices.DeleteFunc(slices.Clone(rest.source.Controllers), func(c domain.Controller) bool {
		return !isOccupied(rest.node(c.Index))
	})
	return portsAfter(libvirt.RootBusAddresses(rest.source, others, indexes), indexes, held)
}

// portsAfter are root ports with these indexes, at the addresses that are given
// where they would come before one of the controllers.
func portsAfter(given map[int]domain.GuestAddress, indexes []int, controllers []domain.Controller) []domain.Controller {
	var ports []domain.Controller
	for _, index := range indexes {
		port := domain.Controller{Index: index, Model: domain.RootPort}
		isMoved := func(c domain.Controller) bool { return c.Address == nil && c.Index > index }
		if a, found := given[index]; found && slices.ContainsFunc(controllers, isMoved) {
			port.Address = &a
		}
		ports = append(ports, port)
	}
	return ports
}

// withFillers is a tree with more expander buses, which hold nothing.
func withFillers(wanted *topology.Tree, count int) *topology.Tree {
	roots := slices.Clone(wanted.Roots)
	for range count {
		roots = append(roots, &topology.Node{Kind: topology.Root})
	}
	return &topology.Tree{Roots: roots}
}

// expanderPlaces are addresses on the root bus for expander buses, or the budget
// that they exceed. They take the places of those that they replace: what
// libvirt puts there in their stead moves disks and NICs.
func expanderPlaces(count int, r reservation) ([]domain.GuestAddress, []violation) {
	places := slices.Clone(r.vacant[:min(count, len(r.vacant))])
	free, left := freeSlots(r.guest), r.rootBus.slotsLeft()
	for _, a := range places {
		if at := slices.Index(free, a.Slot); at >= 0 {
			free, left = slices.Delete(free, at, at+1), left-1
		}
	}
	more := count - len(places)
	if left = max(0, min(len(free), left)); more > left {
		return nil, []violation{exceeded("slots of the root bus: the layout needs %d, %d are free: %d too many", count, len(places)+left, more-left)}
	}
	for _, slot := range free[:more] {
		places = append(places, domain.GuestAddress{Slot: slot})
	}
	return places, nil
}
