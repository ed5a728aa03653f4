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

// BusNumberCount is how many bus numbers a PCI domain has.
const BusNumberCount = 256

// perAutomatic is how many bus numbers an expander bus without busNr takes.
const perAutomatic = 2

// FirstBusNumbers returns the first bus number of each expander bus, by its index: its busNr, or
// the one that libvirt gives it. libvirt goes through those without busNr by index, and gives each the
// lowest number of all less two (src/qemu/qemu_domain_address.c, qemuDomainAddressFindNewBusNr;
// measured, libvirt 9).
func FirstBusNumbers(d *domain.Domain) map[int]int {
	firsts, lowest := map[int]int{}, BusNumberCount
	var open []int
	for _, c := range d.Controllers {
		switch {
		case c.Model != domain.ExpanderBus:
		case c.BusNr == nil:
			open = append(open, c.Index)
		default:
			firsts[c.Index] = *c.BusNr
			lowest = min(lowest, *c.BusNr)
		}
	}

	slices.Sort(open)
	for _, index := range open {
		lowest -= perAutomatic
		firsts[index] = lowest
	}

	return firsts
}

// AutomaticBusNumbers counts the bus numbers that expander buses without busNr take under all
// others.
func AutomaticBusNumbers(d *domain.Domain) int {
	return perAutomatic * topology.CountFunc(d.Controllers, func(c domain.Controller) bool {
		return c.Model == domain.ExpanderBus && c.BusNr == nil
	})
}

// NumberBuses returns the bus numbers that firmware gives the bridges of a guest's tree, by ID.
// Each root bus has its first number, by the index of its controller; the root bus has 0. Each bridge
// under it has the next, depth first in the order of slot and function (checked with SeaBIOS and
// OVMF on libvirt 9 and 11). A bridge for which no number is left has none, nor has a root bus
// without a first number.
func NumberBuses(tree *topology.Tree, firsts map[int]int) map[topology.ID]int {
	numbers := map[topology.ID]int{}
	for _, root := range tree.Roots {
		first, isKnown := firsts[int(root.ID.(topology.Index))]
		if isKnown {
			numberBus(root, first, numbers)
		}
	}

	return numbers
}

// numberBus gives numbers to a bus and to all under it, and returns the next.
func numberBus(n *topology.Node, next int, numbers map[topology.ID]int) int {
	if n.Kind == topology.Endpoint || next >= BusNumberCount {
		return next
	}

	numbers[n.ID] = next
	next++
	for _, c := range n.Children {
		next = numberBus(c, next, numbers)
	}

	return next
}
