package firmware

import (
	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// Sizes in the window below 4 GiB.
const (
	// leastBridgeOVMF is the granularity of a bridge's window (PCI-to-PCI Bridge Architecture 1.2,
	// 3.2.5.8), leastBridgeSeaBIOS SeaBIOS's (src/fw/pciinit.c, PCI_BRIDGE_MEM_MIN).
	leastBridgeOVMF, leastBridgeSeaBIOS = 1 << 20, 2 << 20
	// hotplugLow has the bytes that SeaBIOS and OVMF each reserve for a port that can hotplug (edk2
	// OvmfPkg/PciHotPlugInitDxe/PciHotPlugInit.c, GetResourcePadding).
	hotplugLow = 2 << 20
	// portBAR is the BAR of cxl-upstream and cxl-downstream (QEMU include/hw/cxl/cxl_component.h,
	// CXL2_COMPONENT_BLOCK_SIZE): 64-bit, but not prefetchable, so that it has to be below 4 GiB.
	portBAR = 64 << 10

	// lowWindow is the least of the windows of q35: OVMF's ends at 0xe0000000 and begins after the
	// memory, at most at 0xb0000000. SeaBIOS and older OVMF have from 0xc0000000 to 0xfc000000.
	lowWindow = 768 << 20
	// lowWindowVirt has the bytes of that window on machine virt (QEMU hw/arm/virt.c,
	// VIRT_PCIE_MMIO).
	lowWindowVirt = 0x2eff0000
	// lowOfRootBus is more than the root bus takes beside passthrough devices: 31 ports that can
	// hotplug, since KubeVirt adds none beyond index 31, and a display.
	lowOfRootBus = 128 << 20
)

// LowWindow returns the least space of a firmware for BARs below 4 GiB.
func (g Input) LowWindow() uint64 {
	if g.Domain.Arch == "aarch64" {
		return lowWindowVirt
	}
	return lowWindow
}

// MostLow returns Low with the most that the root bus takes in any call of a boot, between which
// KubeVirt and libvirt add ports to it.
func (g Input) MostLow() (all, forPorts uint64) { return g.lowAndPorts(true) }

// Low returns the space below 4 GiB that bridges' windows take for the 32-bit BARs of the PCI
// devices, for hotplug, and for the BARs of switch ports whose link is set, and how much is for
// the last.
func (g Input) Low() (all, forPorts uint64) { return g.lowAndPorts(false) }

func (g Input) lowAndPorts(most bool) (all, forPorts uint64) {
	all = g.low(g.linkedPorts(), most)
	return all, all - g.low(nil, most)
}

// linkedPorts returns the switch ports whose link is set.
func (g Input) linkedPorts() map[topology.ID]bool {
	linked := map[topology.ID]bool{}
	for _, o := range g.Domain.PortOverrides() {
		for _, c := range g.Domain.Controllers {
			if o.Driver != "" && c.QEMUAlias() == o.Alias {
				linked[topology.Index(c.Index)] = true
			}
		}
	}

	return linked
}

// low returns the space below 4 GiB where these ports have a BAR, with the most for the ports of the
// root bus or with what they take now.
func (g Input) low(linked map[topology.ID]bool, most bool) (sum uint64) {
	own := map[topology.ID][]Aperture{}
	for _, f := range g.Functions {
		id := topology.PCIDevice(f.Address)
		for _, bar := range f.BARs {
			if !bar.Is64 && !bar.IO {
				own[id] = append(own[id], Aperture{bar.Bytes, bar.Bytes})
			}
		}
	}

	// Ports that libvirt has yet to add are not among these. With most, lowOfRootBus has them.
	canHotplug := map[topology.ID]bool{}
	for _, c := range g.Domain.Controllers {
		isPort := c.Model == domain.RootPort || c.Model == domain.DownstreamPort
		canHotplug[topology.Index(c.Index)] = isPort && !c.HotplugOff
	}

	for i, root := range g.Tree.Roots {
		if most && i == 0 {
			sum += lowOfRootBus + pack(g.lowUnder(root, own, nil, linked)).Bytes
			continue
		}
		sum += pack(g.lowUnder(root, own, canHotplug, linked)).Bytes
	}

	return sum
}

// lowUnder returns the space of a node on the bus that it is on: a bridge's window, and its own
// BAR.
func (g Input) lowUnder(
	n *topology.Node, own map[topology.ID][]Aperture, canHotplug, linked map[topology.ID]bool,
) []Aperture {
	// What is under a bridge goes into its window, and only the window is on the bus above.
	parts := own[n.ID]
	for _, child := range n.Children {
		parts = append(parts, g.lowUnder(child, own, canHotplug, linked)...)
	}

	if n.Kind == topology.Root || n.Kind == topology.Endpoint {
		return parts
	}

	least := uint64(leastBridgeSeaBIOS)
	if g.Domain.UEFI {
		least = leastBridgeOVMF
	}

	var taken []Aperture
	window := pack(parts)
	if canHotplug[n.ID] {
		window.Bytes = max(window.Bytes, hotplugLow)
	}

	if window.Bytes > 0 {
		taken = append(taken, Aperture{roundUp(window.Bytes, least), max(window.Align, least)})
	}

	if linked[n.ID] {
		taken = append(taken, Aperture{portBAR, portBAR})
	}

	return taken
}
