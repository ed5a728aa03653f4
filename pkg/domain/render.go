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
// value and children without text. All is printed so as libvirt's Go types print it
// (TestPrintsAsLibvirt compares), but without reflection, which took an eighth of a call.
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

// valueIf returns the value of an attribute that is left out otherwise.
func valueIf(isSet bool, value string) string {
	if isSet {
		return value
	}
	return ""
}

// printAddress prints an address, "" for none.
func printAddress(a *GuestAddress) string {
	if a == nil {
		return ""
	}
	return fmt.Sprintf(`<address type="pci" domain="0x0000" bus="0x%02x" slot="0x%02x" function="0x%x"%s></address>`,
		a.Bus, a.Slot, a.Function, valueIf(a.Multifunction, ` multifunction="on"`))
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
	busNr, node := "", ""
	if c.BusNr != nil {
		busNr = strconv.Itoa(*c.BusNr)
	}
	if c.Cell != nil {
		node = fmt.Sprintf("<node>%d</node>", *c.Cell)
	}
	return element("target", []attribute{{"busNr", busNr}, {"hotplug", valueIf(c.HotplugOff, "off")}}, node)
}

// printHostdev prints a hostdev as virt-launcher does (KubeVirt
// pkg/virt-launcher/virtwrap/device/hostdevice/hostdev.go): a PCI device has its VFIO driver
// already, which libvirt does not manage; a mediated device has the model of a PCI device.
func printHostdev(h Hostdev) string {
	kind, managed, model, source := "pci", "no", "", ""
	if a, isPCI := h.ID.PCI(); isPCI {
		source = fmt.Sprintf(`<address domain="0x%04x" bus="0x%02x" slot="0x%02x" function="0x%x"></address>`, a.Domain, a.Bus, a.Device, a.Function)
	}
	if uuid, isMDEV := h.ID.MDEV(); isMDEV {
		kind, managed, model = "mdev", "", "vfio-pci"
		source = element("address", []attribute{{"uuid", string(uuid)}})
	}
	address := printAddress(h.Address)
	if h.Address == nil && h.Unassigned {
		address = element("address", []attribute{{"type", "unassigned"}})
	}
	attributes := []attribute{
		{"mode", "subsystem"}, {"type", kind}, {"model", model}, {"display", valueIf(h.Display, "on")}, {"ramfb", valueIf(h.RamFB, "on")}, {"managed", managed},
	}
	return element("hostdev", attributes, element("source", nil, source), printAlias(h.Alias), address)
}
