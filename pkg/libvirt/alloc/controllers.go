package alloc

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
)

// Controllers returns the controllers by index, then root ports that are added with these indexes.
// Each has the address that it has in the domain or, of root ports, expander buses and bridges of
// the root bus, that libvirt gives it before the devices, the added ones last, and from a slot
// on. One for which there is no place has none.
func Controllers(
	d *domain.Domain, devices []libvirt.Device, m Libvirt, added []int, from int,
) []domain.Controller {
	g := newGuest(d, devices, m)
	a, err := g.beforeControllers()
	list := g.layout().Domain.Controllers
	slices.SortStableFunc(list, func(x, y domain.Controller) int {
		return cmp.Compare(x.Index, y.Index)
	})

	for _, index := range added {
		list = append(list, domain.Controller{Index: index, Model: domain.RootPort})
	}

	if err != nil { // libvirt refuses the domain
		return list
	}

	for i, c := range list {
		if i == len(list)-len(added) {
			a.buses[0].first = max(a.buses[0].first, from)
		}

		isOnRootBus := c.Model == domain.RootPort || c.Model == domain.ExpanderBus ||
			c.Model == domain.DMIToPCIBridge
		if c.Address != nil || !isOnRootBus {
			continue
		}

		if at, err := a.next(connectionOf(c.Model), anyFunction); err == nil {
			list[i].Address = &at
		}
	}

	return list
}

// beforeControllers reserves what is given or is the chipset's.
func (g *guest) beforeControllers() (*addresses, error) {
	a, err := g.collect(true)
	if err == nil && libvirt.IsQ35(g.domain.Machine) {
		err = g.assignChipset(a)
	}
	return a, err
}

// IsBeforeHostdevs reports whether libvirt gives the device an address before hostdevs.
func IsBeforeHostdevs(d libvirt.Device) bool {
	at := slices.Index(assignedElements, d.Element)
	return at >= 0 && at < slices.Index(assignedElements, "hostdev")
}
