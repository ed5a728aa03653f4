package readback

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"hook-sidecar/test/tree"
)

// allocator gives out a domain's PCI addresses, after libvirt's
// src/qemu/qemu_domain_address.c and src/conf/domain_addr.c.
type allocator struct {
	q35     bool
	devices *tree.Node
	taken   map[tree.Address]bool
	ports   map[int]bool // slots of pcie.0 with root ports, up to eight each
}

// assign gives every device of the domain an address: controllers without address
// are placed, then the root ports that the holes in the controllers' indexes
// become, then devices, for which root ports are added when none is free.
func (a *allocator) assign(domain *tree.Node) error {
	read := tree.Of(domain)
	unaddressed, err := a.unaddressed()
	if err != nil {
		return err
	}
	if err := a.reserve(); err != nil {
		return err
	}
	if err := a.placeControllers(); err != nil {
		return err
	}
	for _, index := range read.Holes() {
		a.addPort(index)
	}
	// libvirt counts the ports that are missing in a first pass and places
	// everything in a second, so that new ports are on pcie.0 before any device
	// is. Where the domain names no PCI controller of its own, one more port is
	// added for hotplug.
	highest := read.Highest()
	missing := len(unaddressed) - len(a.freePorts())
	if missing > 0 && highest == 0 {
		missing++
	}
	for range missing {
		highest++
		a.addPort(highest)
	}
	if err := a.placeControllers(); err != nil {
		return err
	}
	free := a.freePorts()
	for i, device := range unaddressed {
		a.put(device, tree.Address{Bus: free[i]})
	}
	return nil
}

func (a *allocator) addPort(index int) {
	port := a.devices.Add("controller", "type", "pci", "index", strconv.Itoa(index), "model", "pcie-root-port")
	fillTarget(port)
}

// reserve notes the addresses that the domain has, and those that q35 keeps for
// its chipset: 1f.0 ISA, 1f.3 SMBus, 01.0 the primary video card.
func (a *allocator) reserve() error {
	a.taken, a.ports = map[tree.Address]bool{}, map[int]bool{}
	for _, device := range a.devices.Nodes {
		at := tree.AddressOf(device)
		if at == nil {
			continue
		}
		if a.taken[*at] {
			return fmt.Errorf("attempted double use of PCI address %s", at)
		}
		a.taken[*at] = true
		if at.Bus == 0 && device.Attr("model") == "pcie-root-port" {
			a.ports[at.Slot] = true
		}
	}
	if a.q35 {
		a.taken[tree.Address{Slot: 0x1f}], a.taken[tree.Address{Slot: 0x1f, Function: 3}] = true, true
		if video := a.devices.Find("video"); video != nil && video.Find("address") == nil && !a.slotTaken(1) {
			a.put(video, tree.Address{Slot: 1})
		}
	}
	return nil
}

func (a *allocator) put(device *tree.Node, at tree.Address) {
	addAddress(device, at)
	a.taken[at] = true
}

func (a *allocator) slotTaken(slot int) bool {
	for function := range 8 {
		if a.taken[tree.Address{Slot: slot, Function: function}] {
			return true
		}
	}
	return false
}

// placeControllers gives PCI controllers without address one, by index.
func (a *allocator) placeControllers() error {
	for _, c := range byIndex(controllers(a.devices, "pci")) {
		if c.Attr("model") == "pcie-root" || c.Find("address") != nil {
			continue
		}
		var at *tree.Address
		switch model := c.Attr("model"); model {
		case "pcie-root-port":
			at = a.portAddress()
		case tree.ExpanderBus:
			at = a.freeSlot()
		default:
			return fmt.Errorf("controller %s: the model does not know where libvirt puts a %s without address", c.Attr("index"), model)
		}
		if at == nil {
			return fmt.Errorf("controller %s: no free slot on pcie.0", c.Attr("index"))
		}
		a.put(c, *at)
	}
	return nil
}

// portAddress is where libvirt puts the next root port: the first slot of pcie.0
// from 1 up that is free or has a function left beside other root ports.
func (a *allocator) portAddress() *tree.Address {
	for slot := 1; slot <= 0x1f; slot++ {
		if !a.ports[slot] && a.slotTaken(slot) {
			continue
		}
		for function := range 8 {
			at := tree.Address{Slot: slot, Function: function}
			if !a.taken[at] {
				a.ports[slot] = true
				return &at
			}
		}
	}
	return nil
}

func (a *allocator) freeSlot() *tree.Address {
	for slot := 1; slot <= 0x1f; slot++ {
		if !a.slotTaken(slot) {
			return &tree.Address{Slot: slot}
		}
	}
	return nil
}

// freePorts are the ports that libvirt fills, by index: also those under an
// expander bus.
func (a *allocator) freePorts() []int {
	used := map[int]bool{}
	for at := range a.taken {
		used[at.Bus] = true
	}
	var free []int
	for _, c := range byIndex(controllers(a.devices, "pci")) {
		index, model := tree.Number(c.Attr("index")), c.Attr("model")
		if (model == "pcie-root-port" || model == "pcie-switch-downstream-port") && !used[index] {
			free = append(free, index)
		}
	}
	return free
}

func controllers(devices *tree.Node, kind string) []*tree.Node {
	return slices.DeleteFunc(devices.All("controller"), func(c *tree.Node) bool { return c.Attr("type") != kind })
}

func byIndex(list []*tree.Node) []*tree.Node {
	return slices.SortedStableFunc(slices.Values(list), func(a, b *tree.Node) int {
		return cmp.Compare(tree.Number(a.Attr("index")), tree.Number(b.Attr("index")))
	})
}

func addAddress(device *tree.Node, at tree.Address) {
	device.Add("address", "type", "pci", "domain", "0x0000", "bus", fmt.Sprintf("0x%02x", at.Bus),
		"slot", fmt.Sprintf("0x%02x", at.Slot), "function", fmt.Sprintf("0x%x", at.Function))
}
