package tree

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Bus is a bus of the guest, by what its kernel shows.
type Bus struct {
	Number int
	Dir    string // of the bridge above it in /sys/devices: pci0000:f0/0000:f0:00.0

	root int // number of its root bus
}

// address returns the address of a function on the bus.
func (b Bus) address(slot, function int) string {
	return fmt.Sprintf("0000:%02x:%02x.%x", b.Number, slot, function)
}

// Path returns the path of a function in /sys/devices.
func (b Bus) Path(slot, function int) string { return path.Join(b.Dir, b.address(slot, function)) }

// slots returns the slots and functions of the bridges above the bus, which are Windows' location
// path, and its root bus.
func (b Bus) slots() string {
	parts := strings.Split(b.Dir, "/")
	for i, part := range parts {
		parts[i] = part[strings.LastIndex(part, ":")+1:]
	}

	parts[0] = "root bus"
	if b.root != 0 {
		parts[0] = fmt.Sprintf("expander bus %d", b.root)
	}

	return strings.Join(parts, " > ")
}

// Buses returns the buses of a domain in which every controller has its address, by the index of
// the controller. Firmware numbers each root bus from its first number on, depth first in the order
// of slot and function.
func (t *Tree) Buses() map[int]Bus {
	under := map[int][]Controller{}
	for _, c := range t.Controllers {
		if c.At != nil && c.Model != ExpanderBus {
			under[c.At.Bus] = append(under[c.At.Bus], c)
		}
	}

	buses := map[int]Bus{}
	number(0, Bus{0, "pci0000:00", 0}, under, buses)

	for _, index := range slices.Sorted(maps.Keys(t.Controllers)) {
		if c := t.Controllers[index]; c.Model == ExpanderBus {
			number(index, Bus{c.BusNr, fmt.Sprintf("pci0000:%02x", c.BusNr), c.BusNr}, under, buses)
		}
	}

	return buses
}

// number numbers a bus and all under it, and returns the next number.
func number(index int, bus Bus, under map[int][]Controller, buses map[int]Bus) int {
	buses[index] = bus
	children := under[index]
	slices.SortFunc(children, func(x, y Controller) int {
		return cmp.Or(cmp.Compare(x.At.Slot, y.At.Slot), cmp.Compare(x.At.Function, y.At.Function))
	})

	next := bus.Number + 1
	for _, c := range children {
		next = number(c.Index, Bus{
			next, bus.Path(c.At.Slot, c.At.Function), bus.root,
		}, under, buses)
	}

	return next
}

// Seen returns where a guest sees the devices of a domain in which every device has its address,
// by label: the slots and functions of the bridges above it, and the address that its kernel
// shows. A controller that is not a PCI controller is labeled by its type and index, since libvirt
// puts controllers in another order.
func (t *Tree) Seen() map[string]string {
	buses := t.Buses()
	seen := map[string]string{}
	for _, d := range t.Devices {
		label := d.Label
		if d.Name == "controller" && d.Attr("type") != "pci" {
			label = fmt.Sprintf("controller %s %s", d.Attr("type"), d.Attr("index"))
		}

		if d.At != nil {
			bus := buses[d.At.Bus]
			seen[label] = fmt.Sprintf("%s > %02x.%x at %s", bus.slots(), d.At.Slot, d.At.Function,
				bus.address(d.At.Slot, d.At.Function))
		}
	}

	return seen
}
