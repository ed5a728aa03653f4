package placement

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// without is the domain as one libvirt completes it without the hook.
type without struct {
	libvirt alloc.Libvirt
	guest   libvirt.Guest
}

// withoutHook returns what each libvirt makes of the guest as it came; none where it refuses it.
func withoutHook(asIs bus.Guest) (all []without) {
	for _, m := range asIs.Libvirts() {
		if guest, err := asIs.CompletedBy(m); err == nil {
			all = append(all, without{m, guest})
		}
	}
	return all
}

// checkUnmoved returns the rule that a changed guest violates if libvirt 11 or 12, which
// virt-launcher has, puts a device that must stay elsewhere than without the hook, or refuses the
// domain.
func checkUnmoved(all []without, changed bus.Guest) []reasons.Finding {
	for _, w := range all {
		if w.libvirt.Version == alloc.Libvirt9 {
			continue
		}

		switch moves, err := w.moves(changed); {
		case err != nil:
			return []reasons.Finding{
				bus.Violated("libvirt %s would refuse the domain: %v", w.libvirt.Name, err),
			}
		case len(moves) > 0:
			return []reasons.Finding{
				bus.Violated("libvirt %s would move %s", w.libvirt.Name, moves[0]),
			}
		}
	}

	return nil
}

// faults are those of a result that violates no rule. Where indexes are missing, and beside ports
// and expander buses of the user, they cannot always be helped: warnings name them.
type faults struct {
	moved      []string // what libvirt 9.0 does with devices that must stay
	replugged  bool     // a hostdev without an address that stays is in another port
	renumbered []string // devices that must stay, with their bus numbers
}

// faultsOf returns the faults of a changed guest. Staying are the hostdevs without an address
// that are not placed.
func faultsOf(all []without, changed bus.Guest, staying []topology.DeviceID) (f faults) {
	for _, w := range all {
		// The warning names what the first libvirt renumbers that renumbers anything.
		if len(f.renumbered) == 0 {
			f.renumbered = w.renumbers(changed)
		}

		if w.libvirt.Version != alloc.Libvirt9 {
			continue
		}

		moves, err := w.moves(changed)
		for _, m := range moves {
			f.moved = append(f.moved, "would move "+m.String())
		}

		if err != nil {
			f.moved = append(f.moved, fmt.Sprintf("would refuse the domain: %v", err))
		}
	}

	// No rule says where a hostdev without an address is placed: libvirts differ. So only the first
	// counts: the plan is made for it.
	if len(all) > 0 {
		f.replugged = all[0].replugs(changed, staying)
	}

	return f
}

// isLess reports whether faults are lighter than others.
func (f faults) isLess(than faults) bool {
	switch {
	case len(f.moved) != len(than.moved):
		return len(f.moved) < len(than.moved)
	case f.replugged != than.replugged:
		return than.replugged
	}

	return len(f.renumbered) == 0 && len(than.renumbered) > 0
}

// areNone reports whether there is no fault.
func (f faults) areNone() bool { return len(f.moved)+len(f.renumbered) == 0 && !f.replugged }

// warnings names what the faults do to devices that must stay.
func (f faults) warnings() (all []reasons.Finding) {
	if len(f.moved) > 0 {
		all = append(all, reasons.NewFinding(reasons.CodeLibvirt9, nil,
			"libvirt 9.0 "+words.FirstOf(f.moved, maxNamed, ", ")))
	}

	if len(f.renumbered) > 0 {
		all = append(all, reasons.NewFinding(reasons.CodeBusNumber, nil,
			"these stay in place and change their bus number: "+
				words.FirstOf(f.renumbered, maxNamed, ", ")))
	}

	return all
}

// maxNamed is how many devices a warning names.
const maxNamed = 8

// replugs reports whether one of these hostdevs is in another port in a changed
// guest, but for those in ports of the root bus itself.
func (w without) replugs(changed bus.Guest, hostdevs []topology.DeviceID) bool {
	next, err := changed.CompletedBy(w.libvirt)
	return err == nil && alloc.Replugs(w.guest, next, hostdevs)
}

// moves returns what a libvirt moves in a changed guest, of what must stay. The error says why it
// refuses the domain.
func (w without) moves(changed bus.Guest) ([]alloc.Move, error) {
	next, err := changed.CompletedBy(w.libvirt)
	if err != nil {
		return nil, err
	}

	return slices.DeleteFunc(alloc.Moves(w.guest, next), func(m alloc.Move) bool {
		return !bus.MustStay(m.Device)
	}), nil
}

// renumbers returns the devices that must stay and have another bus number in a changed guest.
func (w without) renumbers(changed bus.Guest) []string {
	next, err := changed.CompletedBy(w.libvirt)
	if err != nil {
		return nil
	}

	return topology.Map(alloc.Renumbers(w.guest, next, bus.MustStay), alloc.Renumbered.String)
}
