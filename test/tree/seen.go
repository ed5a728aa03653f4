package tree

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Seen is where a guest sees the devices of a domain in which every device has
// its address, by label: the slots and functions of the bridges above it, which
// are Windows' location path, and the address that its kernel shows. Firmware
// numbers each root bus from its first number on, depth first in the order of
// slot and function. A controller that is not a PCI controller is labeled by its
// type and index, since libvirt puts controllers in another order.
func (t *Tree) Seen() map[string]string {
	under := map[int][]Controller{}
	numbers := map[int]int{}
	for _, c := range t.Controllers {
		if c.At != nil && c.Model != ExpanderBus {
			under[c.At.Bus] = append(under[c.At.Bus], c)
		}
	}
	paths := map[int]string{0: "root bus"}
	number(0, 0, under, numbers, paths)
	for _, index := range slices.Sorted(maps.Keys(t.Controllers)) {
		if c := t.Controllers[index]; c.Model == ExpanderBus {
			paths[index] = fmt.Sprintf("expander bus %d", c.BusNr)
			number(index, c.BusNr, under, numbers, paths)
		}
	}
	seen := map[string]string{}
	for _, d := range t.Devices {
		label := d.Label
		if d.Name == "controller" && d.Attr("type") != "pci" {
			label = fmt.Sprintf("controller %s %s", d.Attr("type"), d.Attr("index"))
		}
		if d.At != nil {
			seen[label] = fmt.Sprintf("%s > %02x.%x at %02x:%02x.%x", paths[d.At.Bus], d.At.Slot, d.At.Function,
				numbers[d.At.Bus], d.At.Slot, d.At.Function)
		}
	}
	return seen
}

// number numbers a bus and all under it, and returns the next number.
func number(index, next int, under map[int][]Controller, numbers map[int]int, paths map[int]string) int {
	numbers[index] = next
	next++
	children := under[index]
	slices.SortFunc(children, func(x, y Controller) int {
		return cmp.Or(cmp.Compare(x.At.Slot, y.At.Slot), cmp.Compare(x.At.Function, y.At.Function))
	})
	for _, c := range children {
		paths[c.Index] = fmt.Sprintf("%s > %02x.%x", paths[index], c.At.Slot, c.At.Function)
		next = number(c.Index, next, under, numbers, paths)
	}
	return next
}
