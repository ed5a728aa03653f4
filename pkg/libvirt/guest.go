package libvirt

import (
	"iter"
	"slices"

	"hook-sidecar/pkg/domain"
)

// Guest is a domain with the other devices that have a PCI address or get one: as it was given, or
// as libvirt completes it (alloc.Simulate). Its tree follows from it.
type Guest struct {
	*domain.Domain

	// Devices are those that are neither PCI controllers nor placed hostdevs.
	Devices []Endpoint
}

// NewGuest returns the guest of a domain, with the devices that libvirt adds.
func NewGuest(d *domain.Domain) Guest { return Guest{d, Endpoints(d)} }

// HighestIndex returns the highest index that a PCI controller has or an address names.
func (g Guest) HighestIndex() int {
	highest := 0
	for _, c := range g.Controllers {
		highest = max(highest, c.Index)
	}

	for a := range g.Addresses() {
		highest = max(highest, a.Bus)
	}

	return highest
}

// Holes returns the indexes without a PCI controller up to the highest. libvirt makes a root port
// of each (src/qemu/qemu_domain_address.c, qemuDomainAssignPCIAddresses).
func (g Guest) Holes() []int {
	var taken [MaxIndex + 1]bool
	for _, c := range g.Controllers {
		taken[c.Index] = true
	}

	var holes []int
	highest := g.HighestIndex()
	for index := 1; index <= highest; index++ {
		if !taken[index] {
			holes = append(holes, index)
		}
	}

	return holes
}

// Held returns the indexes of the buses that something is on.
func (g Guest) Held() map[int]bool {
	held := map[int]bool{}
	for a := range g.Addresses() {
		held[a.Bus] = true
	}
	return held
}

// Addresses yields the addresses of controllers, hostdevs and devices.
func (g Guest) Addresses() iter.Seq[domain.GuestAddress] {
	return func(yield func(domain.GuestAddress) bool) {
		for _, c := range g.Controllers {
			if c.Address != nil && !yield(*c.Address) {
				return
			}
		}

		for _, h := range g.Hostdevs {
			if h.Address != nil && !yield(*h.Address) {
				return
			}
		}

		for _, d := range g.Devices {
			if d.Address != nil && !yield(*d.Address) {
				return
			}
		}
	}
}

// WithRootPorts returns the guest with root ports of these indexes, after its own controllers.
func (g Guest) WithRootPorts(indexes []int) Guest {
	if len(indexes) == 0 {
		return g
	}

	next := *g.Domain
	next.Controllers = slices.Clone(g.Controllers)

	for _, index := range indexes {
		next.Controllers = append(next.Controllers, domain.Controller{
			Index: index, Model: domain.RootPort,
		})
	}

	return Guest{&next, g.Devices}
}
