package domain

import (
	"fmt"
	"strconv"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
)

// IsWritable reports whether XML can hold all characters of a text.
func IsWritable(text string) bool { return xmledit.IsText(text) }

// attribute is an attribute of an element that is printed.
type attribute struct{ name, value string }

// element prints an element around printed children, and leaves out attributes without a
// value and children without text. Controllers and addresses, of which a domain has one per
// device, are printed so as libvirt's Go types print them (TestPrintsAsLibvirt compares), but
// without reflection, which took an eighth of a call.
func element(name string, attributes []attribute, children ...string) string {
	var text strings.Builder
	text.Grow(256) // more than most take
	write := func(parts ...string) {
		for _, part := range parts {
			text.WriteString(part)
		}
	}
	write("<", name)
	for _, a := range attributes {
		if a.value != "" {
			write(" ", a.name, `="`, xmledit.Escape(a.value), `"`)
		}
	}
	write(">")
	newline := ""
	for _, child := range children {
		if child != "" {
			write("\n\t", strings.ReplaceAll(child, "\n", "\n\t"))
			newline = "\n"
		}
	}
	write(newline, "</", name, ">")
	return text.String()
}

func onOrAbsent(on bool) string {
	if on {
		return "on"
	}
	return ""
}

// printAddress prints an address, "" for none.
func printAddress(a *GuestAddress) string {
	if a == nil {
		return ""
	}
	multifunction := ""
	if a.Multifunction {
		multifunction = ` multifunction="on"`
	}
	return fmt.Sprintf(`<address type="pci" domain="0x0000" bus="0x%02x" slot="0x%02x" function="0x%x"%s></address>`,
		a.Bus, a.Slot, a.Function, multifunction)
}

// pciAttributes are the numbers of a PCI address, as libvirt writes them.
func pciAttributes(domain, bus, slot, function int) []attribute {
	return []attribute{
		{"domain", fmt.Sprintf("0x%04x", domain)}, {"bus", fmt.Sprintf("0x%02x", bus)},
		{"slot", fmt.Sprintf("0x%02x", slot)}, {"function", fmt.Sprintf("0x%x", function)},
	}
}

func printAlias(name string) string {
	if name == "" {
		return ""
	}
	return element("alias", []attribute{{"name", name}})
}

func printController(c Controller) string {
	attributes := []attribute{{"type", "pci"}, {"index", strconv.Itoa(c.Index)}, {"model", string(c.Model)}}
	return element("controller", attributes, printTarget(c), printAlias(c.Alias), printAddress(c.Address))
}

func printTarget(c Controller) string {
	if c.BusNr == nil && c.Cell == nil && !c.HotplugOff {
		return ""
	}
	busNr, hotplug, node := "", "", ""
	if c.BusNr != nil {
		busNr = strconv.Itoa(*c.BusNr)
	}
	if c.HotplugOff {
		hotplug = "off"
	}
	if c.Cell != nil {
		node = fmt.Sprintf("<node>%d</node>", *c.Cell)
	}
	return element("target", []attribute{{"busNr", busNr}, {"hotplug", hotplug}}, node)
}

// printHostdev prints a hostdev as virt-launcher does (KubeVirt
// pkg/virt-launcher/virtwrap/device/hostdevice/hostdev.go): a PCI device has its VFIO driver
// already, which libvirt does not manage; a mediated device has the model of a PCI device.
func printHostdev(h Hostdev) string {
	var source []attribute
	kind, model, managed := "mdev", "vfio-pci", ""
	if uuid, ok := h.ID.MDEV(); ok {
		source = []attribute{{"uuid", string(uuid)}}
	}
	if a, ok := h.ID.PCI(); ok {
		kind, model, managed = "pci", "", "no"
		source = pciAttributes(int(a.Domain), int(a.Bus), int(a.Device), int(a.Function))
	}
	address := printAddress(h.Address)
	if h.Unassigned {
		address = element("address", []attribute{{"type", "unassigned"}})
	}
	attributes := []attribute{
		{"mode", "subsystem"}, {"type", kind}, {"model", model}, {"display", onOrAbsent(h.Display)}, {"ramfb", onOrAbsent(h.RamFB)}, {"managed", managed},
	}
	return element("hostdev", attributes, element("source", nil, element("address", source)), printAlias(h.Alias), address)
}
