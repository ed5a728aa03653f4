package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
)

// mainBus is what stands on the main bus and what is still to come.
type mainBus struct {
	bridges    int // controllers of the main bus and below, expander buses left out
	unplugged  int // of these, others than root ports without an address
	rootPorts  int // of these, root ports
	free       int // of these, with nothing below
	hungry     int // devices without an address that will take a root port
	coming     int // bridges that libvirt and KubeVirt will add
	otherSlots int // slots that are not for root ports
}

// buses is how many bus numbers the main bus takes in the end, its own included.
func (m mainBus) buses() int { return 1 + m.bridges + m.coming }

// mainBus counts what is on the main bus of a domain whose controllers will
// reach the index highest.
func (b *builder) mainBus(t *tree, highest int) mainBus {
	m := mainBus{otherSlots: otherSlots(t)}
	occupied := t.occupants()
	for _, c := range t.domain.Controllers {
		if c.Index == 0 || c.Model == domain.ExpanderBus || t.expander(c.Index) != nil {
			continue
		}
		m.bridges++
		if c.Model != domain.RootPort {
			if c.Address == nil {
				m.unplugged++
			}
			continue
		}
		m.rootPorts++
		if occupied[c.Index] == 0 && len(t.below[c.Index]) == 0 {
			m.free++
		}
	}
	m.hungry = hungry(t.domain)
	m.coming = max(0, m.hungry-m.free) + max(0, b.sparePorts(highest)-max(0, m.free-m.hungry))
	if lacksBridge(t.domain) {
		m.coming += 2 // a bridge to conventional PCI, and the root port above it
	}
	return m
}

// lacksBridge reports whether libvirt will add a bridge to conventional PCI.
func lacksBridge(d *domain.Domain) bool {
	return slices.ContainsFunc(libvirt.Devices(d), func(o libvirt.Device) bool { return o.NeedsBridge && o.Address == nil })
}

// hungry counts the devices without an address that libvirt plugs into a root
// port of the main bus; a bridge that it adds comes with its own.
func hungry(d *domain.Domain) int {
	count := 0
	for _, o := range libvirt.Devices(d) {
		if o.NeedsPort && !o.NeedsBridge && o.Address == nil {
			count++
		}
	}
	for _, h := range d.Hostdevs {
		if h.Address == nil && !h.Unassigned {
			count++
		}
	}
	return count
}
