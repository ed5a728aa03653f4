package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// start is what every layout starts from.
type start struct {
	Input
	current    guest
	devices    []Device
	cells      cells
	hostTree   *topology.Tree
	hostPlaces []*topology.Node // of the devices in hostTree
	base       domain.Changes   // made in any case
	ports      portCount        // root ports to reserve for hotplug
}

// placing is what a layout makes of a domain.
type placing struct {
	Choice
	decisions []Decision
	changes   domain.Changes
	result    guest     // after the changes
	ports     portCount // the root ports that are reserved for hotplug, as far as they fit
	warnings  []reasons.Warning
}

// place makes the tree of the layout that is chosen, unless the domain has one
// that is as good. Where it would take devices further from each other than they
// are a finer layout is made, and where auto's does not fit a coarser one. Where
// nothing fits, nothing is moved and each device says so.
func place(s start) placing {
	chosen := choose(s)
	placed, violations := attempt(s, chosen)
	switch {
	case len(violations) == 0 && separates(s, placed):
		placed = finer(s, placed)
	case len(violations) > 0 && s.Policy.Layout == policy.LayoutAuto:
		placed, violations = coarser(s, chosen, violations)
	}
	if len(violations) > 0 {
		return giveUp(s, chosen, violations)
	}
	more, warnings := hotplugPorts(placed.result, managedOf(placed.decisions), s.ports, placed.ports)
	placed.warnings = append(placed.warnings, warnings...)
	if len(more) > 0 {
		placed.changes.AddControllers = slices.Concat(placed.changes.AddControllers, more)
		placed.result = s.current.after(placed.changes)
	}
	return placed
}

// attempt is what a proposal makes of the domain, or what that violates.
func attempt(s start, p proposal) (placing, []violation) {
	managed := managedOf(p.decisions)
	if len(managed) == 0 {
		return placing{Choice: p.Choice, decisions: p.decisions, changes: s.base, result: s.current.after(s.base), ports: s.ports}, nil
	}
	if fits, aligned := isAligned(s, p, managed); aligned {
		return leave(s, p, managed, fits), nil
	}
	// A number of ports that a user asks for gives way to the devices, the one
	// that KubeVirt would keep does not.
	built, _, violations := fit(s.ports, s.ports.kubevirt, func(ports portCount) (placing, []violation) { return build(s, p, managed, ports) })
	return built, violations
}

// leave keeps the devices of a domain that is aligned where they are.
func leave(s start, p proposal, managed deviceSet, ports portCount) placing {
	changes := s.base
	if closesPorts(p.decisions) {
		changes.HotplugOff = portsToClose(s.current, managed, reserve(s.current, p.decisions, managed, ports, p.wanted))
	}
	decisions := withOutcome(p.decisions, Kept, reasons.AlreadyAligned)
	return placing{Choice: p.Choice, decisions: decisions, changes: changes, result: s.current.after(changes), ports: ports}
}

// build replaces the managed controllers by the tree that is wanted, or returns
// what that violates.
func build(s start, p proposal, managed deviceSet, ports portCount) (placing, []violation) {
	r := reserve(s.current, p.decisions, managed, ports, p.wanted)
	n, violations := number(p.wanted, r, closesPorts(p.decisions))
	if len(violations) > 0 {
		return placing{}, violations
	}
	changes := changesFor(s.current, s.base, p.decisions, r, n)
	result := s.current.after(changes)
	return placing{Choice: p.Choice, decisions: p.decisions, changes: changes, result: result, ports: ports}, check(result, managed, ports)
}

// giveUp leaves every device where it is.
func giveUp(s start, p proposal, violations []violation) placing {
	reason := reasons.BrokenRule
	var warnings []reasons.Warning
	for _, v := range violations {
		warnings = append(warnings, reasons.NewWarning(v.code, nil, v.text))
		if v.code == reasons.CodeBudget {
			reason = reasons.Budget
		}
	}
	return placing{p.Choice, withOutcome(p.decisions, Unplaced, reason), s.base, s.current.after(s.base), s.ports, warnings}
}

// withOutcome is the decisions with another outcome of those that were placed.
func withOutcome(decisions []Decision, outcome Outcome, reason reasons.Reason) []Decision {
	next := slices.Clone(decisions)
	for i, d := range next {
		if d.Outcome == Placed {
			next[i].Outcome, next[i].Reason = outcome, reason
		}
	}
	return next
}

// managedOf is the devices that may move.
func managedOf(decisions []Decision) deviceSet {
	managed := make(deviceSet, len(decisions))
	for _, d := range decisions {
		if d.movable {
			managed[d.ID] = true
		}
	}
	return managed
}
