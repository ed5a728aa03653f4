package alloc

import (
	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
)

// RootPorts returns the addresses that libvirt gives to more root ports after everything else has
// its address, from a slot of the root bus on: as many as there is room for, at most count.
func RootPorts(given libvirt.Guest, m Libvirt, count, from int) (places []domain.GuestAddress) {
	_, a, err := complete(given, m)
	if err != nil {
		return nil
	}

	root := &a.buses[0]
	root.first = max(root.first, from)
	need := connectionOf(domain.RootPort)
	for range count {
		at, isFree := root.next(0, need, anyFunction)
		if !isFree || a.reserve(at, need, false) != nil {
			break
		}

		places = append(places, at)
	}

	return places
}
