package domain

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	"hook-sidecar/pkg/domain/xmledit"
)

// IsWritable reports whether XML can hold all characters of a text.
func IsWritable(text string) bool { return xmledit.IsText(text) }

// attribute is an attribute of an element that is printed.
type attribute struct{ name, value string }

func printController(c Controller) string {
	attributes := []attribute{
		{"type", "pci"}, {"index", strconv.Itoa(c.Index)}, {"model", string(c.Model)},
	}
	return element("controller", attributes, printTarget(c), printAlias(c.Alias),
		printAddress(c.Address))
}

func printAlias(name string) string {
	if name == "" {
		return ""
	}
	return element("alias", []attribute{{"name", name}})
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

	return fmt.Sprintf(
		`<address type="pci" domain="0x0000" bus="0x%02x" slot="0x%02x" function="0x%x"%s>`+
			`</address>`, a.Bus, a.Slot, a.Function, multifunction)
}

func printTarget(c Controller) string {
	if c.BusNr == nil && c.Cell == nil && !c.HotplugOff && c.Chassis == nil {
		return ""
	}

	chassis, busNr, hotplug, node := "", "", "", ""
	if c.Chassis != nil {
		chassis = strconv.Itoa(*c.Chassis)
	}

	if c.BusNr != nil {
		busNr = strconv.Itoa(*c.BusNr)
	}

	if c.HotplugOff {
		hotplug = "off"
	}

	if c.Cell != nil {
		node = fmt.Sprintf("<node>%d</node>", *c.Cell)
	}

	return element("target", []attribute{
		{"chassis", chassis}, {"busNr", busNr}, {"hotplug", hotplug},
	}, node)
}

// element prints an element around printed children, and leaves out attributes without a value and
// children without text. It prints controllers and addresses as libvirt's Go types do
// (TestPrintsAsLibvirt compares), but without reflection: a domain has one per device, and
// reflection took an eighth of a call.
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

// printHostdev prints a hostdev by libvirt's own Go types, as virt-launcher does (KubeVirt
// pkg/virt-launcher/virtwrap/device/hostdevice/hostdev.go): a PCI device has its VFIO driver
// already, which libvirt does not manage; a mediated device has the model of a PCI device.
func printHostdev(h Hostdev) (string, error) {
	hostdev := &libvirtxml.DomainHostdev{}
	display, ramfb := onOrAbsent(h.Display), onOrAbsent(h.RamFB)
	if a, ok := h.ID.PCI(); ok {
		source := &libvirtxml.DomainAddressPCI{
			Domain:   new(uint(a.Domain)),
			Bus:      new(uint(a.Bus)),
			Slot:     new(uint(a.Device)),
			Function: new(uint(a.Function)),
		}

		hostdev.Managed = "no"
		hostdev.SubsysPCI = &libvirtxml.DomainHostdevSubsysPCI{
			Display: display, RamFB: ramfb,
			Source: &libvirtxml.DomainHostdevSubsysPCISource{Address: source},
		}
	}

	if uuid, ok := h.ID.MDEV(); ok {
		source := &libvirtxml.DomainAddressMDev{UUID: string(uuid)}
		hostdev.SubsysMDev = &libvirtxml.DomainHostdevSubsysMDev{
			Model: "vfio-pci", Display: display, RamFB: ramfb,
			Source: &libvirtxml.DomainHostdevSubsysMDevSource{Address: source},
		}
	}

	if h.Alias != "" {
		hostdev.Alias = &libvirtxml.DomainAlias{Name: h.Alias}
	}

	switch a := h.Address; {
	case a != nil:
		pci := &libvirtxml.DomainAddressPCI{
			Domain:   new(uint(0)),
			Bus:      new(uint(a.Bus)),
			Slot:     new(uint(a.Slot)),
			Function: new(uint(a.Function)),
		}

		if a.Multifunction {
			pci.MultiFunction = "on"
		}

		hostdev.Address = &libvirtxml.DomainAddress{PCI: pci}
	case h.Unassigned:
		hostdev.Address = &libvirtxml.DomainAddress{
			Unassigned: &libvirtxml.DomainAddressUnassigned{},
		}
	}

	text, err := xml.MarshalIndent(hostdev, "", "\t")
	return string(text), err
}

func onOrAbsent(on bool) string {
	if on {
		return "on"
	}
	return ""
}
