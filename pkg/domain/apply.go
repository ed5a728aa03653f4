package domain

import (
	"fmt"
	"slices"
	"strconv"

	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/pkg/topology"
)

// Apply returns the bytes of the domain with the changes. It edits as little as it can: a value
// that is already right keeps its spelling, and no changes give a copy of the parsed bytes.
//
// Values are written as they are: the caller parses the result, which refuses the numbers that
// libvirt would, and compares it with After.
func (d *Domain) Apply(c Changes) ([]byte, error) {
	e := editor{
		domain: d, xml: d.doc.xml, changes: c,
		gone: map[*xmledit.Element]bool{}, qemu: map[string][]string{},
	}

	for _, h := range d.Hostdevs {
		if !h.HasMode && slices.Contains(c.SetMode, h.ID) {
			e.edit(e.xml.SetAttr(h.at, "mode", "subsystem"))
		}
		if _, isPlaced := c.Place[h.ID]; isPlaced || c.Complete[h.Entry()] != (Completion{}) {
			e.place(h.at, h.Address, h.addressAfter(c))
		}
	}

	for _, now := range d.Others {
		to := now
		if to.complete(c); to.Address != now.Address {
			e.place(now.at, nil, to.Address)
		}
	}

	// Controllers that stay may lose an attribute or get one; the others go with their line.
	for _, now := range d.Controllers {
		if slices.Contains(c.RemoveControllers, now.Index) {
			e.edit(e.xml.Remove(now.at))
		} else {
			e.change(now, now.after(c))
		}
	}

	// What the hook has written goes before anything is added: each kind then knows what is left of
	// its parent.
	e.replaceFragments(c.Marked)
	for _, k := range kinds {
		if err := k.place(&e); err != nil {
			return nil, err
		}
	}

	if err := e.add(c); err != nil {
		return nil, err
	}

	// Several kinds write to qemu:commandline and qemu:override: each of these is written once, last.
	for _, name := range qemuParents {
		e.setQEMU(name)
	}

	return e.xml.Apply(e.edits)
}

// place gives an element the address to in place of now; nil for none.
func (e *editor) place(at *xmledit.Element, now, to *GuestAddress) {
	address := at.Child("address")
	kind := address.Attr("type")
	switch { // an address that is of another type is replaced, one of PCI is edited in place
	case to == nil && address == nil:
	case to == nil:
		e.edit(e.xml.Remove(address))
	case address == nil:
		e.edit(e.insertAddress(at, printAddress(to)))
	case kind != nil && kind.Value != "pci":
		e.edit(e.xml.Replace(address, printAddress(to)))
	case kind == nil || now == nil || *now != *to:
		e.editAddress(address, *to)
	}
}

// insertAddress adds an address to an element, in a hostdev where virt-launcher puts it (KubeVirt
// pkg/virt-launcher/virtwrap/api/schema.go, HostDevice). Elsewhere libvirt takes any order.
func (e *editor) insertAddress(at *xmledit.Element, address string) xmledit.Edit {
	if alias := at.Child("alias"); alias != nil {
		return e.xml.InsertBefore(alias, address)
	}

	for _, name := range []string{"boot", "source"} {
		if before := at.Child(name); before != nil {
			return e.xml.InsertAfter(before, address)
		}
	}

	return e.xml.InsertLast(at, address)
}

// editAddress changes the attributes of an address that differ, and adds those that are missing.
func (e *editor) editAddress(address *xmledit.Element, to GuestAddress) {
	if address.Attr("type") == nil {
		e.edit(e.xml.SetAttr(address, "type", "pci"))
	}

	for _, part := range []struct {
		name, format string
		value        int
	}{
		{"domain", "0x%04x", 0}, {"bus", "0x%02x", to.Bus}, {"slot", "0x%02x", to.Slot},
		{"function", "0x%x", to.Function},
	} {
		if now, ok := number(address.Value(part.name), 0); !ok || now != uint64(part.value) {
			e.edit(e.xml.SetAttr(address, part.name, fmt.Sprintf(part.format, part.value)))
		}
	}

	isOn := address.Value("multifunction") == "on"
	switch {
	case to.Multifunction && !isOn:
		e.edit(e.xml.SetAttr(address, "multifunction", "on"))
	case !to.Multifunction && isOn:
		e.edit(e.xml.RemoveAttr(address.Attr("multifunction")))
	}
}

// change edits a controller that stays.
func (e *editor) change(now, to Controller) {
	if to.HotplugOff != now.HotplugOff || !topology.Same(to.Chassis, now.Chassis) ||
		!topology.Same(to.BusNr, now.BusNr) {
		e.setTarget(now, to)
	}

	if now.Address == nil && to.Address != nil {
		e.place(now.at, nil, to.Address)
	}
}

// setTarget sets hotplug and chassis of a port, and the bus number of an expander bus. What is
// right already keeps its spelling.
func (e *editor) setTarget(now, to Controller) {
	target := now.at.Child("target")
	if target == nil {
		e.edit(e.xml.InsertLast(now.at, printTarget(to)))
		return
	}

	if to.HotplugOff && !now.HotplugOff {
		e.edit(e.xml.SetAttr(target, "hotplug", "off"))
	}

	if to.Chassis != nil && !topology.Same(to.Chassis, now.Chassis) {
		e.edit(e.xml.SetAttr(target, "chassis", strconv.Itoa(*to.Chassis)))
	}

	if to.BusNr != nil && !topology.Same(to.BusNr, now.BusNr) {
		e.edit(e.xml.SetAttr(target, "busNr", strconv.Itoa(*to.BusNr)))
	}
}

// add puts the new hostdevs after the last one, else before the first controller, and the new
// controllers after the last PCI controller, else after the last controller; else they go to
// the end of the devices, as fragments do.
func (e *editor) add(c Changes) error {
	var hostdevs, controllers []string
	for _, h := range c.AddHostdevs {
		text, err := printHostdev(h)
		if err != nil {
			return fmt.Errorf("add hostdev %s: %w", h.ID, err)
		}
		hostdevs = append(hostdevs, text)
	}

	for _, controller := range c.AddControllers {
		controllers = append(controllers, printController(controller))
	}

	devices := func(name string) []*xmledit.Element {
		return slices.Collect(all(e.xml.Root(), "devices", name))
	}

	oldHostdevs, oldControllers := devices("hostdev"), devices("controller")

	// insert returns the elements that have neither.
	insert := func(printed []string, after, before []*xmledit.Element) (left []string) {
		switch {
		case len(printed) == 0:
		case len(after) > 0:
			e.edit(e.xml.InsertAfter(after[len(after)-1], printed...))
		case len(before) > 0:
			e.edit(e.xml.InsertBefore(before[0], printed...))
		default:
			return printed
		}

		return nil
	}

	last := insert(hostdevs, oldHostdevs, oldControllers)
	for _, c := range e.domain.Controllers { // after the last of these, where there is one
		oldControllers = append(oldControllers, c.at)
	}

	last = append(last, insert(controllers, oldControllers, nil)...)
	last = append(last, e.devices...)
	switch {
	case len(last) == 0:
	case len(e.domain.doc.devices) == 0:
		e.edit(e.xml.InsertLast(e.xml.Root(), element("devices", nil, last...)))
	case len(hostdevs)+len(controllers) == 0: // a key may take them away again
		e.edit(e.xml.Fill(e.domain.doc.devices[0], last...))
	default:
		e.edit(e.xml.InsertLast(e.domain.doc.devices[0], last...))
	}

	return nil
}
