package placement

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// inPorts reports whether every placed device that needs a root port of its own has one.
func inPorts(s start, p proposal) bool {
	return !slices.ContainsFunc(p.decisions, func(d Decision) bool {
		return d.Outcome == Placed && !inPort(s, d, s.current)
	})
}

// inPort reports whether a device is alone on a root port of a guest, if it needs that.
func inPort(s start, d Decision, g bus.Guest) bool {
	mayShare := !d.OwnPort || s.companionsShare && !d.NeedsAtomics()
	return mayShare || HasAtomics(g.Tree.Node(d.ID), d.current)
}

// HasAtomics reports whether QEMU lets the root port above a device complete PCIe AtomicOps, by its
// node in the guest's tree and its address there (hw/vfio/pci.c, vfio_pci_enable_rp_atomics). The
// host may still refuse them.
func HasAtomics(n *topology.Node, address *domain.GuestAddress) bool {
	return n != nil && n.Parent != nil && n.Parent.Kind == topology.RootPort &&
		len(n.Parent.Children) == 1 && n.Slot <= 0 && n.Function == 0 &&
		(address == nil || !address.Multifunction)
}

// inCells reports whether every placed device is in its cell.
func inCells(s start, p proposal) bool {
	return !slices.ContainsFunc(p.decisions, func(d Decision) bool {
		return d.Outcome == Placed && !inCell(s, d)
	})
}

// inCell reports whether a device is under an expander bus of its cell.
func inCell(s start, d Decision) bool {
	expander := s.current.Expander(d.current)
	return expander != nil && compareCells(bus.CellOf(expander), d.Cell) == 0
}

// withFiner returns a proposal of numa in which devices without a place in numa count as placed if
// they are in a guest where root has them: an earlier call of the boot built that, or the user did.
func withFiner(s start, p proposal, g bus.Guest) proposal {
	if !p.Layout.IsPerCell() {
		return p
	}

	p.decisions = slices.Clone(p.decisions)
	for i, d := range decide(s, policy.LayoutRoot) {
		switch {
		case p.decisions[i].Outcome != Unplaced || d.Outcome == Unplaced || d.Added:
			continue
		case d.Outcome == Kept: // function 0 of a device that stays
			p.decisions[i] = d
			continue
		}

		// The guest may know where libvirt plugs it in, though the domain does not.
		there := d
		there.current = g.Hostdev(d.ID).Address
		expander := g.Expander(there.current)
		if expander != nil && compareCells(bus.CellOf(expander), d.Cell) == 0 && inPort(s, there, g) {
			p.decisions[i] = d
		}
	}

	p.managed = managedOf(p.decisions)
	return p
}

// inPairs reports whether every pair of placed devices has the path type
// of the host, or the one that the layout gives.
func inPairs(s start, p proposal) bool {
	current := s.current.Tree.Devices(s.ids)
	for i := range current {
		for j := range i {
			if p.decisions[i].Outcome != Placed || p.decisions[j].Outcome != Placed {
				continue
			}

			// The host's type is as good as the layout's: a user's own tree may be nearer to the host
			// than numa or root would be.
			now := current[i].PathType(current[j])
			if now != p.pathType(i, j) && now != s.hostPlaces[i].PathType(s.hostPlaces[j]) {
				return false
			}
		}
	}

	return true
}

// pair is two devices with their path types. Decisions are pointers, since with 64 devices 4096
// copies would take 3% of a call.
type pair struct {
	x, y                *Decision
	host, without, with topology.PathType // on the host, without the hook and with it
}

// isFurther reports whether the hook takes the two further from the host's path type.
func (p pair) isFurther() bool { return p.with.Steps(p.host) > p.without.Steps(p.host) }

// isByCells reports whether the guest's cells decide the path type: devices in two cells are SYS,
// though under one PCIe root of the host; devices in one cell are not, though on two nodes.
func (p pair) isByCells() bool {
	inOneCell := compareCells(p.x.Cell, p.y.Cell) == 0
	return inOneCell == (p.without == topology.SYS)
}

// isByAtomics reports whether AtomicOps decide the path type: a device that has a root port of its
// own shares no switch and no slot.
func (p pair) isByAtomics() bool { return p.x.OwnPort || p.y.OwnPort }

// comparePairs rejects a proposal in which two placed devices are further from the host's path type
// than without the hook, unless their cells or AtomicOps decide. It needs no result: whether one
// fits changes with the ports of later calls, and all calls of a boot have to take the same layout.
func comparePairs(s start, p proposal) (violations []reasons.Finding) {
	current := s.current.Tree.Devices(s.ids)
	for i := range p.decisions {
		for j := range i { // each pair once
			x, y := &p.decisions[i], &p.decisions[j]
			if x.Outcome != Placed || y.Outcome != Placed || !x.isCompared() || !y.isCompared() {
				continue
			}

			found := pair{
				x: x, y: y,
				host:    s.hostPlaces[i].PathType(s.hostPlaces[j]),
				without: current[i].PathType(current[j]),
				with:    p.pathType(i, j),
			}

			// One such pair is enough: a finer layout comes next, and the text needs an example.
			if found.isFurther() && !found.isByCells() && !found.isByAtomics() {
				return []reasons.Finding{furtherApart(found)}
			}
		}
	}

	return nil
}

// isCompared reports whether pairs of a device are compared: not if the host does not show it, or
// it is added or hidden from the guest.
func (d *Decision) isCompared() bool { return d.Function != nil && !d.Added && !d.unassigned }

// compareStaying warns of each device that stays and is further from others than without the hook.
func compareStaying(
	s start, decisions []Decision, result bus.Guest,
) (warnings []reasons.Finding) {
	current, next := s.current.Tree.Devices(s.ids), result.Settled().Tree.Devices(s.ids)
	for i := range decisions {
		x := &decisions[i]
		if x.Outcome == Placed || !x.isCompared() {
			continue
		}

		// Against all others and not only those before it: the warning is about x alone.
		var others []string
		for j := range decisions {
			y := &decisions[j]
			p := pair{
				x: x, y: y,
				host:    s.hostPlaces[i].PathType(s.hostPlaces[j]),
				without: current[i].PathType(current[j]),
				with:    next[i].PathType(next[j]),
			}

			if y.isCompared() && p.isFurther() {
				others = append(others, fmt.Sprintf(
					"%s (%s on the host, %s without the hook, %s with it)", y.ID, p.host, p.without,
					p.with))
			}
		}

		if len(others) > 0 {
			text := fmt.Sprintf("%s stays: %s, and is further than without the hook from %s", x.ID,
				x.Reason, strings.Join(others, ", "))
			warnings = append(warnings, reasons.NewFinding(reasons.CodeFurtherApart, &x.ID, text))
		}
	}

	return warnings
}

// furtherApart returns the violation of two placed devices.
func furtherApart(p pair) reasons.Finding {
	return reasons.NewFinding(reasons.CodeFurtherApart, nil,
		fmt.Sprintf("%s and %s are %s on the host and would go from %s to %s", p.x.ID, p.y.ID,
			p.host, p.without, p.with))
}
