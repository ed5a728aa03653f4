package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/reasons"
)

// place makes the tree that the layout wants, unless it stands already. Where
// it does not fit, nothing is moved and each device says so.
func (b *builder) place() {
	wanted := b.layOut()
	if !b.hasMovable() {
		return
	}
	if b.isAligned(wanted) {
		b.changes.HotplugOff = b.lostHotplugOff(wanted)
		b.keepHotplugPorts()
		for _, d := range b.devices {
			if d.Outcome == Placed {
				d.Outcome, d.Reason = Kept, reasons.AlreadyAligned
			}
		}
		return
	}
	var changes domain.Changes
	// A number of ports that a user asks for gives way to the devices, the one
	// that KubeVirt would keep does not.
	broken := b.fit(b.kubevirtPorts(), func() []breach {
		var short []breach
		if changes, short = b.build(wanted); len(short) > 0 {
			return short
		}
		return b.breaches(after(b.Domain, changes))
	})
	if len(broken) > 0 {
		b.giveUp(broken)
		return
	}
	b.changes = changes
	b.keepHotplugPorts()
}

// giveUp leaves every device where it is.
func (b *builder) giveUp(broken []breach) {
	reason := reasons.BrokenRule
	for _, br := range broken {
		b.warn(br.code, nil, br.text)
		if br.code == reasons.CodeBudget {
			reason = reasons.Budget
		}
	}
	for _, d := range b.devices {
		if d.Outcome == Placed {
			d.Outcome, d.Reason = Unplaced, reason
		}
	}
}

func (b *builder) hasMovable() bool {
	return slices.ContainsFunc(b.devices, func(d *device) bool { return d.movable })
}

// build is the changes that replace what stands below expander buses of ours by
// the tree that is wanted, or the budgets that it exceeds.
func (b *builder) build(wanted []expander) (domain.Changes, []breach) {
	changes := b.changes
	changes.AddHostdevs = slices.Clone(b.changes.AddHostdevs)
	changes.RemoveControllers = b.vacated()
	changes.Place = map[int]*domain.GuestAddress{}
	numbers := b.number(changes.RemoveControllers, wanted)
	for _, d := range b.devices {
		if d.movable && d.Outcome != Placed && d.hostdev >= 0 && d.Address != nil && b.tree.expander(d.Address.Bus) != nil {
			changes.Place[d.hostdev] = nil
		}
	}
	if short := numbers.assign(wanted); len(short) > 0 {
		return changes, short
	}
	changes.AddControllers = numbers.controllers
	for d, address := range numbers.addresses {
		if d.hostdev >= 0 {
			changes.Place[d.hostdev] = &address
			continue
		}
		at := slices.IndexFunc(changes.AddHostdevs, func(h domain.Hostdev) bool { return h.ID == d.ID })
		changes.AddHostdevs[at].Address = &address
	}
	return changes, nil
}

// vacated is the positions of the controllers that hold nothing once the
// movable devices are gone, expander buses with all that is below them. One that
// held nothing before goes only for its free ports, into which libvirt would plug
// a device.
func (b *builder) vacated() []int {
	labels := b.labels()
	var positions []int
	for i, c := range b.Domain.Controllers {
		top := b.tree.expander(c.Index)
		if top == nil || b.tree.isReferenced(top.Index) {
			continue
		}
		ours := b.holds(top.Index, labels, isMovable) ||
			!b.holds(top.Index, labels, isForeign) && len(b.tree.freePorts(top.Index)) > 0
		if ours && !b.holds(c.Index, labels, isForeign) {
			positions = append(positions, i)
		}
	}
	return positions
}

// holds reports whether a device of a kind stands on a bus or below it.
func (b *builder) holds(bus int, labels map[int][]string, kind func(label string) bool) bool {
	return slices.ContainsFunc(append(b.tree.subtree(bus), bus), func(below int) bool {
		return slices.ContainsFunc(labels[below], kind)
	})
}
