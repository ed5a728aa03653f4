package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
)

// staysConventional reports whether a device stays where it is because it is a
// conventional PCI device, and under no expander bus, where KubeVirt may put it.
// libvirt adds a bridge to conventional PCI
// for one without an address, which takes the first free port; without the bridge
// disks and NICs would move.
func staysConventional(d Device, current guest) bool {
	return !d.Added && isConventional(d) && current.expander(d.current) == nil
}

// isConventional reports whether libvirt takes a device for conventional PCI
// (src/util/virpci.c, virPCIDeviceInit). A mediated device never is.
func isConventional(d Device) bool {
	return d.ID.Kind() == topology.KindPCI && d.Function != nil && d.Function.Conventional
}

// currentGuest is the guest of the domain as it came.
func currentGuest(in Input) guest {
	others := libvirt.Devices(in.Domain)
	hasBridge := slices.ContainsFunc(in.Domain.Controllers, func(c domain.Controller) bool { return c.Model == domain.PCIeToPCIBridge })
	for _, h := range in.Domain.Hostdevs {
		if h.Address == nil && !h.Unassigned && !hasBridge && isConventional(hostDevice(in.Host, h.ID)) {
			// Beside the port that is counted for each hostdev.
			others = append(others, libvirt.Device{NeedsPort: true, NeedsBridge: true})
		}
	}
	return reserveNamed(completed(in.Domain, others))
}

// reserveNamed is a guest in which the controllers that something else in the
// domain names are taken, where libvirt will make them: those up to the last root
// port that it adds.
func reserveNamed(g guest) guest {
	missing := slices.DeleteFunc(slices.Clone(g.References), func(index int) bool { return g.node(index) != nil })
	if len(missing) == 0 {
		return g
	}
	last := libvirt.HighestIndex(g.Domain, g.others)
	if added := addedPorts(g); len(added) > 0 {
		last = max(last, slices.Max(added)+1) // one for hotplug where the domain has no port
	}
	others := g.others
	for _, index := range missing {
		if index <= last {
			others = append(others, libvirt.Device{Device: domain.Device{Address: &domain.GuestAddress{Bus: index}}})
		}
	}
	return completed(g.source, others)
}
