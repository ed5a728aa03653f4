package domain

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"

	"libvirt.org/go/libvirtxml"

	"hook-sidecar/pkg/domain/xmledit"
)

// Elements that Apply adds are made with libvirt's own Go types, so that libvirt
// and KubeVirt read what is meant, and printed for xmledit to indent.

// renderer prints one element after the other. An encoder is large: one per element
// would take more memory than the domain.
type renderer struct {
	text    bytes.Buffer
	encoder *xml.Encoder
}

func newRenderer() *renderer {
	r := &renderer{}
	r.encoder = xml.NewEncoder(&r.text)
	r.encoder.Indent("", "\t")
	return r
}

// write prints an element under its name.
func (r *renderer) write(name string, element any) (string, error) {
	r.text.Reset()
	if err := r.encoder.EncodeElement(element, xml.StartElement{Name: xml.Name{Local: name}}); err != nil {
		return "", fmt.Errorf("write <%s>: %w", name, err)
	}
	return strings.TrimPrefix(r.text.String(), "\n"), nil // after the element before it
}

// IsWritable reports whether XML can hold all characters of a text.
func IsWritable(text string) bool { return xmledit.IsText(text) }

// wrapped prints an element around printed ones.
func wrapped(name string, elements []string) string {
	inner := strings.ReplaceAll("\n"+strings.Join(elements, "\n"), "\n", "\n\t")
	return "<" + name + ">" + inner + "\n</" + name + ">"
}

func ptr(n int) *uint {
	u := uint(n)
	return &u
}

// checkAddress checks an address against what libvirt accepts (src/util/virpci.c,
// virPCIDeviceAddressIsValid).
func checkAddress(a GuestAddress) error {
	if a.Bus < 0 || a.Bus > 0xff || a.Slot < 0 || a.Slot > 0x1f || a.Function < 0 || a.Function > 7 {
		return fmt.Errorf("guest address bus %d, slot %d, function %d is out of range", a.Bus, a.Slot, a.Function)
	}
	if a.Bus == 0 && a.Slot == 0 && a.Function == 0 {
		return errors.New("guest address bus 0, slot 0, function 0 means no address to libvirt")
	}
	return nil
}

func newAddress(a GuestAddress) (*libvirtxml.DomainAddress, error) {
	if err := checkAddress(a); err != nil {
		return nil, err
	}
	pci := &libvirtxml.DomainAddressPCI{
		Domain: ptr(0), Bus: ptr(a.Bus), Slot: ptr(a.Slot), Function: ptr(a.Function),
	}
	if a.Multifunction {
		pci.MultiFunction = "on"
	}
	return &libvirtxml.DomainAddress{PCI: pci}, nil
}

func (r *renderer) address(a GuestAddress) (string, error) {
	address, err := newAddress(a)
	if err != nil {
		return "", err
	}
	return r.write("address", address)
}

func newAlias(name string) *libvirtxml.DomainAlias {
	if name == "" {
		return nil
	}
	return &libvirtxml.DomainAlias{Name: name}
}

func (r *renderer) controller(c Controller) (string, error) {
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
	controller := &libvirtxml.DomainController{
		Type: "pci", Index: ptr(c.Index), Model: string(c.Model),
		PCI: &libvirtxml.DomainControllerPCI{Target: newTarget(c)}, Alias: newAlias(c.Alias),
	}
	if c.Address != nil {
		address, err := newAddress(*c.Address)
		if err != nil {
			return "", err
		}
		controller.Address = address
	}
	return r.write("controller", controller)
}

func newTarget(c Controller) *libvirtxml.DomainControllerPCITarget {
	if c.BusNr == nil && c.Cell == nil && !c.HotplugOff {
		return nil
	}
	target := &libvirtxml.DomainControllerPCITarget{}
	if c.BusNr != nil {
		target.BusNr = ptr(*c.BusNr)
	}
	if c.Cell != nil {
		target.NUMANode = ptr(int(*c.Cell))
	}
	if c.HotplugOff {
		target.Hotplug = "off"
	}
	return target
}

// hostdev writes a hostdev as virt-launcher does (KubeVirt
// pkg/virt-launcher/virtwrap/device/hostdevice/hostdev.go): a PCI device is on
// its VFIO driver already and not libvirt's to manage, a mediated device says
// that it is a PCI device.
func (r *renderer) hostdev(h Hostdev) (string, error) {
	hostdev := &libvirtxml.DomainHostdev{Alias: newAlias(h.Alias)}
	display, ramfb := onOrAbsent(h.Display), onOrAbsent(h.RamFB)
	if a, ok := h.ID.PCI(); ok {
		number := uint(a.Domain)
		hostdev.Managed = "no"
		hostdev.SubsysPCI = &libvirtxml.DomainHostdevSubsysPCI{
			Display: display, RamFB: ramfb,
			Source: &libvirtxml.DomainHostdevSubsysPCISource{Address: &libvirtxml.DomainAddressPCI{
				Domain: &number, Bus: ptr(int(a.Bus)), Slot: ptr(int(a.Device)), Function: ptr(int(a.Function)),
			}},
		}
	}
	if uuid, ok := h.ID.MDEV(); ok {
		hostdev.SubsysMDev = &libvirtxml.DomainHostdevSubsysMDev{
			Model: "vfio-pci", Display: display, RamFB: ramfb,
			Source: &libvirtxml.DomainHostdevSubsysMDevSource{
				Address: &libvirtxml.DomainAddressMDev{UUID: string(uuid)},
			},
		}
	}
	switch {
	case h.Address != nil && h.Unassigned:
		return "", errors.New("it has an address, but is unassigned")
	case h.Address != nil:
		address, err := newAddress(*h.Address)
		if err != nil {
			return "", err
		}
		hostdev.Address = address
	case h.Unassigned:
		hostdev.Address = &libvirtxml.DomainAddress{Unassigned: &libvirtxml.DomainAddressUnassigned{}}
	}
	return r.write("hostdev", hostdev)
}

func onOrAbsent(on bool) string {
	if on {
		return "on"
	}
	return ""
}
