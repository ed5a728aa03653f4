package number

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// withFillers appends empty expander buses, fillers, to the wanted ones, and returns the slots of
// the root bus that replaced expander buses leave. Fillers keep libvirt from moving root ports
// into such slots. They also take freed indexes before a fixed one: libvirt would make ports of
// these, and devices would take them first.
func withFillers(
	wanted []*topology.Node, addressed []domain.Controller, gone map[int]bool, freed []int,
	fixed int, left []domain.GuestAddress,
) (expanders []*topology.Node, vacant []domain.GuestAddress) {
	lastPort := 0
	for _, c := range addressed {
		switch {
		case c.Address == nil || c.Address.Bus != 0:
		case c.Model == domain.RootPort:
			lastPort = max(lastPort, c.Address.Slot)
		case c.Model == domain.ExpanderBus && gone[c.Index] && c.Address.Function == 0:
			vacant = append(vacant, domain.GuestAddress{Slot: c.Address.Slot})
		}
	}

	vacant = append(vacant, left...)
	expanders = slices.Clip(wanted)
	before, _ := slices.BinarySearch(freed, fixed)
	fillers := before - countControllers(expanders)
	for i, place := range vacant {
		isLeft := i >= len(vacant)-len(left)
		if more := i + 1 - len(expanders); more > fillers && (place.Slot < lastPort || isLeft) {
			fillers = more
		}
	}

	for range fillers {
		expanders = append(expanders, &topology.Node{Kind: topology.Root})
	}

	return expanders, vacant
}
