package domain

import (
	"slices"
	"strings"
)

// ports finds which devices without an address libvirt will plug into a root
// port (libvirt src/qemu/qemu_domain_address.c).
func (r *reader) ports() {
	q35 := isQ35(r.domain.Machine)
	if !q35 && !isVirt(r.domain.Machine) {
		return
	}
	if q35 {
		r.chipset()
	}
	r.companions()
	// libvirt adds one bridge for all conventional devices, and only where
	// there is none (qemuDomainAssignPCIAddresses).
	bridge := slices.ContainsFunc(r.domain.Controllers, func(c Controller) bool {
		return c.Model == "pcie-to-pci-bridge" || c.Model == "pci-bridge"
	})
	for i := range r.domain.Others {
		d := &r.domain.Others[i]
		if d.Address != nil {
			continue
		}
		switch r.others[i].how {
		case express:
			d.NeedsPort = true
		case conventional:
			d.NeedsPort, d.NeedsBridge = !bridge, !bridge
			bridge = true
		}
	}
}

// chipset takes out what q35 has a place of its own for, where that slot is
// free: USB 2 at 0x1d or 0x1a, the first video device at 0x01, ICH9 sound at
// 0x1b (qemuDomainValidateDevicePCISlotsQ35).
func (r *reader) chipset() {
	used := r.domain.MainBusSlots()
	for i := range r.domain.Others {
		o := r.other(i)
		if !o.isUSB("ich9-uhci1") || o.Address != nil {
			continue
		}
		slot := 0x1d
		if used[slot] {
			slot = 0x1a
		}
		if !used[slot] {
			used[slot] = true
			r.others[i].how = integrated
		}
	}
	if i := r.primaryVideo(); i >= 0 && r.domain.Others[i].Address == nil && !used[0x01] {
		r.others[i].how = integrated
	}
	sound := slices.IndexFunc(r.domain.Others, func(d Device) bool {
		return d.Element == "sound" && d.Type == "ich9" && d.Address == nil
	})
	if sound >= 0 && !used[0x1b] {
		r.others[sound].how = integrated
	}
}

// MainBusSlots are the slots of the main bus that an explicit address takes.
func (d *Domain) MainBusSlots() map[int]bool {
	used := map[int]bool{}
	use := func(a *GuestAddress) {
		if a != nil && a.Bus == 0 {
			used[a.Slot] = true
		}
	}
	for _, c := range d.Controllers {
		use(c.Address)
	}
	for _, h := range d.Hostdevs {
		use(h.Address)
	}
	for _, o := range d.Others {
		use(o.Address)
	}
	return used
}

// primaryVideo is the position of the video device that libvirt puts first:
// the one with primary='yes', else the first; -1 without any on PCI.
func (r *reader) primaryVideo() int {
	primary := -1
	for i, d := range r.domain.Others {
		if d.Element != "video" {
			continue
		}
		if r.others[i].element.Child("model").Value("primary") == "yes" {
			return i
		}
		if primary < 0 {
			primary = i
		}
	}
	return primary
}

// companions gives the parts of one USB 2 controller a single slot: that of a
// part that has a place, else that of the first (IS_USB2_CONTROLLER in
// qemuDomainAssignDevicePCISlots).
func (r *reader) companions() {
	placed, leader := map[string]bool{}, map[string]int{}
	for i := range r.domain.Others {
		o := r.other(i)
		if !o.isUSB("ich9-") {
			continue
		}
		index := o.element.Value("index")
		if o.Address != nil || o.how == integrated {
			placed[index] = true
		}
		if _, found := leader[index]; !found {
			leader[index] = i
		}
	}
	for i := range r.domain.Others {
		o := r.other(i)
		if !o.isUSB("ich9-") {
			continue
		}
		if index := o.element.Value("index"); placed[index] || leader[index] != i {
			r.others[i].how = integrated
		}
	}
}

// other is a device of Domain.Others with what the reader knows of it.
type other struct {
	Device
	seat
}

func (r *reader) other(i int) other { return other{r.domain.Others[i], r.others[i]} }

func (o other) isUSB(model string) bool {
	return o.Element == "controller" && o.Type == "usb" && strings.HasPrefix(o.element.Value("model"), model)
}
