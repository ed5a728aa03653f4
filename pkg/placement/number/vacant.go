package number

import (
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
	addresses := libvirt.ControllerAddresses(current.Domain, current.Others, added)
	lastPort := 0
	for _, c := range libvirt.WithRootPorts(current.Domain, added).Controllers {
		if a, found := addresses[c.Index]; found && c.Model == domain.RootPort && a.Bus == 0 {
			lastPort = max(lastPort, a.Slot)
		}
	}
	for _, e := range current.Expanders {
		if a, found := addresses[e.Index]; found && gone[e.Index] && a.Bus == 0 {
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
