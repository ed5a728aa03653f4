package number

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement/bus"
)

// vacantPlaces are the places on the root bus of the expander buses whose indexes are
// gone, by index: those that they have, or that libvirt would give them. A layout with
// fewer expander buses leaves some free. Where libvirt would fill these with root ports,
// which then move from where they are without the hook, fillers take them: expander
// buses that hold nothing.
func vacantPlaces(current bus.Guest, gone map[int]bool, wanted int) (places []domain.GuestAddress, fillers int) {
	if len(gone) == 0 {
		return nil, 0
	}
	added := current.AddedPorts()
	given := libvirt.RootBusAddresses(current.Source, current.Others, added)
	lastPort := 0
	for _, c := range libvirt.WithRootPorts(current.Source, added).Controllers {
		if a, found := addressOf(c, given); found && c.Model == domain.RootPort && a.Bus == 0 {
			lastPort = max(lastPort, a.Slot)
		}
	}
	for _, e := range current.Expanders {
		if a, found := addressOf(e, given); found && gone[e.Index] && a.Bus == 0 {
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

// holePorts are root ports of missing indexes where libvirt puts its own. That is
// after all others, so that they need an address where another port has none.
func holePorts(current bus.Guest, indexes []int) []domain.Controller {
	if len(indexes) == 0 {
		return nil
	}
	given := libvirt.RootBusAddresses(current.Source, current.Others, libvirt.Holes(current.Source, current.Others))
	return portsAfter(given, indexes, current.Source.Controllers)
}

// unusedPorts are root ports of freed indexes in a domain without what the layout
// replaces. Devices without an address take the ports by index, so that these
// come before the others, unless one that holds a device would move.
func unusedPorts(rest bus.Guest, vacant []domain.GuestAddress, indexes []int) []domain.Controller {
	if len(indexes) == 0 {
		return nil
	}
	others := slices.Clone(rest.Others)
	for i := range vacant {
		others = append(others, libvirt.Device{Device: domain.Device{Address: &vacant[i]}})
	}
	held := slices.DeleteFunc(slices.Clone(rest.Source.Controllers), func(c domain.Controller) bool {
		return !bus.IsOccupied(rest.Node(c.Index))
	})
	return portsAfter(libvirt.RootBusAddresses(rest.Source, others, indexes), indexes, held)
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
