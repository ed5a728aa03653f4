package libvirt

import (
	"slices"
	"strconv"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// QEMU's drivers of libvirt's root and switch ports (libvirt src/qemu/qemu_command.c,
// qemuBuildControllersCommandLine), and those of switch ports whose link can be set. The latter are
// plain PCI Express switch ports on a machine without cxl=on.
const (
	RootPortDriver       = "pcie-root-port"     // hw/pci-bridge/gen_pcie_root_port.c
	upstreamDriver       = "x3130-upstream"     // hw/pci-bridge/xio3130_upstream.c
	downstreamDriver     = "xio3130-downstream" // hw/pci-bridge/xio3130_downstream.c
	CXLUpstreamDriver    = "cxl-upstream"       // hw/pci-bridge/cxl_upstream.c
	CXLDownstreamDriver  = "cxl-downstream"     // hw/pci-bridge/cxl_downstream.c
	SpeedProperty        = "x-speed"
	WidthProperty        = "x-width"
	sinceSwitchPortLinks = "10.0" // QEMU's version in which the last two have these properties
)

// portSpeed is a speed that QEMU's ports can advertise (qapi/common.json and
// hw/core/qdev-properties-system.c, PCIELinkSpeed).
type portSpeed struct {
	name  string
	gts   float64
	since string // version of QEMU whose root ports have it, "" for any
}

// portSpeeds are all such speeds, the slowest first.
var portSpeeds = []portSpeed{
	{"2_5", 2.5, ""}, {"5", 5, ""}, {"8", 8, ""}, {"16", 16, ""}, {"32", 32, "9.0"},
	{"64", 64, "9.0"},
}

// portWidths are the numbers of lanes that QEMU's ports can advertise (qapi/common.json,
// PCIELinkWidth).
var portWidths = []int{1, 2, 4, 8, 12, 16, 32}

// DefaultRootPortLink returns the link that QEMU's root ports advertise.
func DefaultRootPortLink() topology.Link { return topology.Link{Speed: 16, Width: 32} }

// DefaultUplink returns the link that the upstream ports of libvirt's switches advertise.
func DefaultUplink() topology.Link { return topology.Link{Speed: 2.5, Width: 1} }

// defaultLinks has the link that each driver advertises without properties. A downstream port of
// the TI switch has none: Linux shows it as "Unknown" and 0 (seen in guests, QEMU 7.2, 10.0 and
// 11.1).
var defaultLinks = map[string]topology.Link{
	RootPortDriver:      DefaultRootPortLink(),
	upstreamDriver:      DefaultUplink(),
	downstreamDriver:    {},
	CXLUpstreamDriver:   {Speed: 32, Width: 16},
	CXLDownstreamDriver: {Speed: 64, Width: 16},
}

// driverOf returns the driver that libvirt gives a port, "" for other controllers.
func driverOf(model domain.Model) string {
	switch model {
	case domain.RootPort:
		return RootPortDriver
	case domain.UpstreamPort:
		return upstreamDriver
	case domain.DownstreamPort:
		return downstreamDriver
	}

	return ""
}

// LinkDriver returns the driver that has properties for the link, for a port whose driver in
// libvirt has none; else "".
func LinkDriver(model domain.Model) string {
	switch model {
	case domain.UpstreamPort:
		return CXLUpstreamDriver
	case domain.DownstreamPort:
		return CXLDownstreamDriver
	}

	return ""
}

// SpeedSince returns the version of QEMU whose root ports can advertise a speed, "" for any.
func SpeedSince(gts float64) string {
	for _, s := range portSpeeds {
		if s.gts == gts {
			return s.since
		}
	}
	return ""
}

// PortLinkOption returns the user's last option that sets a link of all root ports, or of all
// switch ports whose link can be set; nil without one.
func PortLinkOption(d *domain.Domain) *domain.Option {
	for _, driver := range []string{RootPortDriver, CXLUpstreamDriver, CXLDownstreamDriver} {
		for _, property := range []string{SpeedProperty, WidthProperty} {
			if o, _ := d.Global(driver, property); o != nil && o.Mark() == "" {
				return o
			}
		}
	}

	return nil
}

// PortLink returns the link that a root or switch port of a domain advertises in the guest: the
// link of QEMU's driver, with the properties that -global and then qemu:override set. It is the
// zero Link for other controllers, and if the guest shows "Unknown" and 0: then NCCL takes the
// speed of the device under the port (2.29.7 src/graph/xml.cc:601-625).
func PortLink(d *domain.Domain, c domain.Controller) topology.Link {
	driver := driverOf(c.Model)
	var overrides []domain.PortOverride
	for _, o := range d.PortOverrides() {
		if o.Alias == c.QEMUAlias() {
			overrides = append(overrides, o)
			if o.Driver != "" {
				driver = o.Driver
			}
		}
	}

	link := defaultLinks[driver]
	_, speed := d.Global(driver, SpeedProperty)
	_, width := d.Global(driver, WidthProperty)
	link = withProperties(link, speed, width)
	for _, o := range overrides {
		link = withProperties(link, o.Speed, o.Width)
	}

	return link
}

// withProperties returns a link after its speed and width are set, "" for not set. QEMU refuses
// values that it does not know.
func withProperties(link topology.Link, speed, width string) topology.Link {
	for _, s := range portSpeeds {
		if s.name == speed {
			link.Speed = s.gts
		}
	}

	if lanes, err := strconv.Atoi(width); err == nil && slices.Contains(portWidths, lanes) {
		link.Width = lanes
	}

	return link
}

// LinkProperties returns a link as QEMU spells its properties x-speed and x-width; isKnown is false
// where it has no value for one of them.
func LinkProperties(link topology.Link) (speed, width string, isKnown bool) {
	for _, s := range portSpeeds {
		if s.gts == link.Speed {
			speed = s.name
		}
	}
	return speed, strconv.Itoa(link.Width), speed != "" && slices.Contains(portWidths, link.Width)
}

// NodeLink returns PortLink of a port in Tree; libvirt adds root ports that the domain lacks.
func NodeLink(d *domain.Domain, n *topology.Node) topology.Link {
	index, isController := n.ID.(topology.Index)
	if !isController {
		return topology.Link{}
	}

	for _, c := range d.Controllers {
		if c.Index == int(index) {
			return PortLink(d, c)
		}
	}

	return PortLink(d, domain.Controller{Index: int(index), Model: domain.RootPort})
}
