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
	result    guest   // after the changes
	hotplug   hotplug // the root ports that are reserved, as far as they fit
	warnings  []reasons.Warning
}

// place makes the tree that the layout wants, unless it is there. Where it does
// not fit, nothing is moved and each device says so. Base are the changes that
// are made in any case.
func place(in Input, current guest, host *topology.Tree, decisions []Decision, base domain.Changes, ports hotplug) placing {
	managed := managedOf(decisions)
	p := placing{decisions: decisions, changes: base, hotplug: ports}
	if in.Policy.Layout == policy.LayoutKeep || len(managed) == 0 {
		p.result = current.after(in.Domain, base)
		return p
	}
	wanted := layOut(decisions, host, in.Policy.Layout)
	if fits, aligned := isAligned(current, wanted, managed, ports); aligned {
		p.hotplug = fits
		p.decisions = decided(decisions, Kept, reasons.AlreadyAligned)
		if closesPorts(decisions) {
			r := reserve(current, in.Domain, decisions, managed, fits, controllersOf(wanted))
			p.changes.HotplugOff = reopened(current, in.Domain, managed, r)
		}
		p.result = current.after(in.Domain, p.changes)
	} else {
		var violations []violation
		// A number of ports that a user asks for gives way to the devices, the one
		// that KubeVirt would keep does not.
		p.hotplug, violations = fit(ports, ports.kubevirt, func(h hotplug) []violation {
			changes, short := build(current, in.Domain, wanted, decisions, base, managed, h)
			if len(short) > 0 {
				return short
			}
			p.changes, p.result = changes, current.after(in.Domain, changes)
			return check(p.result, managed, h)
		})
		if len(violations) > 0 {
			return giveUp(decisions, base, current.after(in.Domain, base), p.hotplug, violations)
		}
	}
	var more []domain.Controller
	if more, p.warnings = hotplugPorts(p.result, managed, ports, p.hotplug); len(more) > 0 {
		p.changes.AddControllers = slices.Concat(p.changes.AddControllers, more)
		p.result = current.after(in.Domain, p.changes)
	}
	return p
}

// isAligned reports whether a domain is as the layout wants it and violates no
// rule, and with how many root ports reserved. Where the layout wants nothing
// and nothing is there, what others built is not judged.
func isAligned(current guest, wanted *topology.Tree, managed deviceSet, ports hotplug) (hotplug, bool) {
	if !isAsWanted(current, wanted, managed) {
		return ports, false
	}
	if len(wanted.Roots) == 0 {
		return ports, true
	}
	fits, violations := fit(ports, 0, func(h hotplug) []violation { return check(current, managed, h) })
	return fits, len(violations) == 0
}

// build is the changes that replace the managed controllers by the tree that is
// wanted, or the budgets that it exceeds.
func build(current guest, d *domain.Domain, wanted *topology.Tree, decisions []Decision, base domain.Changes, managed deviceSet, ports hotplug) (domain.Changes, []violation) {
	r := reserve(current, d, decisions, managed, ports, controllersOf(wanted))
	n, short := number(wanted, r, closesPorts(decisions))
	if len(short) > 0 {
		return domain.Changes{}, short
	}
	return changesFor(current, base, decisions, r, n), nil
}

// giveUp leaves every device where it is.
func giveUp(decisions []Decision, base domain.Changes, result guest, ports hotplug, violations []violation) placing {
	reason := reasons.BrokenRule
	var warnings []reasons.Warning
	for _, v := range violations {
		warnings = append(warnings, reasons.NewWarning(v.code, nil, v.text))
		if v.code == reasons.CodeBudget {
			reason = reasons.Budget
		}
	}
	return placing{decided(decisions, Unplaced, reason), base, result, ports, warnings}
}

// decided is the decisions with another outcome of those that were placed.
func decided(decisions []Decision, outcome Outcome, reason reasons.Reason) []Decision {
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
