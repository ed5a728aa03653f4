package domain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/pkg/topology"
)

// Apply returns the bytes of the domain with the changes. It edits as little as it can: a value
// that is already right keeps its spelling, and no changes give a copy of the parsed bytes.
//
// The error is for a position that does not exist or appears twice in one list, and for an
// addition that libvirt would refuse, or whose index or device is in the domain already.
func (d *Domain) Apply(c Changes) ([]byte, error) {
	places := slices.Sorted(maps.Keys(c.Place))
	if err := cmp.Or(
		checkPositions("set mode: hostdev", c.SetMode, len(d.Hostdevs)),
		checkPositions("place: hostdev", places, len(d.Hostdevs)),
		checkPositions("turn hotplug off: controller", c.HotplugOff, len(d.Controllers)),
		checkPositions("remove: controller", c.RemoveControllers, len(d.Controllers)),
	); err != nil {
		return nil, err
	}
	e := editor{domain: d, xml: d.doc.xml}
	for _, i := range c.SetMode {
		if !d.Hostdevs[i].HasMode {
			e.edit(e.xml.SetAttr(d.doc.hostdevs[i], "mode", "subsystem"))
		}
	}
	for _, i := range places {
		if err := e.place(i, c.Place[i]); err != nil {
			return nil, fmt.Errorf("place hostdev %s: %w", d.Hostdevs[i].ID, err)
		}
	}
	for _, i := range c.HotplugOff {
		if !d.Controllers[i].HotplugOff {
			e.edit(e.turnHotplugOff(d.doc.controllers[i]))
		}
	}
	for _, i := range c.RemoveControllers {
		e.edit(e.xml.Remove(d.doc.controllers[i]))
	}
	if err := e.replaceFragments(c.Managed); err != nil {
		return nil, err
	}
	if err := e.add(c, e.setIOMMUs()); err != nil {
		return nil, err
	}
	e.setFirmwareEntries()
	if err := e.setOptions(); err != nil {
		return nil, err
	}
	e.setCliques()
	return e.xml.Apply(e.edits)
}

// checkPositions checks positions in a list of length elements.
func checkPositions(what string, positions []int, length int) error {
	seen := map[int]bool{}
	for _, i := range positions {
		switch {
		case i < 0 || i >= length:
			return fmt.Errorf("%s %d does not exist: the domain has %d", what, i, length)
		case seen[i]:
			return fmt.Errorf("%s %d appears twice", what, i)
		}
		seen[i] = true
	}
	return nil
}

// editor collects the edits of one call of Apply.
type editor struct {
	domain *Domain
	xml    *xmledit.Document
	edits  []xmledit.Edit
	gone   map[*xmledit.Element]bool // of fragments
	added  []Fragment
}

func (e *editor) edit(edit xmledit.Edit) { e.edits = append(e.edits, edit) }

func (e *editor) place(i int, to *GuestAddress) error {
	hostdev, now := e.domain.doc.hostdevs[i], e.domain.Hostdevs[i].Address
	address := hostdev.Child("address")
	kind := address.Attr("type")
	switch {
	case to == nil && address == nil:
		return nil
	case to == nil:
		e.edit(e.xml.Remove(address))
		return nil
	case address != nil && (kind == nil || kind.Value == "pci"):
		if kind == nil || now == nil || *now != *to {
			e.editAddress(address, *to)
		}
		return checkAddress(*to)
	}
	written, err := printAddress(*to)
	if err != nil {
		return err
	}
	if address != nil {
		e.edit(e.xml.Replace(address, written))
	} else {
		e.edit(e.insertAddress(hostdev, written))
	}
	return nil
}

// insertAddress adds an address to a hostdev, where virt-launcher puts it (KubeVirt
// pkg/virt-launcher/virtwrap/api/schema.go, HostDevice).
func (e *editor) insertAddress(hostdev *xmledit.Element, address string) xmledit.Edit {
	if alias := hostdev.Child("alias"); alias != nil {
		return e.xml.InsertBefore(alias, address)
	}
	for _, name := range []string{"boot", "source"} {
		if before := hostdev.Child(name); before != nil {
			return e.xml.InsertAfter(before, address)
		}
	}
	return e.xml.InsertLast(hostdev, address)
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
		{"domain", "0x%04x", 0}, {"bus", "0x%02x", to.Bus}, {"slot", "0x%02x", to.Slot}, {"function", "0x%x", to.Function},
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

func (e *editor) turnHotplugOff(port *xmledit.Element) xmledit.Edit {
	if target := port.Child("target"); target != nil {
		return e.xml.SetAttr(target, "hotplug", "off")
	}
	return e.xml.InsertLast(port, printTarget(Controller{HotplugOff: true}))
}

// add puts the new hostdevs after the last one, else before the first controller, and the new
// controllers after the last PCI controller, else after the last controller; else they go to
// the end of the devices, as the iommus do.
func (e *editor) add(c Changes, iommus []string) error {
	hostdevs, err := e.newHostdevs(c)
	if err != nil {
		return err
	}
	controllers, err := e.newControllers(c)
	if err != nil {
		return err
	}
	devices := func(name string) []*xmledit.Element {
		return slices.Collect(all(e.xml.Root(), "devices", name))
	}
	oldHostdevs, oldControllers := devices("hostdev"), devices("controller")
	var last []string
	switch {
	case len(hostdevs) == 0:
	case len(oldHostdevs) > 0:
		e.edit(e.xml.InsertAfter(oldHostdevs[len(oldHostdevs)-1], hostdevs...))
	case len(oldControllers) > 0:
		e.edit(e.xml.InsertBefore(oldControllers[0], hostdevs...))
	default:
		last = hostdevs
	}
	oldControllers = append(oldControllers, e.domain.doc.controllers...)
	switch {
	case len(controllers) == 0:
	case len(oldControllers) > 0:
		e.edit(e.xml.InsertAfter(oldControllers[len(oldControllers)-1], controllers...))
	default:
		last = append(last, controllers...)
	}
	last = append(last, iommus...)
	switch {
	case len(last) == 0:
	case len(e.domain.doc.devices) == 0:
		e.edit(e.xml.InsertLast(e.xml.Root(), element("devices", nil, last...)))
	default:
		e.edit(e.xml.InsertLast(e.domain.doc.devices[0], last...))
	}
	return nil
}

func (e *editor) newHostdevs(c Changes) ([]string, error) {
	present := map[topology.DeviceID]bool{}
	for _, h := range e.domain.Hostdevs {
		present[h.ID] = true
	}
	var written []string
	for _, h := range c.AddHostdevs {
		if present[h.ID] {
			return nil, fmt.Errorf("add hostdev %s: the domain already has it", h.ID)
		}
		present[h.ID] = true
		text, err := printHostdev(h)
		if err != nil {
			return nil, fmt.Errorf("add hostdev %s: %w", h.ID, err)
		}
		written = append(written, text)
	}
	return written, nil
}

func (e *editor) newControllers(c Changes) ([]string, error) {
	taken := map[int]bool{}
	for i, existing := range e.domain.Controllers {
		if !slices.Contains(c.RemoveControllers, i) {
			taken[existing.Index] = true
		}
	}
	var written []string
	for _, controller := range c.AddControllers {
		if taken[controller.Index] {
			return nil, fmt.Errorf("add controller: index %d is already taken", controller.Index)
		}
		taken[controller.Index] = true
		text, err := printController(controller)
		if err != nil {
			return nil, fmt.Errorf("add controller with index %d: %w", controller.Index, err)
		}
		written = append(written, text)
	}
	return written, nil
}
