package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
)

// place makes the tree that the layout wants, unless it stands already. Where
// it does not fit, nothing is moved and each device says so.
func (b *builder) place() {
	wanted := b.layOut()
	if !b.hasMovable() {
		return
	}
	if b.isAligned(wanted) {
		b.changes.HotplugOff = b.lostHotplugOff()
		for _, d := range b.devices {
			if d.Outcome == Placed {
				d.Outcome, d.Reason = Kept, ReasonAlreadyAligned
			}
		}
		return
	}
	changes, err := b.build(wanted)
	if err == nil {
		err = firstOf(b.violations(after(b.Domain, changes)))
	}
	if err != nil {
		b.giveUp(err)
		return
	}
	b.changes = changes
}

// giveUp leaves every device where it is, for want of room.
func (b *builder) giveUp(err error) {
	b.warn(CodeBudget, nil, err.Error())
	for _, d := range b.devices {
		if d.Outcome == Placed {
			d.Outcome, d.Reason, d.Cell = Unplaced, ReasonBudget, nil
		}
	}
}

func firstOf(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}

func (b *builder) hasMovable() bool {
	return slices.ContainsFunc(b.devices, func(d *device) bool { return d.movable })
}

// build is the changes that replace what stands below expander buses of ours by
// the tree that is wanted.
func (b *builder) build(wanted []expander) (domain.Changes, error) {
	changes := b.changes
	changes.AddHostdevs = slices.Clone(b.changes.AddHostdevs)
	changes.RemoveControllers = b.vacated()
	changes.Place = map[int]*domain.GuestAddress{}
	numbers := b.number(changes.RemoveControllers)
	for _, d := range b.devices {
		if d.movable && d.Outcome != Placed && d.hostdev >= 0 && d.Address != nil && b.tree.expander(d.Address.Bus) != nil {
			changes.Place[d.hostdev] = nil
		}
	}
	if err := numbers.assign(wanted); err != nil {
		return changes, err
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
// movable devices are gone, expander buses with all that is below them.
func (b *builder) vacated() []int {
	labels := b.labels()
	var positions []int
	for i, c := range b.Domain.Controllers {
		top := b.tree.expander(c.Index)
		if top == nil || b.tree.isReferenced(top.Index) {
			continue
		}
		ours := b.holds(top.Index, labels, isMovable) || !b.holds(top.Index, labels, isForeign)
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
