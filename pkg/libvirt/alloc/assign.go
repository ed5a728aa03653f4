package alloc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
)

// collectedElements are the elements in the order in which libvirt reserves the addresses that they
// have (src/conf/domain_conf.c, virDomainDeviceInfoIterateFlags). It decides which buses are added
// for addresses on a bus that is missing.
var collectedElements = []string{
	"disk", "interface", "sound", "hostdev", "video", "controller", "smartcard", "serial",
	"parallel",
	"channel", "console", "input", "filesystem", "watchdog", "memballoon", "rng", "nvram", "hub",
	"shmem",
	"tpm", "panic", "memory", "redirdev", "iommu", "vsock", "crypto", "pstore",
	"", // addresses that are reserved for something else
}

// collect returns the buses of the controllers, root ports for indexes that are missing, with the
// addresses that the domain has (src/qemu/qemu_domain_address.c, qemuDomainPCIAddressSetCreate).
func (sim *simulation) collect(isFirst bool) (*addresses, error) {
	a := &addresses{Version: sim.Version, isFirst: isFirst, buses: sim.space}
	a.buses = slices.Grow(a.buses, sim.buses+len(sim.others))
	a.add(domain.RootPort, sim.buses)
	a.buses[0] = newBus(domain.PCIeRoot)
	for _, c := range sim.controllers {
		a.buses[c.index] = newBus(c.model)
	}

	for _, i := range sim.collected() {
		if i.at == nil {
			continue
		}
		if err := a.reserve(*i.at, i.flags, true); err != nil {
			return nil, fmt.Errorf("%s: %w", i.name(), err)
		}
	}

	return a, nil
}

// collected returns all controllers and devices in the order of collectedElements.
func (sim *simulation) collected() []*item {
	all := slices.Concat(sim.hostdevs, sim.controllers, sim.devices)
	slices.SortStableFunc(all, func(x, y *item) int {
		return cmp.Compare(x.collectRank(), y.collectRank())
	})
	return all
}

// collectRank returns the position of an item's element in collectedElements.
func (i *item) collectRank() int { return slices.Index(collectedElements, i.element) }

// assign gives an address to each controller and device that has none
// (qemuDomainAssignDevicePCISlots). The first pass forgets these addresses.
func (sim *simulation) assign(a *addresses) error {
	for _, c := range sim.controllers {
		if err := a.assign(c); err != nil {
			return err
		}
	}

	for _, i := range sim.others {
		var err error
		if isUSB2(i) {
			err = sim.assignUSB2(a, i)
		} else {
			err = a.assign(i)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// assign gives an item an address, where it needs one.
func (a *addresses) assign(i *item) error { return a.assignFunction(i, anyFunction) }

func (a *addresses) assignFunction(i *item, function int) error {
	if !i.isOpen() {
		return nil
	}

	at, err := a.next(i.flags, function)
	if err != nil {
		return fmt.Errorf("%s: %w", i.name(), err)
	}

	if !a.isFirst {
		i.at = &at
	}

	return nil
}

// usb2Functions are the functions of the parts of a USB 2 controller, which share a slot.
var usb2Functions = map[domain.Model]int{
	"ich9-ehci1": 7, "ich9-uhci1": 0, "ich9-uhci2": 1, "ich9-uhci3": 2,
}

func isUSB2(i *item) bool {
	return i.element == "controller" && i.kind == "usb" &&
		strings.HasPrefix(string(i.model), "ich9-")
}

// assignUSB2 gives a part of a USB 2 controller an address in the slot of a part that has one.
// The first pass keeps it.
func (sim *simulation) assignUSB2(a *addresses, part *item) error {
	if !part.isOpen() {
		return nil
	}

	function := usb2Functions[part.model]
	for _, other := range sim.others {
		if !isUSB2(other) || other.index != part.index || other.at == nil {
			continue
		}

		at := domain.GuestAddress{Bus: other.at.Bus, Slot: other.at.Slot, Function: function}
		if err := a.reserve(at, part.flags, true); err != nil {
			return fmt.Errorf("%s: %w", part.name(), err)
		}

		part.at = &at
		return nil
	}

	return a.assignFunction(part, function)
}

// Slots of q35's root bus that libvirt keeps for devices, and the chipset's own: ISA, SMBus and
// SATA.
const (
	videoSlot   = 0x01
	soundSlot   = 0x1b
	dmiSlot     = 0x1e
	chipsetSlot = 0x1f
)

var usb2Slots = []int{0x1d, 0x1a}

// assignChipset gives devices the slots of the root bus that q35 has for them, where these are free
// (qemuDomainValidateDevicePCISlotsQ35). A bridge and a USB 2 controller with <address type='pci'/>
// get none. The first pass keeps these addresses.
func (sim *simulation) assignChipset(a *addresses) error {
	for _, c := range sim.controllers {
		if c.model == domain.DMIToPCIBridge && c.at == nil && !c.isTyped {
			a.takeSlot(c, dmiSlot)
		}
	}

	for _, i := range sim.others {
		switch {
		case i.element != "controller" || i.at != nil:
		case i.kind == "sata" && i.index <= 0:
			// reserved in the second pass
			i.at = &domain.GuestAddress{Slot: chipsetSlot, Function: 2}

		case isUSB2(i) && i.model == "ich9-uhci1" && !i.isTyped:
			for _, slot := range usb2Slots {
				if a.takeSlot(i, slot) {
					break
				}
			}
		}
	}

	for _, function := range []int{0, 3} {
		if err := a.reserve(domain.GuestAddress{
			Slot: chipsetSlot, Function: function,
		}, express, true); err != nil {
			return fmt.Errorf("the chipset: %w", err)
		}
	}

	if err := sim.assignPrimaryVideo(a); err != nil {
		return err
	}

	for i, d := range sim.given.Devices {
		if d.Element == "sound" && d.Model == "ich9" && sim.devices[i].at == nil {
			a.takeSlot(sim.devices[i], soundSlot)
			break
		}
	}

	return nil
}

// takeSlot gives an item a slot of the root bus, if it is free.
func (a *addresses) takeSlot(i *item, number int) bool {
	s := &a.buses[0].slots[number]
	if s.functions != 0 {
		return false
	}

	s.functions = 1
	i.at = &domain.GuestAddress{Slot: number}
	return true
}

// assignPrimaryVideo gives the first video device its slot. Where that is taken, the device gets an
// address before all controllers; the first pass reserves one here and another with the video
// devices.
func (sim *simulation) assignPrimaryVideo(a *addresses) error {
	primary := libvirt.PrimaryVideo(sim.given.Devices)
	if primary < 0 {
		return nil
	}

	video := sim.devices[primary]
	if !video.isOpen() || a.takeSlot(video, videoSlot) {
		return nil
	}

	return a.assign(video)
}
