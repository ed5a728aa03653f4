package placement

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// decide says for each device whether it may move and which cell is its own.
func (b *builder) decide() {
	cells := b.readCells()
	for _, d := range b.devices {
		if reason, kept := b.keeps(d); kept {
			d.Outcome, d.Reason = Kept, reason
			continue
		}
		if !SupportedMachine(b.Domain) {
			d.Outcome, d.Reason = Unplaced, reasons.Machine
			continue
		}
		d.movable = true
		d.Outcome, d.Reason = Unplaced, b.findCell(d, cells)
		switch {
		case d.Cell != nil, b.Policy.Layout != policy.LayoutNUMA && d.PCIeRoot != "":
			d.Outcome = Placed
		case b.Policy.Layout != policy.LayoutNUMA && d.Reason != reasons.NoSysfs:
			d.Reason = reasons.NoHostNode
		}
	}
	b.keepFunctionZero()
	if b.Policy.Layout != policy.LayoutNUMA {
		b.adoptCells()
	}
}

// keepFunctionZero keeps function 0 of a slot where another function of it is
// kept: the guest does not look for that one without it.
func (b *builder) keepFunctionZero() {
	for _, kept := range b.devices {
		if kept.Outcome != Kept || kept.Address == nil || kept.Address.Function == 0 {
			continue
		}
		for _, d := range b.devices {
			if d.movable && d.Address != nil && *d.Address == functionZeroOf(*kept.Address, d.Address.Multifunction) {
				d.movable, d.Outcome, d.Reason, d.Cell = false, Kept, kept.Reason, nil
			}
		}
	}
}

// functionZeroOf is the address of function 0 in the slot of an address.
func functionZeroOf(a domain.GuestAddress, multifunction bool) domain.GuestAddress {
	return domain.GuestAddress{Bus: a.Bus, Slot: a.Slot, Multifunction: multifunction}
}

// adoptCells puts placed devices whose NUMA node the host does not tell into
// the cell of the others of their PCIe root: below one host bridge they are one
// path type apart, and the layout keeps that. Where the others do not agree it
// is the lowest cell.
func (b *builder) adoptCells() {
	cells := map[topology.PCIeRoot]*topology.CellID{}
	for _, d := range b.devices {
		if d.Outcome == Placed && compareCells(d.Cell, cells[d.PCIeRoot]) < 0 {
			cells[d.PCIeRoot] = d.Cell
		}
	}
	for _, d := range b.devices {
		if _, known := d.HostNode.Node(); d.Outcome == Placed && !known {
			d.Cell = cells[d.PCIeRoot]
		}
	}
}

// keeps says whether a rule keeps a device where it is, and which.
func (b *builder) keeps(d *device) (reasons.Reason, bool) {
	switch {
	case b.Policy.Layout == policy.LayoutKeep:
		return reasons.LayoutKeep, true
	case b.VMI != nil && b.VMI.Annotations[RootComplexAnnotation] == "true":
		return reasons.RootComplex, true
	case b.hasUserAddress(d):
		return reasons.UserAddress, true
	case b.isBelowReferenced(d):
		return reasons.Referenced, true
	}
	return "", false
}

func (b *builder) isBelowReferenced(d *device) bool {
	if d.Address == nil {
		return false
	}
	expander := b.tree.expander(d.Address.Bus)
	return expander != nil && b.tree.isReferenced(expander.Index)
}

// RootComplexAnnotation makes KubeVirt put every device on bus 0
// (kubevirt.io/api/core/v1, PlacePCIDevicesOnRootComplex).
const RootComplexAnnotation = "kubevirt.io/placePCIDevicesOnRootComplex"

// hasUserAddress reports whether the user chose the device's guest address. The
// VMI's interfaces are the only place for it; any other address is libvirt's or
// an earlier call's.
func (b *builder) hasUserAddress(d *device) bool {
	if slices.Contains(b.Policy.Keep, d.Alias) && d.Alias != "" {
		return true
	}
	if d.hostdev >= 0 && b.Domain.Hostdevs[d.hostdev].Unassigned {
		return true
	}
	if b.VMI == nil {
		return false
	}
	for _, i := range b.VMI.Interfaces {
		if i.PCIAddress != "" && d.Alias == "ua-sriov-"+i.Name {
			return true
		}
	}
	return false
}

// SupportedMachine reports whether the machine has expander buses: q35 and
// virt on aarch64 (libvirt src/qemu/qemu_validate.c,
// qemuValidateDomainDeviceDefControllerPCI).
func SupportedMachine(d *domain.Domain) bool {
	switch d.Arch {
	case "aarch64":
		return d.Machine == "virt" || strings.HasPrefix(d.Machine, "virt-")
	case "x86_64", "i686", "":
		return d.Machine == "q35" || strings.HasPrefix(d.Machine, "pc-q35")
	}
	return false
}

// findCell sets the cell of a device, or returns the reason why it has none.
func (b *builder) findCell(d *device, cells cells) reasons.Reason {
	node, known := d.HostNode.Node()
	switch {
	case !b.isOnHost(d.ID):
		return reasons.NoSysfs // whatever the guest has
	case len(b.Domain.Cells) == 0:
		return reasons.NoGuestNUMA
	case !known:
		return reasons.NoHostNode
	}
	cell, reason := cells.of(node)
	d.Cell = cell
	return reason
}

func (b *builder) isOnHost(id topology.DeviceID) bool {
	if uuid, ok := id.MDEV(); ok {
		return b.Host.MDEV(uuid) != nil
	}
	return b.Host.Function(id) != nil
}
