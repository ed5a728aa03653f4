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
func HighestIndex(d *domain.Domain, devices []Device) int {
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
func Holes(d *domain.Domain, devices []Device) []int {
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

// Unaddressed counts the devices that libvirt plugs into a root port of the root bus, or may; a
// bridge that it adds comes with its own.
func Unaddressed(d *domain.Domain, devices []Device) int {
	return topology.CountFunc(devices, func(o Device) bool {
		return o.takesPort() && o.Address == nil
	}) +
		topology.CountFunc(d.Hostdevs, func(h domain.Hostdev) bool {
			return h.Address == nil && !h.Unassigned
		})
}

// takesPort reports whether libvirt plugs the device into a free port, or may.
func (o Device) takesPort() bool { return o.NeedsPort && (!o.NeedsBridge || o.DependsOnQEMUBuild) }

// IsBeforeHostdevs reports whether libvirt plugs the device into a port, or may, before it does
// so with hostdevs (src/qemu/qemu_domain_address.c, qemuDomainAssignDevicePCISlots).
func (o Device) IsBeforeHostdevs() bool {
	return o.takesPort() &&
		slices.Contains([]string{
			"filesystem", "interface", "sound", "controller", "disk",
		}, o.Element)
}

// LacksBridge reports whether libvirt adds a bridge to conventional PCI with a root port, or may.
func LacksBridge(devices []Device) bool {
	return slices.ContainsFunc(devices, func(o Device) bool {
		return o.NeedsBridge && o.Address == nil
	})
}

// AutomaticBusNumbers counts the bus numbers that expander buses without busNr take under all
// others: libvirt gives each the lowest number less two (src/qemu/qemu_domain_address.c,
// qemuDomainAddressFindNewBusNr; measured, libvirt 9).
func AutomaticBusNumbers(d *domain.Domain) int {
	return 2 * topology.CountFunc(d.Controllers, func(c domain.Controller) bool {
		return c.Model == domain.ExpanderBus && c.BusNr == nil
	})
}
