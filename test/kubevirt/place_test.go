package kubevirt

import (
	"fmt"
	"testing"

	"libvirt.org/go/libvirtxml"
)

// tree is a domain's PCI controllers by index, read with libvirtxml.
type tree struct {
	domain      *libvirtxml.Domain
	controllers map[uint]libvirtxml.DomainController
}

func readTree(t *testing.T, domain []byte) tree {
	t.Helper()
	d := &libvirtxml.Domain{}
	if err := d.Unmarshal(string(domain)); err != nil {
		t.Fatalf("libvirtxml, which KubeVirt's plugins go through: %v", err)
	}
	all := tree{d, map[uint]libvirtxml.DomainController{}}
	for _, c := range d.Devices.Controllers {
		if c.Type == "pci" && c.Index != nil {
			all.controllers[*c.Index] = c
		}
	}
	return all
}

// place names where an address stands by what decides it in the guest: the bus
// number and cell of the expander bus, then slot, function and hotplug of each
// bridge, no index. A device of the main bus begins with "main bus".
func (t tree) place(a *libvirtxml.DomainAddress) (place string, expander bool) {
	if a == nil || a.PCI == nil {
		return "no address", false
	}
	for at := a.PCI; ; {
		place = fmt.Sprintf(" > %02x.%x%s", *at.Slot, *at.Function, place)
		if *at.Bus == 0 {
			return "main bus" + place, false
		}
		c := t.controllers[*at.Bus]
		target := &libvirtxml.DomainControllerPCITarget{}
		if c.PCI != nil && c.PCI.Target != nil {
			target = c.PCI.Target
		}
		if c.Model == "pcie-expander-bus" {
			return fmt.Sprintf("busNr %s cell %s%s", number(target.BusNr), number(target.NUMANode), place), true
		}
		if target.Hotplug != "" {
			place = " hotplug=" + target.Hotplug + place
		}
		if c.Address == nil || c.Address.PCI == nil {
			return "no address" + place, false
		}
		at = c.Address.PCI
	}
}

func number(n *uint) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

// placed is the place of each hostdev that stands below an expander bus.
func placed(t *testing.T, domain []byte) map[string]string {
	t.Helper()
	tree := readTree(t, domain)
	all := map[string]string{}
	for _, h := range tree.domain.Devices.Hostdevs {
		if place, below := tree.place(h.Address); below {
			all[hostdevID(h)] = place
		}
	}
	return all
}

func hostdevID(h libvirtxml.DomainHostdev) string {
	switch {
	case h.SubsysPCI != nil:
		a := h.SubsysPCI.Source.Address
		return fmt.Sprintf("%04x:%02x:%02x.%x", *a.Domain, *a.Bus, *a.Slot, *a.Function)
	case h.SubsysMDev != nil:
		return h.SubsysMDev.Source.Address.UUID
	}
	return "another kind"
}

// others is the place of each disk, NIC and controller that is no PCI bridge,
// for those that have one.
func others(t *testing.T, domain []byte) map[string]string {
	t.Helper()
	tree := readTree(t, domain)
	all := map[string]string{}
	note := func(name string, a *libvirtxml.DomainAddress) {
		if a != nil && a.PCI != nil {
			all[name], _ = tree.place(a)
		}
	}
	for i, d := range tree.domain.Devices.Disks {
		note(fmt.Sprintf("disk %d", i), d.Address)
	}
	for i, n := range tree.domain.Devices.Interfaces {
		note(fmt.Sprintf("interface %d", i), n.Address)
	}
	for _, c := range tree.domain.Devices.Controllers {
		if c.Type != "pci" && c.Index != nil {
			note(fmt.Sprintf("controller %s %d", c.Type, *c.Index), c.Address)
		}
	}
	return all
}
