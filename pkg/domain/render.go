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

// Elements that Apply adds are printed by libvirt's own Go types, so that libvirt and
// KubeVirt read them back unchanged, and xmledit indents them.

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

// Controllers and addresses, of which a domain has one per device, are printed
// without reflection, which took an eighth of a call: TestPrintsAsLibvirt compares them
// with what libvirt's types give.

func printAddress(a GuestAddress) (string, error) {
	if err := checkAddress(a); err != nil {
		return "", err
	}
	multifunction := ""
	if a.Multifunction {
		multifunction = ` multifunction="on"`
	}
	return fmt.Sprintf(`<address type="pci" domain="0x0000" bus="0x%02x" slot="0x%02x" function="0x%x"%s></address>`,
		a.Bus, a.Slot, a.Function, multifunction), nil
}

func newAlias(name string) *libvirtxml.DomainAlias {
	if name == "" {
		return nil
	}
	return &libvirtxml.DomainAlias{Name: name}
}

func printController(c Controller) (string, error) {
	if err := checkController(c); err != nil {
		return "", err
	}
	var children []string
	if target := printTarget(c); target != "" {
		children = append(children, target)
	}
	if c.Alias != "" {
		children = append(children, `<alias name="`+xmledit.Escape(c.Alias)+`"></alias>`)
	}
	if c.Address != nil {
		address, err := printAddress(*c.Address)
		if err != nil {
			return "", err
		}
		children = append(children, address)
	}
	start := fmt.Sprintf(`<controller type="pci" index="%d" model="%s">`, c.Index, xmledit.Escape(string(c.Model)))
	if len(children) == 0 {
		return start + "</controller>", nil
	}
	return start + "\n\t" + strings.Join(children, "\n\t") + "\n</controller>", nil
}

func checkController(c Controller) error {
	switch {
	case c.Index < 0 || c.Index > 255:
		return errors.New("the index must be between 0 and 255")
	case c.Model == "":
		return errors.New("it has no model")
	case c.Model != ExpanderBus && (c.BusNr != nil || c.Cell != nil):
		return fmt.Errorf("a %s cannot have a bus number or a cell", c.Model)
	case c.BusNr != nil && (*c.BusNr < 1 || *c.BusNr > 254):
		return fmt.Errorf("invalid bus number %d: must be between 1 and 254", *c.BusNr)
	case c.Cell != nil && *c.Cell < 0:
		return fmt.Errorf("invalid cell %d", *c.Cell)
	}
	return nil
}

func printTarget(c Controller) string {
	if c.BusNr == nil && c.Cell == nil && !c.HotplugOff {
		return ""
	}
	target := "<target"
	if c.BusNr != nil {
		target += fmt.Sprintf(` busNr="%d"`, *c.BusNr)
	}
	if c.HotplugOff {
		target += ` hotplug="off"`
	}
	if c.Cell == nil {
		return target + "></target>"
	}
	return fmt.Sprintf("%s>\n\t\t<node>%d</node>\n\t</target>", target, *c.Cell)
}

// hostdev writes a hostdev as virt-launcher does (KubeVirt
// pkg/virt-launcher/virtwrap/device/hostdevice/hostdev.go): a PCI device is on
// its VFIO driver already and not libvirt's to manage, a mediated device
// has the model of a PCI device.
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
