package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
)

// check lists what a guest violates and libvirt accepts all the same: QEMU or
// the firmware then lose devices silently. Only expander buses that hold a
// managed device or nothing at all are looked into; budgets count for all.
func check(g guest, managed deviceSet, ports portCount) []violation {
	violations := checkBudgets(g, ports)
	trees := g.managedTrees(managed)
	referenced := g.referenced()
	below := controllersUnder(g)
	for _, e := range g.expanders {
		n := g.node(e.Index)
		isManaged := slices.Contains(trees, n)
		if e.BusNr == nil && (isManaged || n.Bridges() > 2) {
			violations = append(violations, violated("expander bus with index %d has no busNr, and libvirt's own leaves room for one port", e.Index))
		}
		if isManaged && e.Cell != nil && !slices.ContainsFunc(g.Cells, func(c domain.Cell) bool { return c.ID == *e.Cell }) {
			violations = append(violations, violated("expander bus with index %d names cell %d, which does not exist in the guest", e.Index, *e.Cell))
		}
		if isManaged || !referenced[n] && !isOccupied(n) {
			violations = append(violations, checkPorts(g, n, below[n], managed)...)
		}
	}
	return slices.Concat(violations, checkBridges(g), checkFunctions(g, managed))
}

// checkBridges checks that each bridge without an address finds a free port:
// libvirt adds none for it ("Cannot automatically add a new PCI bus for a device").
func checkBridges(g guest) []violation {
	var waiting []int
	free := 0
	for _, c := range g.Controllers {
		n := g.node(c.Index)
		switch {
		case n.Kind.IsPort() && len(n.Children) == 0:
			free++
		case c.Address == nil && (c.Model == domain.PCIeToPCIBridge || c.Model == domain.UpstreamPort):
			waiting = append(waiting, c.Index)
		}
	}
	if len(waiting) <= free {
		return nil
	}
	return []violation{violated("controller with index %d has no address, and no port is free for it", waiting[free])}
}

// checkBudgets checks that each root bus has room for its bridges before the
// next one begins (QEMU docs/pcie.txt; measured exact to one), and that what is
// still to come finds an index and a slot.
func checkBudgets(g guest, ports portCount) []violation {
	var violations []violation
	expanders, end := expanderBudgets(g)
	for _, e := range expanders {
		if e.Used > e.Limit {
			violations = append(violations, exceeded("bus numbers: the expander bus with index %d needs %d from %d on, there is room for %d: %d too many",
				e.Index, e.Used, e.BusNr, e.Limit, e.Used-e.Limit))
		}
	}
	if len(g.expanders) == 0 {
		return violations
	}
	highest := libvirt.HighestIndex(g.Domain, g.others)
	root := rootBusOf(g, ports, highest)
	if need := root.busNumbers(); need > end {
		violations = append(violations, exceeded("bus numbers: the root bus needs %d, the lowest expander bus begins at %d: %d too many", need, end, need-end))
	}
	if need, free := root.added, libvirt.MaxIndex-highest; need > free {
		violations = append(violations, exceeded("controller indexes: %d more are needed, %d are free: %d too many", need, free, need-free))
	}
	// What finds no slot is libvirt's to refuse; but the hook adds no port for
	// hotplug that finds none.
	if need, room := root.ports(), root.portCapacity(); ports.hook > 0 && highest >= kubevirtMaxIndex && need > room {
		violations = append(violations, exceeded("slots of the root bus: %d root ports are needed, there is room for %d: %d too many", need, room, need-room))
	}
	return violations
}

// controllersUnder are the controllers under each expander bus, in the order of the
// domain.
func controllersUnder(g guest) map[*topology.Node][]domain.Controller {
	below := map[*topology.Node][]domain.Controller{}
	for _, c := range g.Controllers {
		n := g.node(c.Index)
		if top := g.expanderAbove(n); top != nil && top != n {
			below[top] = append(below[top], c)
		}
	}
	return below
}

// checkPorts checks the controllers under an expander bus.
func checkPorts(g guest, expander *topology.Node, controllers []domain.Controller, managed deviceSet) []violation {
	var violations []violation
	for _, c := range controllers {
		n := g.node(c.Index)
		if parent := n.Parent.ID.(topology.Index); topology.Index(c.Index) <= parent {
			violations = append(violations, violated("controller with index %d is under that with index %d, which QEMU makes later", c.Index, parent))
		}
		if want := modelUnder(n.Parent.Kind); c.Model != want && managed.holdsAny(n) {
			violations = append(violations, violated("controller with index %d is a %s, must be a %s", c.Index, c.Model, want))
		}
	}
	for _, port := range freePorts(expander) {
		violations = append(violations, violated("port with index %d under expander bus %d is free: libvirt plugs any device without address there",
			port.ID, expander.ID))
	}
	return violations
}

// modelUnder is the controller that may be above a passthrough device on a bus
// under an expander bus.
func modelUnder(bus topology.NodeKind) domain.Model {
	switch bus {
	case topology.Root:
		return domain.RootPort
	case topology.UpstreamPort:
		return domain.DownstreamPort
	}
	return domain.UpstreamPort
}

// checkFunctions checks that function 0 is there where a managed device has
// another function: the guest does not look for it without (PCI 3.0,
// 3.2.2.3.4). What other devices do among themselves is not judged.
func checkFunctions(g guest, managed deviceSet) []violation {
	var violations []violation
	for _, h := range g.Hostdevs {
		n := g.tree.Node(h.ID)
		if a := h.Address; a == nil || a.Function == 0 || a.Bus == 0 || !managed[h.ID] {
			continue
		}
		lead := slices.ContainsFunc(n.Parent.Children, func(other *topology.Node) bool {
			return other.Kind == topology.Endpoint && other.Slot == n.Slot && other.Function == 0
		})
		if !lead {
			violations = append(violations, violated("device %s is function %d of a slot without function 0", h.ID, h.Address.Function))
		}
	}
	return violations
}
