package rules

import "libvirt.org/go/libvirtxml"

// place is a slot of a bus.
type place struct{ bus, slot uint }

// functions: function 0 is there where another function is, unless it was
// missing before, and no two devices share a function.
func (c *checker) functions(before *libvirtxml.Domain) {
	was := functionsOf(before)
	for at, count := range functionsOf(c.domain) {
		for function, devices := range count {
			if devices > 1 {
				c.breach("bus %d slot %d function %d is taken %d times", at.bus, at.slot, function, devices)
			}
		}
		missingBefore := len(was[at]) > 0 && was[at][0] == 0
		if count[0] == 0 && at.bus != 0 && !missingBefore {
			c.breach("bus %d slot %d has no function 0", at.bus, at.slot)
		}
	}
}

// functionsOf counts the devices on each function of each slot.
func functionsOf(d *libvirtxml.Domain) map[place]map[uint]int {
	counts := map[place]map[uint]int{}
	add := func(at *libvirtxml.DomainAddressPCI) {
		if at == nil || at.Slot == nil || at.Function == nil {
			return
		}
		p := place{*at.Bus, *at.Slot}
		if counts[p] == nil {
			counts[p] = map[uint]int{}
		}
		counts[p][*at.Function]++
	}
	for _, h := range hostdevs(d) {
		add(addressOf(h.Address))
	}
	for _, at := range devices(d) {
		add(at)
	}
	for _, controller := range pciControllers(d) {
		add(addressOf(controller.Address))
	}
	return counts
}

// unmoved: what is no hostdev and has an address keeps it.
func (c *checker) unmoved(before *libvirtxml.Domain) {
	now := c.devices()
	for name, was := range devices(before) {
		is, there := now[name]
		switch {
		case !there:
			c.breach("%s is gone", name)
		case was == nil && is == nil:
		case was == nil || is == nil || *was.Bus != *is.Bus || *was.Slot != *is.Slot || *was.Function != *is.Function:
			c.breach("%s has moved", name)
		}
	}
}

// hostdevs: none is dropped, renamed or reordered, and each PCI one has a mode.
func (c *checker) hostdevs(before *libvirtxml.Domain) {
	now := hostdevs(c.domain)
	for i, was := range hostdevs(before) {
		if i >= len(now) || aliasOf(was) != aliasOf(now[i]) {
			c.breach("hostdev %d (%s) is dropped, renamed or reordered", i, aliasOf(was))
		}
	}
}

func aliasOf(h libvirtxml.DomainHostdev) string {
	if h.Alias == nil {
		return ""
	}
	return h.Alias.Name
}
