package libvirt

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
)

// slotsOfI440FX is how many slots the root bus of i440fx has for devices, from 1 (libvirt
// src/conf/domain_addr.c, virDomainPCIAddressBusSetModel).
const slotsOfI440FX = 31

// isI440FX reports whether a machine is i440fx, the only x86 machine with conventional PCI
// (src/qemu/qemu_domain.c, qemuDomainMachineIsI440FX).
func isI440FX(d *domain.Domain) bool {
	isX86 := slices.Contains([]string{"x86_64", "i686", ""}, d.Arch)
	return isX86 && !IsQ35(d.Machine) &&
		(d.Machine == "pc" || strings.HasPrefix(d.Machine, "pc-"))
}

// TakesMore reports whether a domain takes a number of further devices without an address, so that
// all others stay where they are. i440fx has one slot per device. If these and one for hotplug are
// more than the root bus has, libvirt adds a bridge, which comes before all other devices
// (src/qemu/qemu_domain_address.c, qemuDomainAssignPCIAddresses; measured, libvirt 9). It makes no
// difference whether the domain has addresses, so that all calls of a boot agree.
func TakesMore(d *domain.Domain, count int) bool {
	if !isI440FX(d) {
		return true
	}

	isTaken, open := map[int]bool{1: true}, 0 // the chipset has slot 1
	take := func(a *domain.GuestAddress, isWanted bool) {
		switch {
		case a == nil && isWanted:
			open++
		case a != nil && a.Bus == 0:
			isTaken[a.Slot] = true
		}
	}

	for _, c := range d.Controllers {
		take(c.Address, c.Index != 0)
	}

	for _, h := range d.Hostdevs {
		take(h.Address, !h.Unassigned)
	}

	for _, e := range Endpoints(d) {
		isChipsets := e.Element == "controller" && (e.Type == "ide" || e.Type == "usb") &&
			slices.Contains([]string{"", "piix3-uhci", "piix3"}, e.Model)
		take(e.Address, !isChipsets)
	}

	const forHotplug = 1
	return len(isTaken)+open+count+forHotplug <= slotsOfI440FX
}
