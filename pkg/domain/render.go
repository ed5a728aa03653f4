package domain

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
)

// attr is an attribute of an element that Apply adds.
type attr struct{ name, value string }

// render writes an element for xmledit to indent, in the order of libvirt's own
// Go types. An attribute and a child that are "" are left out.
func render(name string, attrs []attr, children ...string) string {
	var text strings.Builder
	text.WriteString("<" + name)
	for _, a := range attrs {
		if a.value != "" {
			text.WriteString(" " + a.name + `="` + xmledit.Escape(a.value) + `"`)
		}
	}
	text.WriteString(">")
	end := ""
	for _, child := range children {
		if child != "" {
			text.WriteString(strings.ReplaceAll("\n"+child, "\n", "\n\t"))
			end = "\n"
		}
	}
	return text.String() + end + "</" + name + ">"
}

// IsWritable reports whether XML can hold all characters of a text.
func IsWritable(text string) bool { return xmledit.IsText(text) }

func on(is bool) string {
	if is {
		return "on"
	}
	return ""
}

// pciAttrs are the attributes of a PCI address.
func pciAttrs(domain, bus, slot, function int) []attr {
	return []attr{
		{"domain", fmt.Sprintf("0x%04x", domain)}, {"bus", fmt.Sprintf("0x%02x", bus)},
		{"slot", fmt.Sprintf("0x%02x", slot)}, {"function", fmt.Sprintf("0x%x", function)},
	}
}

// renderAddress checks an address against what libvirt accepts (src/util/virpci.c,
// virPCIDeviceAddressIsValid). A nil address is not written.
func renderAddress(a *GuestAddress) (string, error) {
	switch {
	case a == nil:
		return "", nil
	case a.Bus < 0 || a.Bus > 0xff || a.Slot < 0 || a.Slot > 0x1f || a.Function < 0 || a.Function > 7:
		return "", fmt.Errorf("guest address bus %d, slot %d, function %d is out of range", a.Bus, a.Slot, a.Function)
	case a.Bus == 0 && a.Slot == 0 && a.Function == 0:
		return "", errors.New("guest address bus 0, slot 0, function 0 means no address to libvirt")
	}
	attrs := append([]attr{{"type", "pci"}}, pciAttrs(0, a.Bus, a.Slot, a.Function)...)
	return render("address", append(attrs, attr{"multifunction", on(a.Multifunction)})), nil
}

func renderAlias(name string) string {
	if name == "" {
		return ""
	}
	return render("alias", []attr{{"name", name}})
}

func renderController(c Controller) (string, error) {
	switch {
	case c.Index < 0 || c.Index > 255:
		return "", errors.New("the index must be between 0 and 255")
	case c.Model == "":
		return "", errors.New("it has no model")
	case c.Model != ExpanderBus && (c.BusNr != nil || c.Cell != nil):
		return "", fmt.Errorf("a %s cannot have a bus number or a cell", c.Model)
	case c.BusNr != nil && (*c.BusNr < 1 || *c.BusNr > 254):
		return "", fmt.Errorf("invalid bus number %d: must be between 1 and 254", *c.BusNr)
	case c.Cell != nil && *c.Cell < 0:
		return "", fmt.Errorf("invalid cell %d", *c.Cell)
	}
	address, err := renderAddress(c.Address)
	if err != nil {
		return "", err
	}
	attrs := []attr{{"type", "pci"}, {"index", strconv.Itoa(c.Index)}, {"model", string(c.Model)}}
	return render("controller", attrs, renderTarget(c), renderAlias(c.Alias), address), nil
}

func renderTarget(c Controller) string {
	var attrs []attr
	node := ""
	if c.BusNr != nil {
		attrs = append(attrs, attr{"busNr", strconv.Itoa(*c.BusNr)})
	}
	if c.HotplugOff {
		attrs = append(attrs, attr{"hotplug", "off"})
	}
	if c.Cell != nil {
		node = fmt.Sprintf("<node>%d</node>", *c.Cell)
	}
	if attrs == nil && node == "" {
		return ""
	}
	return render("target", attrs, node)
}

// renderHostdev writes a hostdev as virt-launcher does (KubeVirt
// pkg/virt-launcher/virtwrap/device/hostdevice/hostdev.go): a PCI device is on
// its VFIO driver already and not libvirt's to manage, a mediated device says
// that it is a PCI device.
func renderHostdev(h Hostdev) (string, error) {
	address, err := renderAddress(h.Address)
	switch {
	case h.Address != nil && h.Unassigned:
		return "", errors.New("it has an address, but is unassigned")
	case err != nil:
		return "", err
	case h.Unassigned:
		address = render("address", []attr{{"type", "unassigned"}})
	}
	kind, model, managed := "mdev", "vfio-pci", ""
	uuid, _ := h.ID.MDEV()
	source := []attr{{"uuid", string(uuid)}}
	if a, ok := h.ID.PCI(); ok {
		kind, model, managed = "pci", "", "no"
		source = pciAttrs(int(a.Domain), int(a.Bus), int(a.Device), int(a.Function))
	}
	attrs := []attr{
		{"mode", "subsystem"}, {"type", kind}, {"model", model},
		{"display", on(h.Display)}, {"ramfb", on(h.RamFB)}, {"managed", managed},
	}
	return render("hostdev", attrs, render("source", nil, render("address", source)), renderAlias(h.Alias), address), nil
}
