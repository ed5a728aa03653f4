package libvirt

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// MaxIndex is the highest index of a PCI controller (libvirt
// src/conf/domain_addr.c, "PCI controller index %d too high, maximum is 255").
const MaxIndex = 255

// HighestIndex returns the highest index that a PCI controller has or an address names.
func HighestIndex(d *domain.Domain, devices []Endpoint) int {
	highest := 0
	for _, c := range d.Controllers {
		highest = max(highest, c.Index, busOf(c.Address))
	}

	for _, h := range d.Hostdevs {
		highest = max(highest, busOf(h.Address))
	}

	for _, o := range devices {
		highest = max(highest, busOf(o.Address))
	}

	return highest
}

func busOf(a *domain.GuestAddress) int {
	if a == nil {
		return 0
	}
	return a.Bus
}

// Holes returns the indexes without a PCI controller up to the highest. libvirt makes a root port
// of each (src/qemu/qemu_domain_address.c, qemuDomainAssignPCIAddresses).
func Holes(d *domain.Domain, devices []Endpoint) []int {
	var taken [MaxIndex + 1]bool
	for _, c := range d.Controllers {
		taken[c.Index] = true
	}

	var holes []int
	highest := HighestIndex(d, devices)
	for index := 1; index <= highest; index++ {
		if !taken[index] {
			holes = append(holes, index)
		}
	}

	return holes
}

// WithRootPorts returns a domain with root ports of these indexes, after its own controllers.
func WithRootPorts(d *domain.Domain, indexes []int) *domain.Domain {
	if len(indexes) == 0 {
		return d
	}

	next := *d
	next.Controllers = slices.Clone(d.Controllers)

	for _, index := range indexes {
		next.Controllers = append(next.Controllers, domain.Controller{
			Index: index, Model: domain.RootPort,
		})
	}

	return &next
}

// AutomaticBusNumbers counts the bus numbers that expander buses without busNr take under all
// others: libvirt gives each the lowest number less two (src/qemu/qemu_domain_address.c,
// qemuDomainAddressFindNewBusNr; measured, libvirt 9).
func AutomaticBusNumbers(d *domain.Domain) int {
	return 2 * topology.CountFunc(d.Controllers, func(c domain.Controller) bool {
		return c.Model == domain.ExpanderBus && c.BusNr == nil
	})
}
