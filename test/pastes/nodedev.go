package pastes

import (
	"fmt"
	"strings"

	"hook-sidecar/pkg/topology"
)

// NodeDevices prints virsh nodedev-dumpxml of each PCI function (libvirt src/conf/node_device_conf.c,
// virNodeDeviceDefFormat).
func NodeDevices(m *Machine) string {
	return lines(m.Functions, func(_ int, d topology.Function) string {
		at := append(append([]string{d.Root.String()},
			topology.Map(d.Bridges, topology.Address.String)...), d.Address.String())
		name := "pci_" + strings.NewReplacer(":", "_", ".", "_").Replace(d.Address.String())
		text := "<device>\n  <name>" + name + "</name>\n  <path>/sys/devices/" + strings.Join(at, "/") +
			"</path>\n  <parent>computer</parent>\n"
		if d.Driver != "" {
			text += "  <driver>\n    <name>" + d.Driver + "</name>\n  </driver>\n"
		}

		text += fmt.Sprintf("  <capability type='pci'>\n    <class>%#06x</class>\n    <domain>%d</domain>"+
			"\n    <bus>%d</bus>\n    <slot>%d</slot>\n    <function>%d</function>\n"+
			"    <product id='%#04x'/>\n    <vendor id='%#04x'>%s</vendor>\n", d.Class, d.Address.Domain,
			d.Address.Bus, d.Address.Device, d.Address.Function, d.Device, d.Vendor,
			strings.ReplaceAll(vendors[d.Vendor], "&", "&amp;"))
		if d.IOMMUGroup != nil {
			text += fmt.Sprintf("    <iommuGroup number='%d'>\n    </iommuGroup>\n", *d.IOMMUGroup)
		}

		if number := node(d, ""); number != "" {
			text += "    <numa node='" + number + "'/>\n"
		}

		if d.MaxLink != nil {
			text += fmt.Sprintf("    <pci-express>\n      <link validity='cap' port='0' speed='%g' "+
				"width='%d'/>\n      <link validity='sta' speed='2.5' width='%[2]d'/>\n"+
				"    </pci-express>\n", d.MaxLink.Speed, d.MaxLink.Width)
		}

		return text + "  </capability>\n</device>\n"
	})
}
