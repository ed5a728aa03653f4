package libvirt

import (
	"strconv"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// RootPortDriver is QEMU's driver of libvirt's pcie-root-port, with its properties
// (hw/pci-bridge/gen_pcie_root_port.c).
const (
	RootPortDriver = "pcie-root-port"
	SpeedProperty  = "x-speed"
	widthProperty  = "x-width"
)

// PortSpeed is a speed that QEMU's root ports can advertise (qapi/common.json and
// hw/core/qdev-properties-system.c, PCIELinkSpeed).
type PortSpeed struct {
	Name  string
	GTs   float64
	Since string // version of QEMU that has it, "" for any
}

// PortSpeeds returns all such speeds, the slowest first.
func PortSpeeds() []PortSpeed {
	return []PortSpeed{{"2_5", 2.5, ""}, {"5", 5, ""}, {"8", 8, ""}, {"16", 16, ""}, {"32", 32, "9.0"}, {"64", 64, "9.0"}}
}

// DefaultRootPortLink is the link that QEMU's root ports advertise.
func DefaultRootPortLink() topology.Link { return topology.Link{Speed: 16, Width: 32} }

// SwitchPortLink is the link that QEMU's downstream ports advertise; no property changes it up to
// QEMU 11.1 (hw/pci-bridge/xio3130_downstream.c).
func SwitchPortLink() topology.Link { return topology.Link{Speed: 2.5, Width: 1} }

// RootPortLink is the link that the root ports of a domain advertise.
func RootPortLink(d *domain.Domain) topology.Link {
	link := DefaultRootPortLink()
	_, speed := d.Global(RootPortDriver, SpeedProperty)
	for _, s := range PortSpeeds() {
		if s.Name == speed {
			link.Speed = s.GTs
		}
	}
	_, width := d.Global(RootPortDriver, widthProperty)
	if lanes, err := strconv.Atoi(width); err == nil {
		link.Width = lanes
	}
	return link
}
