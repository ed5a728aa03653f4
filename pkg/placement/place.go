package placement

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/placement/number"
	"hook-sidecar/pkg/placement/request"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// placing is a proposal with the changes that build it.
type placing struct {
	proposal
	changes  domain.Changes
	result   bus.Guest // after the changes
	ports    bus.Ports // the root ports that are reserved for hotplug, as far as they fit
	warnings []reasons.Finding
	faults   faults // of the result
}

// placeDevices makes the tree of the layout that is chosen. Where no layout fits with a root port for
// each companion of a whole AMD GPU, the companions of one share a port. Where nothing fits, nothing
// is moved and each device has the reason.
func placeDevices(s start) placing {
	chosen, placed, violations := placeAll(s)

	// A port for each companion is worth less than a layout that fits: only then do they share one.
	companions := withOwnPort(chosen.decisions)
	if companions != "" && reasons.CodeBudget.IsIn(violations) {
		s.companionsShare = true
		if _, fewer, tooMuch := placeAll(s); len(tooMuch) == 0 {
			placed, violations = fewer, nil
			placed.warnings = append(placed.warnings, reasons.NewFinding(
				reasons.CodeCompanionsShare, nil, "the companions of a whole AMD GPU share a root "+
					"port, since one for each of them fits in no layout: "+companions))
		}
	}

	if len(violations) > 0 {
		return giveUp(s, chosen, violations)
	}

	// Ports for hotplug come last. They take what the layout leaves, and give way to it.
	indexes, warnings := hotplugPorts(placed.result, placed.managed, s.ports, placed.ports)
	placed.warnings = append(placed.warnings, warnings...)
	if len(indexes) == 0 {
		return placed
	}

	return withPorts(s, placed, indexes)
}

// placeAll makes the tree of the layout that is chosen, unless the domain has one that is as good.
// Where it would take devices further from each other than they are a finer layout is made, and
// where auto's does not fit a coarser one. Where none fits it returns what the chosen one violates.
func placeAll(s start) (chosen proposal, placed placing, violations []reasons.Finding) {
	chosen = choose(s)
	placed, violations = attempt(s, chosen)
	isUnclear := len(s.Domain.CommandLine.Unclear) > 0 // then no other layout can be built either
	if len(violations) > 0 && !isUnclear {
		placed, violations = nextLayout(s, chosen, violations)
	}

	return chosen, placed, violations
}

// withOwnPort lists the placed companions that have a root port of their own; "" for none.
func withOwnPort(decisions []Decision) string {
	var companions []string
	for _, d := range decisions {
		if d.OwnPort && d.Outcome == Placed && !d.NeedsAtomics() {
			companions = append(companions, d.ID.String())
		}
	}

	return words.FirstOf(companions, maxNamed, ", ")
}

// withPorts adds root ports for hotplug where libvirt puts them, else at addresses after all that
// are in use.
func withPorts(s start, placed placing, indexes []int) placing {
	with := func(more []domain.Controller) placing {
		next := placed
		next.changes.AddControllers = slices.Concat(placed.changes.AddControllers, more)
		next.result = s.after(next.changes)
		return next
	}

	next, moved := firstUnmoved(s, func(yield func(placing, []reasons.Finding) bool) {
		if yield(with(bus.RootPorts(indexes)), nil) {
			yield(with(placed.result.LastPorts(indexes)), nil)
		}
	})
	if len(moved) == 0 {
		return next
	}

	text := "no root ports are added for hotplug: " + moved[0].Text
	placed.warnings = append(placed.warnings,
		reasons.NewFinding(reasons.CodeHotplugPortsCapped, nil, text))
	return placed
}

// attempt returns the placing of a proposal, or the rules and budgets that it violates. If libvirt
// would move a device that stays, it tries again with the address that libvirt gives that device
// without the hook: the next call of a boot finds it there, and both have to answer the same.
func attempt(s start, p proposal) (placing, []reasons.Finding) {
	built, violations := attemptOnce(s, p)

	// Fixed addresses free no room, so an exceeded budget is final.
	if len(violations) == 0 || reasons.CodeBudget.IsIn(violations) {
		return built, violations
	}

	if whole, isOpen := s.completed(); isOpen {
		again := propose(whole, p.Layout, p.Why)
		if built, broken := attemptOnce(whole, again); len(broken) == 0 {
			return built, nil
		}
	}

	return placing{}, violations
}

// attemptOnce tries a proposal in the domain of one start.
func attemptOnce(s start, p proposal) (built placing, violations []reasons.Finding) {
	// The current tree stays if it is as good as the one that would be built: a second call then
	// changes nothing, and neither does a call for a tree that the user made.
	if inCells(s, p) && inPorts(s, p) && inPairs(s, p) {
		// Numa leaves some devices unplaced that an earlier call with root has placed: they count as
		// placed. If that tree breaks a rule, no earlier call has built it, and only what numa
		// itself places is judged, if there is anything.
		kept, violations := keep(s, withFiner(s, p, s.current))
		if len(violations) > 0 && len(p.managed) > 0 {
			kept, violations = keep(s, p)
		}

		if len(violations) == 0 || len(p.managed) == 0 {
			return kept, violations
		}
	}

	// From here on the tree is rebuilt, and what the command line puts into it has to be known.
	if violations := unclearArguments(s.Domain); len(violations) > 0 {
		return placing{}, violations
	}

	// A tree is refused where it takes two devices further apart than they are without the hook.
	if violations := comparePairs(s, p); len(violations) > 0 {
		return placing{}, violations
	}

	// A number of ports that a user asks for gives way to the devices, the one
	// that KubeVirt would keep does not.
	_, violations = fit(s.ports, s.ports.KubeVirt,
		func(ports bus.Ports) (violations []reasons.Finding) {
			built, violations = build(s, p, ports)
			return violations
		})
	if len(violations) > 0 {
		return placing{}, violations
	}

	// From here on the tree stays as it is. The next call will count the ports that it has room for,
	// which may be more than its numbers were chosen for, and find other reasons. So this call does.
	// Nothing is violated: build has checked the tree.
	if built.ports != s.ports {
		built.ports, _ = portsBeside(s, built.managed, built.result.Settled())
	}

	built = withReferenced(built)
	built.warnings = compareStaying(s, built.decisions, built.result)
	return withAligned(s, built), nil
}

// withAligned returns a placing of numa as the next call finds it: devices without a place in numa
// that are where root has them are kept, and their ports closed, as long as that violates no rule.
func withAligned(s start, built placing) placing {
	if !built.Layout.IsPerCell() {
		return built
	}

	g := built.result.Settled()
	finer := withFiner(s, built.proposal, g)
	isMore := len(finer.managed) > len(built.managed)

	// The next call would keep these devices only in a tree that it may keep.
	if isMore && len(g.Check(finer.managed, built.ports)) > 0 {
		return built
	}

	decisions := slices.Clone(built.decisions)
	for i, d := range withOutcome(finer.decisions, Kept, reasons.AlreadyAligned) {
		if decisions[i].Outcome != Placed {
			decisions[i] = d
		}
	}

	built.decisions = decisions
	if !isMore {
		return built
	}

	// It would close their ports, too. That is done now.
	rep := replacementFor(s, finer, built.ports)
	rep.Current = g
	built.changes.HotplugOff = append(built.changes.HotplugOff, number.PortsToClose(rep)...)
	built.result = s.after(built.changes)
	return built
}

// keep keeps the current tree, whoever built it: every device is in its cell, and every pair has
// the host's path type or the one that the layout gives. It returns the rules and budgets that the
// tree violates. Without managed devices it does not check unmanaged expander buses.
func keep(s start, p proposal) (placing, []reasons.Finding) {
	kept := placing{proposal: p, changes: s.base, ports: s.ports}
	// Here fewer ports may be left than KubeVirt would keep: a tree that is there is not torn down for
	// them.
	if len(kept.managed) > 0 {
		fits, violations := portsBeside(s, kept.managed, s.current)
		if len(violations) > 0 {
			return placing{}, violations
		}

		kept.ports = fits
	}

	kept.changes.HotplugOff = number.PortsToClose(replacementFor(s, kept.proposal, kept.ports))
	kept.decisions = withOutcome(kept.decisions, Kept, reasons.AlreadyAligned)
	kept.result = s.after(kept.changes)
	return withReferenced(kept), nil
}

// portsBeside returns how many root ports can be reserved for hotplug beside a tree that is there,
// or the rules and budgets that it violates even without any.
func portsBeside(
	s start, managed bus.Devices, tree bus.Guest,
) (bus.Ports, []reasons.Finding) {
	return fit(s.ports, 0, func(ports bus.Ports) []reasons.Finding {
		return tree.Check(managed, ports)
	})
}

// unchanged leaves every device and controller where it is.
func unchanged(s start) placing {
	return placing{
		proposal: propose(s, policy.LayoutKeep, ""), changes: s.base, result: s.after(s.base),
		ports: s.ports,
	}
}

// build replaces the managed controllers by the tree that is wanted, by the first plan that violates
// nothing, or returns the rules and budgets that it violates.
func build(s start, p proposal, ports bus.Ports) (placing, []reasons.Finding) {
	return firstUnmoved(s, func(yield func(placing, []reasons.Finding) bool) {
		for rep := range plans(s, replacementFor(s, p, ports)) {
			next, broken := buildWith(s, p, rep)
			if !yield(next, broken) || reasons.CodeBudget.IsIn(broken) {
				return // another plan does not need less
			}
		}
	})
}

// firstUnmoved returns the first candidate without faults by which libvirt 11 and 12 leave
// everything else where it is; if all have faults, the one with the lightest. If none leaves
// everything where it is, it returns what the first violates.
func firstUnmoved(
	s start, candidates iter.Seq2[placing, []reasons.Finding],
) (best placing, violations []reasons.Finding) {
	isFound := false
	for next, broken := range candidates {
		// Only a tree that breaks no rule is simulated, since the simulation takes the most time.
		if len(broken) == 0 {
			broken = checkUnmoved(s.without, next.result)
		}

		if len(broken) == 0 {
			broken = checkBeside(s, next)
		}

		if len(broken) > 0 {
			if violations == nil {
				violations = broken // of the first plan, which is the plainest
			}
			continue
		}

		// It breaks no rule. Faults are what may still be wrong: with libvirt 9.0, and of bus numbers.
		// Later candidates are tried for one without, and the first of equals is taken.
		next.faults = faultsOf(s.without, next.result, unaddressed(next.decisions))
		if !isFound || next.faults.isLess(best.faults) {
			best, isFound = next, true
		}

		if best.faults.areNone() {
			break
		}
	}

	if isFound {
		return best, nil
	}

	return placing{}, violations
}

// unaddressed returns the hostdevs without an address that are not placed: libvirt chooses their
// ports.
func unaddressed(decisions []Decision) (ids []topology.DeviceID) {
	for _, d := range decisions {
		if d.Outcome != Placed && !d.Added && d.current == nil {
			ids = append(ids, d.ID)
		}
	}

	return ids
}

// plans yields a layout with each plan, for each version whose addresses may differ.
func plans(s start, rep number.Replacement) iter.Seq[number.Replacement] {
	versions := []alloc.Version{s.current.Libvirt.Version}
	for _, w := range s.without {
		if !slices.Contains(versions, w.libvirt.Version) {
			versions = append(versions, w.libvirt.Version)
		}
	}

	return func(yield func(number.Replacement) bool) {
		for _, rep.Version = range versions {
			for _, rep.Plan = range number.Plans {
				if !yield(rep) {
					return
				}
			}
		}
	}
}

// buildWith builds the proposal with one plan.
func buildWith(s start, p proposal, rep number.Replacement) (placing, []reasons.Finding) {
	numbers, violations := number.Assign(rep)
	if len(violations) > 0 {
		return placing{}, violations
	}

	changes := changesFor(s, p.decisions, numbers)
	result := s.after(changes)
	return placing{
		proposal: p, changes: changes, result: result, ports: rep.Ports,
	}, result.Settled().Check(p.managed, rep.Ports)
}

// replacementFor returns what number needs to replace controllers by the tree of a proposal. Where
// every hostdev comes from an SR-IOV network KubeVirt detaches them before a migration, so their
// ports have to stay hotpluggable.
func replacementFor(s start, p proposal, ports bus.Ports) number.Replacement {
	rep := number.Replacement{Current: s.current, Wanted: p.wanted, Managed: p.managed, Ports: ports}
	// In the domain's order, in which libvirt plugs in those without an address.
	for _, d := range inOrder(slices.Concat(s.Domain.Hostdevs, s.base.AddHostdevs), p.decisions) {
		rep.HotplugOff = rep.HotplugOff || !strings.HasPrefix(d.Alias, request.SRIOVAlias)
		if d.Outcome != Placed {
			rep.Unplaced = append(rep.Unplaced, domain.Hostdev{
				ID: d.ID, Address: d.current, Unassigned: d.unassigned,
			})
		}
	}

	return rep
}

// changesFor returns the edits that replace the vacated controllers by the numbered layout and put
// its devices there. A device that stays where libvirt plugs it in, since something names that place,
// gets the address now: where others leave free ports before it, libvirt would take one of these.
func changesFor(s start, decisions []Decision, n number.Numbers) domain.Changes {
	changes := s.base
	changes.AddHostdevs = slices.Clone(s.base.AddHostdevs)
	changes.RemoveControllers = n.Removed
	isRemoved := func(c domain.Controller) bool { return slices.Contains(n.Removed, c.Index) }
	changes.AddControllers = slices.Concat(
		slices.DeleteFunc(slices.Clone(s.base.AddControllers), isRemoved), n.Controllers)
	changes.Place = map[topology.DeviceID]*domain.GuestAddress{}
	for _, d := range decisions {
		address, placed := n.Addresses[d.ID]
		switch {
		case placed && d.Added:
			added := slices.IndexFunc(changes.AddHostdevs, func(h domain.Hostdev) bool {
				return h.ID == d.ID
			})
			changes.AddHostdevs[added].Address = &address

		case placed:
			changes.Place[d.ID] = &address
		case d.Reason == reasons.Referenced:
			if at := s.pluggedIn(d.PassthroughDevice); at != nil {
				changes.Place[d.ID] = at
			}
		}
	}

	return changes
}

// nextLayout returns the next layout that fits where p does not: a finer one where p takes placed
// devices further apart, else with auto a coarser one, with a warning. Where none fits it returns
// the violations of p.
func nextLayout(s start, p proposal, violations []reasons.Finding) (placing, []reasons.Finding) {
	layouts := policy.TreeLayouts()
	at := slices.Index(layouts, p.Layout)
	isFiner := violations[0].Code == reasons.CodeFurtherApart

	var others []policy.Layout
	var why string
	switch {
	case isFiner:
		others = layouts[at+1:]
		why = fmt.Sprintf("%s would take devices further from each other than they are", p.Layout)

	case s.Policy.Layout == policy.LayoutAuto:
		others = layouts[:at]
		why = fmt.Sprintf("%s does not fit: %s", p.Layout, violations[0].Text)
		slices.Reverse(others)

	default:
		return placing{}, violations
	}

	// Layouts that build the same tree on this host are tried once.
	distinct := layoutsFor(s.hostPlaces)
	for _, layout := range others {
		if !slices.Contains(distinct, layout) {
			continue
		}

		placed, tooMuch := attempt(s, propose(s, layout, why))
		if len(tooMuch) > 0 {
			continue
		}

		if !isFiner {
			placed.warnings = append(placed.warnings,
				reasons.NewFinding(reasons.CodeCoarserLayout, nil,
					fmt.Sprintf("%s is built, since %s", layout, why)))
		}

		return placed, nil
	}

	return placing{}, violations
}

// giveUp leaves every device where it is.
func giveUp(s start, p proposal, violations []reasons.Finding) placing {
	reason := reasons.BrokenRule
	if reasons.CodeBudget.IsIn(violations) {
		reason = reasons.Budget
	}

	p.decisions = withOutcome(p.decisions, Unplaced, reason)
	return withReferenced(placing{
		proposal: p, changes: s.base, result: s.after(s.base), ports: s.ports,
		warnings: violations,
	})
}

// withReferenced returns a placing as the next call finds it. Libvirt may plug a device that gets
// no address here into a port of the root bus, or under an expander bus, that something in the
// domain names. The next call keeps such a device for that reason, so this one does.
func withReferenced(built placing) placing {
	if len(built.result.References) == 0 {
		return built
	}

	whole, isAccepted := built.result.Completed()
	if !isAccepted {
		return built
	}

	// In the completed guest every device has an address, also one that libvirt will plug in.
	isReferred := bus.New(whole, built.result.Libvirt).Referred()
	built.decisions = slices.Clone(built.decisions)
	for i, d := range built.decisions {
		isOpen := d.current == nil && !d.unassigned &&
			(d.Outcome == Unplaced || d.Reason == reasons.AlreadyAligned)
		if isOpen && isReferred(whole.Hostdev(d.ID).Address) {
			built.decisions[i].Cell = nil
			built.decisions[i].Outcome, built.decisions[i].Reason = Kept, reasons.Referenced
		}
	}

	return built
}

// withOutcome returns the decisions, with another outcome for devices that were placed.
func withOutcome(decisions []Decision, outcome Outcome, reason reasons.Reason) []Decision {
	next := slices.Clone(decisions)
	for i, d := range next {
		if d.Outcome == Placed {
			next[i].Outcome, next[i].Reason = outcome, reason
		}
	}

	return next
}
