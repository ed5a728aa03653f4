// Package rules checks a domain by the rules that libvirt accepts breaches of
// and that QEMU or firmware then break on. It reads with libvirtxml and shares
// no code with the product, so that the two check each other.
package rules

import (
	"fmt"
	"slices"

	"libvirt.org/go/libvirtxml"
)

// Breaches are the rules that the result of a mutation breaks. Before is the
// domain as it came in.
func Breaches(before, after *libvirtxml.Domain) []string {
	c := checker{controllers: map[uint]libvirtxml.DomainController{}, domain: after}
	for _, controller := range pciControllers(after) {
		c.controllers[*controller.Index] = controller
	}
	c.indexes(before)
	for _, controller := range pciControllers(after) {
		c.controller(controller)
	}
	c.numbers(before)
	c.busNumbers()
	c.freePorts()
	c.functions(before)
	c.unmoved(before)
	c.hostdevs(before)
	return c.breaches
}

type checker struct {
	domain      *libvirtxml.Domain
	controllers map[uint]libvirtxml.DomainController
	breaches    []string
}

func (c *checker) breach(format string, args ...any) {
	c.breaches = append(c.breaches, fmt.Sprintf(format, args...))
}

func pciControllers(d *libvirtxml.Domain) []libvirtxml.DomainController {
	var all []libvirtxml.DomainController
	if d.Devices == nil {
		return nil
	}
	for _, controller := range d.Devices.Controllers {
		if controller.Type == "pci" && controller.Index != nil {
			all = append(all, controller)
		}
	}
	return all
}

// indexes: no index beyond 255, no hole below an expander bus's tree, unless no
// controller came or went: libvirt fills the hole then, as it would have.
func (c *checker) indexes(before *libvirtxml.Domain) {
	var highest uint
	for index := range c.controllers {
		highest = max(highest, index)
	}
	if highest > 255 {
		c.breach("index %d is above 255", highest)
	}
	if !slices.ContainsFunc(pciControllers(c.domain), isExpander) || len(pciControllers(before)) == len(pciControllers(c.domain)) {
		return
	}
	for index := uint(1); index < highest; index++ {
		if _, there := c.controllers[index]; !there {
			c.breach("index %d is a hole", index)
		}
	}
}

func isExpander(c libvirtxml.DomainController) bool { return c.Model == "pcie-expander-bus" }

// accepts is which models a bus takes (libvirt docs/pci-hotplug.rst and
// src/conf/domain_addr.c).
func accepts(parent, child string) bool {
	switch parent {
	case "pcie-root":
		return child == "pcie-root-port" || child == "pcie-expander-bus" || child == "dmi-to-pci-bridge" || child == "pcie-to-pci-bridge"
	case "pcie-expander-bus":
		return child == "pcie-root-port" || child == "dmi-to-pci-bridge"
	case "pcie-switch-upstream-port":
		return child == "pcie-switch-downstream-port"
	case "pcie-root-port", "pcie-switch-downstream-port":
		return child == "pcie-switch-upstream-port" || child == "pcie-to-pci-bridge"
	}
	return true
}

func (c *checker) controller(controller libvirtxml.DomainController) {
	index := *controller.Index
	if isExpander(controller) {
		if controller.PCI != nil && controller.PCI.Target != nil {
			if node := controller.PCI.Target.NUMANode; node != nil && !c.hasCell(*node) {
				c.breach("expander bus %d names cell %d, which is not there", index, *node)
			}
		}
	}
	at := addressOf(controller.Address)
	if at == nil {
		return
	}
	parent, there := c.controllers[*at.Bus]
	if !there && *at.Bus != 0 {
		c.breach("controller %d is on bus %d, which is not there", index, *at.Bus)
		return
	}
	if *at.Bus >= index {
		c.breach("controller %d is below controller %d", index, *at.Bus)
	}
	model := "pcie-root"
	if *at.Bus != 0 {
		model = parent.Model
	}
	if !accepts(model, controller.Model) {
		c.breach("%s %d is on %s %d", controller.Model, index, model, *at.Bus)
	}
}

// numbers: each expander bus has a bus number, unless it came without one.
func (c *checker) numbers(before *libvirtxml.Domain) {
	unnumbered := map[uint]bool{}
	for _, controller := range pciControllers(before) {
		unnumbered[*controller.Index] = lacksNumber(controller)
	}
	for _, controller := range pciControllers(c.domain) {
		if lacksNumber(controller) && !unnumbered[*controller.Index] {
			c.breach("expander bus %d has no busNr", *controller.Index)
		}
	}
}

func lacksNumber(c libvirtxml.DomainController) bool {
	return isExpander(c) && (c.PCI == nil || c.PCI.Target == nil || c.PCI.Target.BusNr == nil)
}

func (c *checker) hasCell(id uint) bool {
	if c.domain.CPU == nil || c.domain.CPU.Numa == nil {
		return false
	}
	return slices.ContainsFunc(c.domain.CPU.Numa.Cell, func(cell libvirtxml.DomainCell) bool {
		return cell.ID != nil && *cell.ID == id
	})
}

func addressOf(a *libvirtxml.DomainAddress) *libvirtxml.DomainAddressPCI {
	if a == nil || a.PCI == nil || a.PCI.Bus == nil {
		return nil
	}
	return a.PCI
}

// root is the expander bus above a controller, or 0 for the main bus.
func (c *checker) root(index uint) uint {
	for range 256 {
		controller, there := c.controllers[index]
		if !there || index == 0 {
			return 0
		}
		if isExpander(controller) {
			return index
		}
		at := addressOf(controller.Address)
		if at == nil {
			return 0
		}
		index = *at.Bus
	}
	return 0
}

// busNumbers: every root bus ends before the next begins.
func (c *checker) busNumbers() {
	starts := map[uint]int{0: 0}
	for index, controller := range c.controllers {
		if isExpander(controller) && controller.PCI != nil && controller.PCI.Target != nil && controller.PCI.Target.BusNr != nil {
			starts[index] = int(*controller.PCI.Target.BusNr)
		}
	}
	if len(starts) == 1 {
		return
	}
	buses := map[uint]int{}
	for index, controller := range c.controllers {
		if index != 0 && !isExpander(controller) {
			buses[c.root(index)]++
		}
	}
	for root, start := range starts {
		next := 256
		for _, other := range starts {
			if other > start {
				next = min(next, other)
			}
		}
		if start+1+buses[root] > next {
			c.breach("root bus %d begins at %d, has %d bridges and ends at %d", root, start, buses[root], next)
		}
	}
}

// devices are the addresses of everything that is no controller, by what it is.
func (c *checker) devices() map[string]*libvirtxml.DomainAddressPCI {
	return devices(c.domain)
}

func devices(d *libvirtxml.Domain) map[string]*libvirtxml.DomainAddressPCI {
	all := map[string]*libvirtxml.DomainAddressPCI{}
	if d.Devices == nil {
		return all
	}
	add := func(kind string, i int, a *libvirtxml.DomainAddress) {
		all[fmt.Sprintf("%s %d", kind, i)] = addressOf(a)
	}
	for i, x := range d.Devices.Disks {
		add("disk", i, x.Address)
	}
	for i, x := range d.Devices.Interfaces {
		add("interface", i, x.Address)
	}
	for i, x := range d.Devices.Filesystems {
		add("filesystem", i, x.Address)
	}
	for i, x := range d.Devices.RNGs {
		add("rng", i, x.Address)
	}
	for i, x := range d.Devices.Videos {
		add("video", i, x.Address)
	}
	for i, x := range d.Devices.Inputs {
		add("input", i, x.Address)
	}
	if d.Devices.MemBalloon != nil {
		add("memballoon", 0, d.Devices.MemBalloon.Address)
	}
	others := 0 // those of PCI come and go, and do not count
	for _, x := range d.Devices.Controllers {
		if x.Type != "pci" {
			add("controller "+x.Type, others, x.Address)
			others++
		}
	}
	return all
}

// freePorts: no port below an expander bus without something on it, and each
// that holds a device does not hotplug.
func (c *checker) freePorts() {
	used := map[uint]bool{}
	for _, h := range hostdevs(c.domain) {
		if at := addressOf(h.Address); at != nil {
			used[*at.Bus] = true
		}
	}
	for _, at := range c.devices() {
		if at != nil {
			used[*at.Bus] = true
		}
	}
	for _, controller := range c.controllers {
		if at := addressOf(controller.Address); at != nil {
			used[*at.Bus] = true
		}
	}
	for index, controller := range c.controllers {
		port := controller.Model == "pcie-root-port" || controller.Model == "pcie-switch-downstream-port"
		if port && c.root(index) != 0 && !used[index] {
			c.breach("port %d below expander bus %d is free", index, c.root(index))
		}
	}
}

func hostdevs(d *libvirtxml.Domain) []libvirtxml.DomainHostdev {
	if d.Devices == nil {
		return nil
	}
	return d.Devices.Hostdevs
}
