package libvirt

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// MaxIndex is the highest index of a PCI controller (libvirt
// src/conf/domain_addr.c, "PCI controller index %d too high, maximum is 255").
const MaxIndex = 255

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
