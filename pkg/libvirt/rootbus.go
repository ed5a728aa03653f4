package libvirt

import (
	"slices"

	"hook-sidecar/pkg/domain"
)

// RootBusAddresses are the addresses that libvirt will give to the root ports,
// expander buses and bridges without one that it puts on the root bus, by index.
// It takes the controllers of the domain by index, then the root ports that it
// adds (src/qemu/qemu_domain_address.c, qemuDomainAssignDevicePCISlots;
// virDomainDefMaybeAddController appends), here with these indexes.
func RootBusAddresses(d *domain.Domain, devices []Device, added []int) map[int]domain.GuestAddress {
	slots := rootBusSlots(d, devices)
	order := slices.DeleteFunc(byIndex(d), func(c *domain.Controller) bool { return c.Address != nil })
	given := map[int]domain.GuestAddress{}
	give := func(index int, a domain.GuestAddress, found bool) {
		if found {
			given[index] = a
		}
	}
	for _, c := range order {
		// qemuDomainValidateDevicePCISlotsQ35
		if c.Model == domain.DMIToPCIBridge && isQ35(d.Machine) && slots.isFree(dmiSlot) {
			slots[dmiSlot].functions = 1
			give(c.Index, domain.GuestAddress{Slot: dmiSlot}, true)
		}
	}
	for _, c := range order {
		_, known := given[c.Index]
		switch {
		case known:
		case c.Model == domain.RootPort:
			a, found := slots.nextPort()
			give(c.Index, a, found)
		case c.Model == domain.ExpanderBus, c.Model == domain.DMIToPCIBridge:
			a, found := slots.next()
			give(c.Index, a, found)
		}
	}
	for _, index := range added {
		a, found := slots.nextPort()
		give(index, a, found)
	}
	return given
}

const (
	dmiSlot     = 0x1e // of domain.DMIToPCIBridge on q35
	chipsetSlot = 0x1f // of q35: ISA, SATA, SMBus
)

// slot is the content of a slot of the root bus.
type slot struct {
	functions uint8 // a bit for each
	other     bool  // one of them is not a root port
}

// rootSlots are the slots of the root bus; libvirt never gives slot 0.
type rootSlots [0x20]slot

func rootBusSlots(d *domain.Domain, devices []Device) *rootSlots {
	s := &rootSlots{}
	for _, c := range d.Controllers {
		s.use(c.Address, c.Model == domain.RootPort)
	}
	for _, h := range d.Hostdevs {
		s.use(h.Address, false)
	}
	for _, o := range devices {
		s.use(o.Address, false)
		if o.ChipsetSlot != 0 {
			s.use(&domain.GuestAddress{Slot: o.ChipsetSlot}, false)
		}
	}
	if isQ35(d.Machine) {
		s.use(&domain.GuestAddress{Slot: chipsetSlot}, false)
	}
	return s
}

// use notes what is at an address, unless that is nil or on another bus.
func (s *rootSlots) use(a *domain.GuestAddress, isPort bool) {
	if a != nil && a.Bus == 0 {
		s[a.Slot].functions |= 1 << a.Function
		s[a.Slot].other = s[a.Slot].other || !isPort
	}
}

func (s *rootSlots) isFree(slot int) bool { return s[slot].functions == 0 }

// next is the lowest slot with nothing in it.
func (s *rootSlots) next() (domain.GuestAddress, bool) {
	for i := 1; i < len(s); i++ {
		if s.isFree(i) {
			s[i] = slot{functions: 1, other: true}
			return domain.GuestAddress{Slot: i}, true
		}
	}
	return domain.GuestAddress{}, false
}

// nextPort is the lowest function of the lowest slot with nothing in it but root
// ports (src/conf/domain_addr.c, virDomainPCIAddressFindUnusedFunctionOnBus).
func (s *rootSlots) nextPort() (domain.GuestAddress, bool) {
	for i := 1; i < len(s); i++ {
		for function := range 8 {
			if bit := uint8(1) << function; !s[i].other && s[i].functions&bit == 0 {
				s[i].functions |= bit
				return domain.GuestAddress{Slot: i, Function: function}, true
			}
		}
	}
	return domain.GuestAddress{}, false
}
