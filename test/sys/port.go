package sys

import (
	"fmt"
	"strconv"
	"strings"

	"hook-sidecar/test/tree"
)

// Link has the texts of max_link_speed and max_link_width of a function.
type Link struct{ Speed, Width string }

// advertised are the links of QEMU's bridges, by driver. The kernel has no name for the speed 0
// of xio3130-downstream, for which NCCL takes the device's own (src/graph/xml.cc,
// ncclTopoGetXmlFromSys, and 16 lanes for 0, topo.cc, ncclTopoAddPci). TestPorts reads them from
// QEMU.
var advertised = map[string]Link{
	"pcie-root-port":     {"16.0 GT/s PCIe", "32"},
	"x3130-upstream":     {"2.5 GT/s PCIe", "1"},
	"xio3130-downstream": {"Unknown", "0"},
	"cxl-upstream":       {"32.0 GT/s PCIe", "16"},
	"cxl-downstream":     {"64.0 GT/s PCIe", "16"},
}

// drivers are QEMU's for libvirt's models (src/qemu/qemu_domain_address.c).
var drivers = map[string]string{
	"pcie-root-port":              "pcie-root-port",
	"pcie-switch-upstream-port":   "x3130-upstream",
	"pcie-switch-downstream-port": "xio3130-downstream",
}

// PortLink returns the link that a controller of a domain advertises: QEMU's of its driver, which
// -global and <qemu:override> change.
func PortLink(domain *tree.Node, c tree.Controller) Link {
	driver := drivers[c.Model]
	override := properties(domain, fmt.Sprintf("pci.%d", c.Index))
	if override["driver"] != "" {
		driver = override["driver"]
	}

	return DriverLink(driver, globals(domain, driver), override)
}

// DriverLink returns the link of a port of QEMU by its driver and properties, the last of which
// count.
func DriverLink(driver string, properties ...map[string]string) Link {
	link := advertised[driver]
	for _, set := range properties {
		link.change(set)
	}
	return link
}

// Options returns driver and properties of an option -device or -global: NAME,KEY=VALUE,….
func Options(text string) (driver string, properties map[string]string) {
	driver, rest, _ := strings.Cut(text, ",")
	properties = map[string]string{}
	for pair := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(pair, "=")
		properties[key] = value
	}

	return driver, properties
}

// change changes a link to what properties of its port say.
func (l *Link) change(properties map[string]string) {
	if speed, given := properties["x-speed"]; given {
		gigatransfers, err := strconv.ParseFloat(strings.ReplaceAll(speed, "_", "."), 64)
		if err == nil {
			l.Speed = fmt.Sprintf("%.1f GT/s PCIe", gigatransfers)
		}
	}

	if width, given := properties["x-width"]; given {
		l.Width = width
	}
}

// globals returns the properties that -global gives to a driver.
func globals(domain *tree.Node, driver string) map[string]string {
	all := map[string]string{}
	for _, arg := range domain.Find("qemu:commandline").All("qemu:arg") {
		owner, set := Options(arg.Attr("value"))
		if owner == "driver="+driver && set["property"] != "" {
			all[set["property"]] = set["value"]
		}
	}

	return all
}

// properties returns what <qemu:override> gives to the device of an alias.
func properties(domain *tree.Node, alias string) map[string]string {
	all := map[string]string{}
	for _, device := range domain.Find("qemu:override").All("qemu:device") {
		if device.Attr("alias") != alias {
			continue
		}
		for _, property := range device.Find("qemu:frontend").All("qemu:property") {
			all[property.Attr("name")] = property.Attr("value")
		}
	}

	return all
}
