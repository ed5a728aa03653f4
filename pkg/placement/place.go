package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// placing is what a layout makes of the decisions.
type placing struct {
	decisions []Decision
	changes   domain.Changes
	result    guest     // after the changes
	ports     portCount // the root ports that are reserved for hotplug, as far as they fit
	warnings  []reasons.Warning
}

// place makes the tree that the layout wants, unless it is there. Where it does
// not fit, nothing is moved and each device says so. Base are the changes that
// are made in any case.
func place(in Input, current guest, host *topology.Tree, decisions []Decision, base domain.Changes, ports portCount) placing {
	managed := managedOf(decisions)
	if in.Policy.Layout == policy.LayoutKeep || len(managed) == 0 {
		return placing{decisions: decisions, changes: base, result: current.after(base), ports: ports}
	}
	wanted := layOut(decisions, host, in.Policy.Layout)
	var p placing
	if fits, aligned := isAligned(current, wanted, managed, ports); aligned {
		p = leave(current, wanted, decisions, base, managed, fits)
	} else {
		// A number of ports that a user asks for gives way to the devices, the one
		// that KubeVirt would keep does not.
		built, fits, violations := fit(ports, ports.kubevirt, func(ports portCount) (placing, []violation) {
			return build(current, wanted, decisions, base, managed, ports)
		})
		if len(violations) > 0 {
			return giveUp(current, decisions, base, fits, violations)
		}
		p = built
	}
	more, warnings := hotplugPorts(p.result, managed, ports, p.ports)
	if p.warnings = warnings; len(more) > 0 {
		p.changes.AddControllers = slices.Concat(p.changes.AddControllers, more)
		p.result = current.after(p.changes)
	}
	return p
}

// leave keeps the devices of a domain that is aligned where they are.
func leave(current guest, wanted *topology.Tree, decisions []Decision, base domain.Changes, managed deviceSet, ports portCount) placing {
	changes := base
	if closesPorts(decisions) {
		changes.HotplugOff = portsToClose(current, managed, reserve(current, decisions, managed, ports, controllersOf(wanted)))
	}
	return placing{decisions: withOutcome(decisions, Kept, reasons.AlreadyAligned), changes: changes, result: current.after(changes), ports: ports}
}

// build replaces the managed controllers by the tree that is wanted, or returns
// what that violates.
func build(current guest, wanted *topology.Tree, decisions []Decision, base domain.Changes, managed deviceSet, ports portCount) (placing, []violation) {
	r := reserve(current, decisions, managed, ports, controllersOf(wanted))
	n, violations := number(wanted, r, closesPorts(decisions))
	if len(violations) > 0 {
		return placing{}, violations
	}
	changes := changesFor(current, base, decisions, r, n)
	result := current.after(changes)
	return placing{decisions: decisions, changes: changes, result: result, ports: ports}, check(result, managed, ports)
}

// giveUp leaves every device where it is.
func giveUp(current guest, decisions []Decision, base domain.Changes, ports portCount, violations []violation) placing {
	reason := reasons.BrokenRule
	var warnings []reasons.Warning
	for _, v := range violations {
		warnings = append(warnings, reasons.NewWarning(v.code, nil, v.text))
		if v.code == reasons.CodeBudget {
			reason = reasons.Budget
		}
	}
	return placing{withOutcome(decisions, Unplaced, reason), base, current.after(base), ports, warnings}
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
	managed := deviceSet{}
	for _, d := range decisions {
		if d.movable {
			managed[d.ID] = true
		}
	}
	return managed
}
