package tree

import (
	"fmt"
	"slices"
	"strings"
)

// Violations returns the rules that the result of a mutation violates: those that
// libvirt does not enforce, and with which QEMU or the firmware then fail. Before is
// the domain as it came in.
func Violations(before, after []byte) []string {
	c := checker{}
	was, err := Read(before)
	if err != nil {
		return []string{err.Error()}
	}

	if c.Tree, err = Read(after); err != nil {
		return []string{err.Error()}
	}

	c.indexes(was)
	for _, controller := range c.Controllers {
		c.controller(controller, was)
	}

	c.violations = append(c.violations, c.BusShortages()...)
	c.freePorts(was)
	c.functions(was)
	c.multifunction()
	c.unmoved(was)
	c.hostdevs(was)
	return c.violations
}

type checker struct {
	*Tree
	violations []string
}

func (c *checker) violated(format string, args ...any) {
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
}

// indexes: no index is beyond 255, and none is missing that was not before: libvirt fills
// the hole then, as it would have.
func (c *checker) indexes(before *Tree) {
	for index := range c.Controllers {
		if index > 255 {
			c.violated("index %d is above 255", index)
		}
	}

	holes := before.Holes()
	for _, index := range c.Holes() {
		if !slices.Contains(holes, index) {
			c.violated("no controller has index %d", index)
		}
	}
}

// accepts reports whether a bus takes a model (libvirt docs/pci-hotplug.rst and
// src/conf/domain_addr.c).
func accepts(parent, child string) bool {
	switch parent {
	case "pcie-root":
		return child == "pcie-root-port" || child == ExpanderBus || child == "dmi-to-pci-bridge" ||
			child == "pcie-to-pci-bridge"

	case ExpanderBus:
		return child == "pcie-root-port" || child == "dmi-to-pci-bridge"
	case "pcie-switch-upstream-port":
		return child == "pcie-switch-downstream-port"
	case "pcie-root-port", "pcie-switch-downstream-port":
		return child == "pcie-switch-upstream-port" || child == "pcie-to-pci-bridge"
	}

	return true
}

// controller: the controller's bus exists, comes before it and takes it. An
// expander bus has a cell that exists, and a bus number unless it came without
// one.
func (c *checker) controller(controller Controller, before *Tree) {
	index := controller.Index
	if controller.Model == ExpanderBus {
		if controller.Cell != Unknown && !slices.Contains(c.Cells, controller.Cell) {
			c.violated("expander bus %d is on cell %d, which does not exist", index,
				controller.Cell)
		}

		was := before.Controllers[index]
		if controller.BusNr == Unknown && !(was.Model == ExpanderBus && was.BusNr == Unknown) {
			c.violated("expander bus %d has no busNr", index)
		}
	}

	if controller.At == nil {
		return
	}

	parent, exists := c.Controllers[controller.At.Bus]
	if !exists && slices.Contains(before.Holes(), controller.At.Bus) {
		parent, exists = Controller{Index: controller.At.Bus, Model: "pcie-root-port"}, true
	}

	if !exists {
		c.violated("controller %d is on bus %d, which does not exist", index, controller.At.Bus)
		return
	}

	if parent.Index >= index {
		c.violated("controller %d is under controller %d, which QEMU makes later", index,
			parent.Index)
	}

	if parent.Index == 0 {
		parent.Model = "pcie-root"
	}

	if !accepts(parent.Model, controller.Model) {
		c.violated("%s %d is on %s %d", controller.Model, index, parent.Model, parent.Index)
	}
}

// freePorts: every port under an expander bus has something on it, or libvirt
// puts a device there. One that was free before is the user's: what libvirt puts there it
// would have put there.
func (c *checker) freePorts(before *Tree) {
	wasFree := before.FreePorts()
	for _, port := range c.FreePorts() {
		isUsers := slices.ContainsFunc(wasFree, func(p Controller) bool {
			return p.Index == port.Index && fmt.Sprint(p.At) == fmt.Sprint(port.At)
		})
		if bus := c.RootBus(port.At); bus != 0 && !isUsers {
			c.violated("port %d under expander bus %d is free", port.Index, bus)
		}
	}
}

// functions: no two devices share an address, and a slot has function 0 unless it
// was missing before.
func (c *checker) functions(before *Tree) {
	taken := map[Address]string{}
	for _, device := range c.Devices {
		if device.At == nil {
			continue
		}

		if other, twice := taken[*device.At]; twice {
			c.violated("%s and %s are both at %s", other, device.Label, device.At)
		}

		taken[*device.At] = device.Label
	}

	hidden := before.Hidden()
	for _, slot := range c.Hidden() {
		if !slices.Contains(hidden, slot) && !c.fillsFunctionZero(slot) {
			c.violated("slot %s has no function 0", slot)
		}
	}
}

// fillsFunctionZero reports whether libvirt puts a root port at a slot of root ports on pcie.0:
// it gives a port without an address, or of a missing index, the lowest free function
// (src/conf/domain_addr.c, virDomainPCIAddressFindUnusedFunctionOnBus).
func (c *checker) fillsFunctionZero(slot Address) bool {
	pending := len(c.Holes()) > 0
	for _, controller := range c.Controllers {
		pending = pending || controller.Model == "pcie-root-port" && controller.At == nil
	}

	for _, device := range c.Devices {
		if device.At != nil && device.At.Bus == 0 && device.At.Slot == slot.Slot &&
			device.Attr("model") != "pcie-root-port" {
			return false
		}
	}

	return pending && slot.Bus == 0
}

// multifunction: a slot of expander buses with several functions says so at function 0, or QEMU
// does not start: "single function device can't be populated in function 1" (hw/pci/pci.c,
// pci_init_multifunction).
func (c *checker) multifunction() {
	first := map[int]Device{} // function 0 of slots of the root bus
	for _, device := range c.Devices {
		if device.At != nil && device.At.Bus == 0 && device.At.Function == 0 {
			first[device.At.Slot] = device
		}
	}

	for _, device := range c.Devices {
		if device.Attr("model") != ExpanderBus || device.At == nil || device.At.Function == 0 {
			continue
		}
		if lead := first[device.At.Slot]; lead.Node == nil ||
			lead.Find("address").Attr("multifunction") != "on" {
			c.violated("%s is at %s, and function 0 has no multifunction", device.Label, device.At)
		}
	}
}

// ownAlias begins the aliases of devices that a policy key gives, which go when it
// no longer does.
const ownAlias = "ua-hook-sidecar-"

// unmoved: every device but hostdevs and PCI controllers keeps its address. One without an address may
// get that which libvirt gives it without the hook: pkg/plan, TestNothingElseMoves asks libvirt.
func (c *checker) unmoved(before *Tree) {
	now := map[string]string{}
	for _, device := range c.Devices {
		now[device.Label] = fmt.Sprint(device.At)
	}

	for _, device := range before.Devices {
		if device.Name == "hostdev" || device.Name == "controller" && device.Attr("type") == "pci" {
			continue
		}
		switch at, exists := now[device.Label]; {
		case !exists && strings.HasPrefix(device.Find("alias").Attr("name"), ownAlias):
		case !exists:
			c.violated("%s is missing", device.Label)
		case device.At != nil && at != fmt.Sprint(device.At):
			c.violated("%s has moved from %v to %s", device.Label, device.At, at)
		}
	}
}

// hostdevs: none is missing, renamed or in another order. New ones come last.
func (c *checker) hostdevs(before *Tree) {
	aliases := func(t *Tree) (names []string) {
		for _, device := range t.Devices {
			if device.Name == "hostdev" {
				names = append(names, device.Find("alias").Attr("name"))
			}
		}
		return names
	}

	was, now := aliases(before), aliases(c.Tree)
	if len(now) < len(was) || !slices.Equal(was, now[:len(was)]) {
		c.violated("hostdevs %q have become %q", was, now)
	}
}
