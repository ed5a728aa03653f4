package readback

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"hook-sidecar/test/xmltree"
)

// address is a guest PCI address; bus is a controller's index.
type address struct {
	bus, slot, function int
}

// board is a domain's PCI topology while addresses are given out, after
// libvirt's src/qemu/qemu_domain_address.c and src/conf/domain_addr.c.
type board struct {
	q35     bool
	devices *xmltree.Node
	taken   map[address]bool
	ports   map[int]bool // slots of pcie.0 that hold root ports, eight of them each
}

// assign gives every device of the domain an address: the holes in the
// controllers' indexes become root ports, then controllers without address are
// placed, then devices, for which root ports are added when none is free.
func (b *board) assign() error {
	highest := 0
	for _, c := range controllers(b.devices, "pci") {
		highest = max(highest, number(c.Attr("index")))
	}
	for _, device := range b.devices.Nodes {
		if a, ok := addressOf(device); ok {
			highest = max(highest, a.bus)
		}
	}
	for index := 1; index <= highest; index++ {
		if !hasIndex(b.devices, index) {
			b.addPort(index)
		}
	}
	waiting, err := b.waiting()
	if err != nil {
		return err
	}
	if err := b.reserve(); err != nil {
		return err
	}
	if err := b.placeControllers(); err != nil {
		return err
	}
	// libvirt counts the ports that are missing in a first pass and places
	// everything in a second, so that new ports stand on pcie.0 before any
	// device does. Where the domain names no PCI controller of its own, one
	// spare port is added for hotplug.
	missing := len(waiting) - len(b.freePorts())
	if missing > 0 && highest == 0 {
		missing++
	}
	for range missing {
		highest++
		b.addPort(highest)
	}
	if err := b.placeControllers(); err != nil {
		return err
	}
	free := b.freePorts()
	for i, device := range waiting {
		b.put(device, address{bus: free[i]})
	}
	return nil
}

func (b *board) addPort(index int) {
	port := b.devices.Add("controller", "type", "pci", "index", strconv.Itoa(index), "model", "pcie-root-port")
	fillTarget(port)
}

// reserve takes note of the addresses that the domain has, and of the ones that
// q35 keeps for its chipset: 1f.0 ISA, 1f.3 SMBus, 01.0 the primary video card.
func (b *board) reserve() error {
	b.taken, b.ports = map[address]bool{}, map[int]bool{}
	for _, device := range b.devices.Nodes {
		a, ok := addressOf(device)
		if !ok {
			continue
		}
		if b.taken[a] {
			return fmt.Errorf("attempted double use of PCI address 0000:%02x:%02x.%x", a.bus, a.slot, a.function)
		}
		b.taken[a] = true
		if a.bus == 0 && device.Attr("model") == "pcie-root-port" {
			b.ports[a.slot] = true
		}
	}
	if b.q35 {
		b.taken[address{slot: 0x1f}], b.taken[address{slot: 0x1f, function: 3}] = true, true
		if video := b.devices.Find("video"); video != nil && video.Find("address") == nil && !b.slotTaken(1) {
			b.put(video, address{slot: 1})
		}
	}
	return nil
}

func (b *board) put(device *xmltree.Node, a address) {
	addAddress(device, a)
	b.taken[a] = true
}

func (b *board) slotTaken(slot int) bool {
	for function := range 8 {
		if b.taken[address{slot: slot, function: function}] {
			return true
		}
	}
	return false
}

// placeControllers gives PCI controllers without address one, by index.
func (b *board) placeControllers() error {
	list := controllers(b.devices, "pci")
	byIndex(list)
	for _, c := range list {
		if c.Attr("model") == "pcie-root" || c.Find("address") != nil {
			continue
		}
		var place address
		var ok bool
		switch model := c.Attr("model"); model {
		case "pcie-root-port":
			place, ok = b.portPlace()
		case "pcie-expander-bus":
			place.slot, ok = b.freeSlot()
		default:
			return fmt.Errorf("controller %s: the model knows no place for a %s without address", c.Attr("index"), model)
		}
		if !ok {
			return fmt.Errorf("controller %s: no place on pcie.0", c.Attr("index"))
		}
		b.put(c, place)
	}
	return nil
}

// portPlace is where libvirt puts the next root port: the first slot of pcie.0
// from 1 up that is free or has a function left beside other root ports.
func (b *board) portPlace() (address, bool) {
	for slot := 1; slot <= 0x1f; slot++ {
		if !b.ports[slot] && b.slotTaken(slot) {
			continue
		}
		for function := range 8 {
			a := address{slot: slot, function: function}
			if !b.taken[a] {
				b.ports[slot] = true
				return a, true
			}
		}
	}
	return address{}, false
}

func (b *board) freeSlot() (int, bool) {
	for slot := 1; slot <= 0x1f; slot++ {
		if !b.slotTaken(slot) {
			return slot, true
		}
	}
	return 0, false
}

// freePorts lists the ports that libvirt fills, by index: also those below an
// expander bus.
func (b *board) freePorts() []int {
	used := map[int]bool{}
	for a := range b.taken {
		used[a.bus] = true
	}
	var free []int
	for _, c := range controllers(b.devices, "pci") {
		index, model := number(c.Attr("index")), c.Attr("model")
		if (model == "pcie-root-port" || model == "pcie-switch-downstream-port") && !used[index] {
			free = append(free, index)
		}
	}
	slices.Sort(free)
	return free
}

func controllers(devices *xmltree.Node, kind string) []*xmltree.Node {
	var found []*xmltree.Node
	for _, c := range devices.All("controller") {
		if c.Attr("type") == kind {
			found = append(found, c)
		}
	}
	return found
}

func byIndex(list []*xmltree.Node) {
	slices.SortStableFunc(list, func(a, b *xmltree.Node) int {
		return cmp.Compare(number(a.Attr("index")), number(b.Attr("index")))
	})
}

// addressOf returns the guest PCI address of a device.
func addressOf(device *xmltree.Node) (address, bool) {
	a := device.Find("address")
	if a.Attr("type") != "pci" {
		return address{}, false
	}
	return address{number(a.Attr("bus")), number(a.Attr("slot")), number(a.Attr("function"))}, true
}

func addAddress(device *xmltree.Node, a address) {
	device.Add("address", "type", "pci", "domain", "0x0000", "bus", fmt.Sprintf("0x%02x", a.bus),
		"slot", fmt.Sprintf("0x%02x", a.slot), "function", fmt.Sprintf("0x%x", a.function))
}

// number reads a number as libvirt does, in base 0. What is no number counts
// as 0: the schema has refused it before.
func number(text string) int {
	n, err := strconv.ParseInt(text, 0, 32)
	if err != nil {
		return 0
	}
	return int(n)
}
