package libvirt

import "hook-sidecar/pkg/domain"

// Addressed returns the controllers by index, then root ports that libvirt adds with these
// indexes, each with the address that it has or, of root ports, expander buses and bridges of the
// root bus, that libvirt gives it: first to the controllers of the domain by index, then to the
// added ones (src/qemu/qemu_domain_address.c, qemuDomainAssignDevicePCISlots;
// virDomainDefMaybeAddController appends).
func Addressed(d *domain.Domain, devices []Device, added []int) []domain.Controller {
	slots := rootBusSlots(d, devices)
	var all []domain.Controller
	for _, c := range byIndex(d) {
		all = append(all, *c)
	}

	for i, c := range all { // qemuDomainValidateDevicePCISlotsQ35
		if c.Address == nil && c.Model == domain.DMIToPCIBridge && IsQ35(d.Machine) &&
			slots.isFree(dmiSlot) {
			all[i].Address = &domain.GuestAddress{Slot: dmiSlot}
			slots.use(all[i].Address, false)
		}
	}

	for _, index := range added {
		all = append(all, domain.Controller{Index: index, Model: domain.RootPort})
	}

	for i, c := range all {
		isOnRootBus := c.Model == domain.RootPort || c.Model == domain.ExpanderBus ||
			c.Model == domain.DMIToPCIBridge
		if isOnRootBus && c.Address == nil {
			all[i].Address = slots.next(c.Model == domain.RootPort)
		}
	}

	return all
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

	if IsQ35(d.Machine) {
		s.use(&domain.GuestAddress{Slot: chipsetSlot}, false)
	}

	return s
}

// use marks an address as taken, unless it is nil or on another bus.
func (s *rootSlots) use(a *domain.GuestAddress, isPort bool) {
	if a != nil && a.Bus == 0 {
		s[a.Slot].functions |= 1 << a.Function
		s[a.Slot].other = s[a.Slot].other || !isPort
	}
}

func (s *rootSlots) isFree(slot int) bool { return s[slot].functions == 0 }

// next takes the lowest free slot, if there is one; for a root port, the lowest free function of
// the lowest slot that has only root ports (src/conf/domain_addr.c,
// virDomainPCIAddressFindUnusedFunctionOnBus).
func (s *rootSlots) next(isPort bool) *domain.GuestAddress {
	for i := 1; i < len(s); i++ {
		for function := range 8 {
			isShared := isPort && !s[i].other && s[i].functions&(1<<function) == 0
			if isShared || s.isFree(i) {
				a := &domain.GuestAddress{Slot: i, Function: function}
				s.use(a, isPort)
				return a
			}
		}
	}

	return nil
}
