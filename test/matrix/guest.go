package matrix

import (
	"fmt"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"
)

// Guest is the PCI Express tree of a domain.
type Guest struct {
	controllers map[uint]libvirtxml.DomainController
	devices     map[string]*libvirtxml.DomainAddressPCI // by host address or UUID
}

// NewGuest reads the tree of a domain.
func NewGuest(d *libvirtxml.Domain) Guest {
	g := Guest{map[uint]libvirtxml.DomainController{}, map[string]*libvirtxml.DomainAddressPCI{}}
	if d.Devices == nil {
		return g
	}
	for _, c := range d.Devices.Controllers {
		if c.Type == "pci" && c.Index != nil {
			g.controllers[*c.Index] = c
		}
	}
	for _, h := range d.Devices.Hostdevs {
		var at *libvirtxml.DomainAddressPCI
		if h.Address != nil {
			at = h.Address.PCI
		}
		switch {
		case h.SubsysPCI != nil:
			a := h.SubsysPCI.Source.Address
			g.devices[fmt.Sprintf("%04x:%02x:%02x.%x", *a.Domain, *a.Bus, *a.Slot, *a.Function)] = at
		case h.SubsysMDev != nil:
			g.devices[strings.ToLower(h.SubsysMDev.Source.Address.UUID)] = at
		}
	}
	return g
}

// Spot is where a device stands in the guest. It is false for a device on the
// root bus, or without an address.
func (g Guest) Spot(id string) (Spot, bool, error) {
	at := g.devices[id]
	if at == nil || at.Bus == nil {
		return Spot{}, false, nil
	}
	spot := Spot{Slot: fmt.Sprintf("%d/%d", *at.Bus, *at.Slot), Node: Unknown}
	for bus := *at.Bus; ; {
		c, there := g.controllers[bus]
		if !there {
			return Spot{}, false, fmt.Errorf("%s: there is no controller %d", id, bus)
		}
		if c.Model == "pcie-expander-bus" {
			spot.Root = fmt.Sprintf("expander bus %d", bus)
			if c.PCI != nil && c.PCI.Target != nil && c.PCI.Target.NUMANode != nil {
				spot.Node = int(*c.PCI.Target.NUMANode)
			}
			slices.Reverse(spot.Bridges)
			return spot, true, nil
		}
		spot.Bridges = append(spot.Bridges, fmt.Sprint(bus))
		if c.Address == nil || c.Address.PCI == nil || *c.Address.PCI.Bus == 0 || len(spot.Bridges) > 256 {
			return Spot{}, false, nil
		}
		bus = *c.Address.PCI.Bus
	}
}
