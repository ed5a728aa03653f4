package domain

import (
	"fmt"
	"maps"
	"slices"

	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/pkg/topology"
)

// Apply makes the changes and returns the bytes of the changed domain. It
// edits as little as it can: a value that already says what it should keeps
// its spelling. The same changes to the same domain always give the same
// bytes, and no changes give a copy of the very bytes that were parsed.
//
// It is an error, and nothing is changed, when a position does not exist or is
// named twice for the same thing, when something to be added cannot be written
// as libvirt reads it (an address out of range, a bus number on a controller
// that has none), or when it takes the controller index or the device that
// another has.
func (d *Domain) Apply(c Changes) ([]byte, error) {
	e := editor{domain: d, xml: d.doc.xml}
	for _, step := range []func(Changes) error{
		e.setMode, e.place, e.hotplugOff, e.removeControllers, e.add, e.setFirmwareEntry,
	} {
		if err := step(c); err != nil {
			return nil, err
		}
	}
	return e.xml.Apply(e.edits)
}

// editor collects the edits of one call of Apply.
type editor struct {
	domain *Domain
	xml    *xmledit.Document
	edits  []xmledit.Edit
}

func (e *editor) edit(edits ...xmledit.Edit) { e.edits = append(e.edits, edits...) }

// positions checks positions in a list that is length long.
func positions(list string, at []int, length int) error {
	seen := map[int]bool{}
	for _, i := range at {
		if i < 0 || i >= length {
			return fmt.Errorf("change of %s %d of %d", list, i, length)
		}
		if seen[i] {
			return fmt.Errorf("change of %s %d twice", list, i)
		}
		seen[i] = true
	}
	return nil
}

func (e *editor) setMode(c Changes) error {
	if err := positions("hostdev", c.SetMode, len(e.domain.Hostdevs)); err != nil {
		return fmt.Errorf("set mode: %w", err)
	}
	for _, i := range c.SetMode {
		if !e.domain.Hostdevs[i].HasMode {
			e.edit(e.xml.SetAttr(e.domain.doc.hostdevs[i], "mode", "subsystem"))
		}
	}
	return nil
}

func (e *editor) place(c Changes) error {
	order := slices.Sorted(maps.Keys(c.Place))
	if err := positions("hostdev", order, len(e.domain.Hostdevs)); err != nil {
		return fmt.Errorf("place: %w", err)
	}
	for _, i := range order {
		if err := e.placeOne(i, c.Place[i]); err != nil {
			return fmt.Errorf("place hostdev %s: %w", e.domain.Hostdevs[i].ID, err)
		}
	}
	return nil
}

func (e *editor) placeOne(i int, to *GuestAddress) error {
	element, now := e.domain.doc.hostdevs[i], e.domain.Hostdevs[i].Address
	address := element.Child("address")
	if to == nil {
		if address != nil {
			e.edit(e.xml.Remove(address))
		}
		return nil
	}
	written, err := renderAddress(*to)
	if err != nil {
		return err
	}
	kind := address.Attr("type")
	switch {
	case address == nil:
		e.edit(e.insertAddress(element, written))
	case kind != nil && kind.Value != "pci":
		e.edit(e.xml.Replace(address, written))
	case kind == nil || now == nil || *now != *to:
		e.editAddress(address, *to)
	}
	return nil
}

// insertAddress puts the first address into a hostdev, where virt-launcher
// puts it (KubeVirt pkg/virt-launcher/virtwrap/api/schema.go, HostDevice).
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

// editAddress changes the attributes of an address that say something else,
// and adds those that are missing.
func (e *editor) editAddress(address *xmledit.Element, to GuestAddress) {
	if address.Attr("type") == nil {
		e.edit(e.xml.SetAttr(address, "type", "pci"))
	}
	for _, part := range []struct {
		name, format string
		value        int
	}{
		{"domain", "0x%04x", 0},
		{"bus", "0x%02x", to.Bus},
		{"slot", "0x%02x", to.Slot},
		{"function", "0x%x", to.Function},
	} {
		if a := address.Attr(part.name); a != nil {
			if n, ok := number(a.Value, 0); ok && n == uint64(part.value) {
				continue
			}
		}
		e.edit(e.xml.SetAttr(address, part.name, fmt.Sprintf(part.format, part.value)))
	}
	on := address.Value("multifunction") == "on"
	switch {
	case to.Multifunction && !on:
		e.edit(e.xml.SetAttr(address, "multifunction", "on"))
	case !to.Multifunction && on:
		e.edit(e.xml.RemoveAttr(address.Attr("multifunction")))
	}
}

func (e *editor) hotplugOff(c Changes) error {
	if err := positions("controller", c.HotplugOff, len(e.domain.Controllers)); err != nil {
		return fmt.Errorf("switch hotplug off: %w", err)
	}
	for _, i := range c.HotplugOff {
		switch port, target := e.domain.doc.controllers[i], e.domain.doc.controllers[i].Child("target"); {
		case e.domain.Controllers[i].HotplugOff:
		case target != nil:
			e.edit(e.xml.SetAttr(target, "hotplug", "off"))
		default:
			e.edit(e.xml.InsertLast(port, `<target hotplug="off"></target>`))
		}
	}
	return nil
}

func (e *editor) removeControllers(c Changes) error {
	if err := positions("controller", c.RemoveControllers, len(e.domain.Controllers)); err != nil {
		return fmt.Errorf("remove controllers: %w", err)
	}
	for _, i := range c.RemoveControllers {
		e.edit(e.xml.Remove(e.domain.doc.controllers[i]))
	}
	return nil
}

// add puts the new hostdevs behind the last one, else before the first
// controller, and the new controllers behind the last of PCI, else behind the
// last controller; what finds no such place goes to the end of the devices.
func (e *editor) add(c Changes) error {
	if len(c.AddHostdevs)+len(c.AddControllers) == 0 {
		return nil
	}
	hostdevs, err := e.newHostdevs(c)
	if err != nil {
		return err
	}
	controllers, err := e.newControllers(c)
	if err != nil {
		return err
	}
	var last []string
	first, behind := e.ends("controller")
	if n := len(e.domain.doc.controllers); n > 0 {
		behind = e.domain.doc.controllers[n-1]
	}
	_, hostdev := e.ends("hostdev")
	switch {
	case len(hostdevs) == 0:
	case hostdev != nil:
		e.edit(e.xml.InsertAfter(hostdev, hostdevs...))
	case first != nil:
		e.edit(e.xml.InsertBefore(first, hostdevs...))
	default:
		last = hostdevs
	}
	switch {
	case len(controllers) == 0:
	case behind != nil:
		e.edit(e.xml.InsertAfter(behind, controllers...))
	default:
		last = append(last, controllers...)
	}
	switch {
	case len(last) == 0:
	case len(e.domain.doc.devices) == 0:
		e.edit(e.xml.InsertLast(e.xml.Root(), wrapped("devices", last)))
	default:
		e.edit(e.xml.InsertLast(e.domain.doc.devices[0], last...))
	}
	return nil
}

// ends are the first and the last device element with a name, nil without one.
func (e *editor) ends(name string) (first, last *xmledit.Element) {
	for _, devices := range e.domain.doc.devices {
		for element := range all(devices, name) {
			if first == nil {
				first = element
			}
			last = element
		}
	}
	return first, last
}

func (e *editor) newHostdevs(c Changes) ([]string, error) {
	present := map[topology.DeviceID]bool{}
	for _, h := range e.domain.Hostdevs {
		present[h.ID] = true
	}
	var written []string
	for _, h := range c.AddHostdevs {
		if present[h.ID] {
			return nil, fmt.Errorf("add hostdev %s: the domain has it already", h.ID)
		}
		present[h.ID] = true
		text, err := renderHostdev(h)
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
			return nil, fmt.Errorf("add controller: index %d is taken", controller.Index)
		}
		taken[controller.Index] = true
		text, err := renderController(controller)
		if err != nil {
			return nil, fmt.Errorf("add controller with index %d: %w", controller.Index, err)
		}
		written = append(written, text)
	}
	return written, nil
}
