package bus

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Violated returns the warning of a rule that a guest violates.
func Violated(format string, args ...any) reasons.Finding {
	return reasons.NewFinding(reasons.CodeBrokenRule, nil, fmt.Sprintf(format, args...))
}

// Exceeded returns the warning of a budget that is exceeded.
func Exceeded(format string, args ...any) reasons.Finding {
	return reasons.NewFinding(reasons.CodeBudget, nil, fmt.Sprintf(format, args...))
}

// Check lists the rules and budgets that a guest violates, though libvirt accepts it: QEMU or
// the firmware then lose devices silently. Only expander buses that hold a
// managed device or nothing at all are checked; budgets count for all.
func (g Guest) Check(managed Devices, ports Ports) []reasons.Finding {
	trees := g.Managed(managed)
	violations := slices.Concat(g.checkBudgets(trees, ports), g.checkPlugged(trees))
	if len(violations) > 0 {
		return violations // what else is wrong may follow from it
	}

	referenced := g.Referenced()
	for _, e := range g.Expanders {
		n := g.Node(e.Index)
		isManaged := slices.Contains(trees, n)
		if e.BusNr == nil && (isManaged || n.Bridges() > 2) {
			violations = append(violations,
				Violated("expander bus with index %d has no busNr, and libvirt's own leaves room "+
					"for one port", e.Index))
		}

		if a := g.argumentBeside(e); a != nil && isManaged {
			violations = append(violations,
				Violated("expander bus with index %d is in slot %#02x of the root bus, which %s of "+
					"qemu:commandline takes", e.Index, e.Address.Slot, a))
		}

		if isManaged && e.Cell != nil && !slices.ContainsFunc(g.Cells, func(c domain.Cell) bool {
			return c.ID == *e.Cell
		}) {
			violations = append(violations,
				Violated("expander bus with index %d names cell %d, which does not exist in the "+
					"guest", e.Index, *e.Cell))
		}

		if isManaged || !referenced[n] && !IsOccupied(n) {
			violations = append(violations, g.checkPorts(n, managed)...)
		}
	}

	return slices.Concat(violations, g.checkBridges(), g.checkFunctions(managed))
}

// checkPlugged checks that libvirt puts no controller of the user under managed expander buses:
// without an address a downstream port goes to the first switch with a free slot.
func (g Guest) checkPlugged(trees []*topology.Node) []reasons.Finding {
	whole, isAccepted := g.Completed()
	if !isAccepted {
		return nil
	}

	for i, c := range g.Given.Controllers {
		at := whole.Domain.Controllers[i].Address
		if c.Address != nil || at == nil {
			continue
		}

		if bus := g.Node(at.Bus); bus != nil && slices.Contains(trees, bus.Top()) {
			return []reasons.Finding{
				Violated("controller with index %d has no address, and libvirt puts it under "+
					"that with index %d, which holds a placed device", c.Index, at.Bus),
			}
		}
	}

	return nil
}

// checkBridges checks that each bridge without an address finds a free port:
// libvirt adds none for it ("Cannot automatically add a new PCI bus for a device").
func (g Guest) checkBridges() []reasons.Finding {
	ports, bridges := g.openPorts()
	if len(bridges) <= len(ports) {
		return nil
	}
	return []reasons.Finding{
		Violated("controller with index %d has no address, and no port is free for it",
			bridges[len(ports)]),
	}
}

// checkBudgets checks that each root bus has room for its bridges before the
// next one begins (QEMU docs/pcie.txt; measured exact to one), and that what is
// still to come finds an index and a slot. The bus number of an expander bus that is not among the
// managed trees is the user's to change.
func (g Guest) checkBudgets(trees []*topology.Node, ports Ports) []reasons.Finding {
	var violations []reasons.Finding
	highest := g.HighestIndex()
	root := g.RootBus(ports, highest)
	budgets := g.budgets(root, highest)
	for _, e := range budgets.BusNumbers.Expanders {
		if e.Used > e.Limit {
			change := ""
			if !slices.Contains(trees, g.Node(e.Index)) {
				change = fmt.Sprintf("; set its busNr to %d or lower", e.BusNr+e.Limit-e.Used)
			}

			violations = append(violations,
				Exceeded("bus numbers: the expander bus with index %d needs %d from %d on, there "+
					"is room for %d: %d too many%s",
					e.Index, e.Used, e.BusNr, e.Limit, e.Used-e.Limit, change))
		}
	}

	if len(g.Expanders) == 0 {
		return violations
	}

	if need, end := budgets.BusNumbers.Used, budgets.BusNumbers.Limit; need > end {
		change := ""
		for _, e := range budgets.BusNumbers.Expanders {
			if e.BusNr == end && !slices.Contains(trees, g.Node(e.Index)) {
				change = fmt.Sprintf("; set the busNr of the one with index %d to %d or higher",
					e.Index, need)
			}
		}

		violations = append(violations,
			Exceeded("bus numbers: the root bus needs %d, the lowest expander bus begins at %d: "+
				"%d too many%s", need, end, need-end, change))
	}

	if need, free := root.Added, libvirt.MaxIndex-highest; need > free {
		violations = append(violations,
			Exceeded("controller indexes: %d more are needed, %d are free: %d too many", need, free,
				need-free))
	}

	// libvirt refuses a domain without a slot for each device. The hook adds no port for
	// hotplug that has no slot.
	if need, room := root.ports(), root.portCapacity(); ports.Hook > 0 &&
		root.Last >= LastKubeVirtIndex && need > room {
		violations = append(violations,
			Exceeded("slots of the root bus: %d root ports are needed, there is room for %d: %d "+
				"too many", need, room, need-room))
	}

	return violations
}

// checkPorts checks the controllers under an expander bus.
func (g Guest) checkPorts(expander *topology.Node, managed Devices) []reasons.Finding {
	var violations []reasons.Finding
	for _, c := range g.Controllers {
		n := g.Node(c.Index)
		if n == expander || n.Top() != expander {
			continue
		}

		if parent := n.Parent.ID.(topology.Index); topology.Index(c.Index) <= parent {
			violations = append(violations,
				Violated("controller with index %d is under that with index %d, which QEMU makes "+
					"later", c.Index, parent))
		}

		if want := ModelUnder(n.Parent.Kind); c.Model != want && managed.AnyUnder(n) {
			violations = append(violations,
				Violated("controller with index %d is a %s, must be a %s", c.Index, c.Model, want))
		}
	}

	for _, port := range FreePorts(expander) {
		violations = append(violations,
			Violated("port with index %d under expander bus %d is free: libvirt plugs any device "+
				"without address there",
				port.ID, expander.ID))
	}

	return violations
}

// ModelUnder returns the controller that leads to a passthrough device from a bus under an
// expander bus.
func ModelUnder(bus topology.NodeKind) domain.Model {
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
// 3.2.2.3.4). Slots without a managed device are not checked.
func (g Guest) checkFunctions(managed Devices) []reasons.Finding {
	var violations []reasons.Finding
	for _, h := range g.Hostdevs {
		n := g.Tree.Node(h.ID)
		if a := h.Address; a == nil || a.Function == 0 || a.Bus == 0 || !managed[h.ID] {
			continue
		}

		lead := slices.ContainsFunc(n.Parent.Children, func(other *topology.Node) bool {
			return other.Kind == topology.Endpoint && other.Slot == n.Slot && other.Function == 0
		})

		if !lead {
			violations = append(violations,
				Violated("device %s is function %d of a slot without function 0", h.ID,
					h.Address.Function))
		}
	}

	return violations
}

// Budgets are how much of each scarce resource a guest uses.
type Budgets struct {
	// of the root bus, pending ports included; its limit is the first expander bus's number, less
	// two per expander bus whose number libvirt chooses
	BusNumbers struct {
		Budget
		Expanders []ExpanderBudget `json:"expanders"` // per expander bus
	} `json:"busNumbers"`

	ControllerIndexes Budget `json:"controllerIndexes"` // of 256
	BARs              struct {
		Bytes64 uint64 `json:"bytes64"` // sum of the PCI devices' 64-bit memory BARs
	} `json:"bars"` // that the guest's 64-bit window has to hold
}

// Budget is a limit and how much of it is used.
type Budget struct {
	Used  int `json:"used"`  // how many are used
	Limit int `json:"limit"` // how many there are
}

// ExpanderBudget is the budget of bus numbers of an expander bus.
type ExpanderBudget struct {
	Index int `json:"index"` // of its controller
	BusNr int `json:"busNr"` // its first bus number
	Budget
}

// Budgets returns the use of bus numbers, slots and indexes with ports reserved for hotplug. BARs
// are filled in later. The expander bus with the highest number is first.
func (g Guest) Budgets(ports Ports) Budgets {
	settled := g.Settled()
	highest := settled.HighestIndex()
	return settled.budgets(settled.RootBus(ports, highest), highest)
}

// budgets returns the use of a settled guest.
func (g Guest) budgets(root RootBus, highest int) Budgets {
	b := Budgets{
		ControllerIndexes: Budget{Used: highest + 1 + root.Added, Limit: libvirt.MaxIndex + 1},
	}

	numbered, arguments := g.Numbered(), g.ArgumentSpans()
	for i, e := range numbered {
		end := libvirt.BusNumberCount
		if i > 0 {
			end = *numbered[i-1].BusNr
		}

		used := Budget{
			Used: root.Expander(e.Index), Limit: lowestFrom(arguments, *e.BusNr, end) - *e.BusNr,
		}
		b.BusNumbers.Expanders = append(b.BusNumbers.Expanders, ExpanderBudget{
			Index: e.Index, BusNr: *e.BusNr, Budget: used,
		})
	}

	end := libvirt.BusNumberCount
	if last := len(numbered) - 1; last >= 0 {
		end = *numbered[last].BusNr
	}

	b.BusNumbers.Budget = Budget{
		Used:  root.BusNumbers(),
		Limit: lowestFrom(arguments, 0, end) - libvirt.AutomaticBusNumbers(g.Domain),
	}

	return b
}
