package placement

import (
	"slices"

	"hook-sidecar/pkg/policy"
)

// isAligned reports whether a domain needs no other tree, whoever built the one
// that it has: every device is in its cell, every pair has the host's path type
// or the one that the layout gives, and no rule is violated; and with how many
// root ports reserved. Where the layout wants nothing and nothing is there, what
// others built is not checked.
func isAligned(s start, p proposal) (portCount, bool) {
	managed := managedOf(p.decisions)
	if len(p.wanted.Roots) == 0 && len(s.current.managedTrees(managed)) == 0 {
		return s.ports, true
	}
	if !inCells(s, p) || !inPairs(s, p) {
		return s.ports, false
	}
	_, fits, violations := fit(s.ports, 0, func(ports portCount) (guest, []violation) { return s.current, check(s.current, managed, ports) })
	return fits, len(violations) == 0
}

// inCells reports whether every device that may move is under an expander bus of
// its cell. What numa leaves on the root bus may be where root would place it.
func inCells(s start, p proposal) bool {
	var finer []Decision // of root, which are mirror's too
	for i, d := range p.decisions {
		expander := s.current.expander(d.current)
		if d.Outcome != Placed && expander != nil {
			if finer == nil {
				finer = decide(s, policy.LayoutRoot)
			}
			d = finer[i]
		}
		isUnder := expander != nil && compareCells(cellOf(expander), d.Cell) == 0
		if d.movable && isUnder != (d.Outcome == Placed) {
			return false
		}
	}
	return true
}

// inPairs reports whether every pair of devices that may move has the path type
// of the host, or the one that the layout gives.
func inPairs(s start, p proposal) bool {
	movable := slices.DeleteFunc(slices.Clone(p.decisions), func(d Decision) bool { return !d.movable })
	for i, x := range movable {
		for _, y := range movable[:i] {
			current := s.current.tree.PathType(x.ID, y.ID)
			if current != p.pathType(x, y) && current != s.hostTree.PathType(x.ID, y.ID) {
				return false
			}
		}
	}
	return true
}

// separates reports whether a placing takes two devices that are under expander
// buses further from the host's path type than they are.
func separates(s start, placed placing) bool {
	if len(placed.changes.Place) == 0 {
		return false
	}
	under := slices.DeleteFunc(slices.Clone(s.devices), func(d Device) bool { return s.current.expander(d.current) == nil })
	for i, x := range under {
		for _, y := range under[:i] {
			host := s.hostTree.PathType(x.ID, y.ID)
			if placed.result.tree.PathType(x.ID, y.ID).Steps(host) > s.current.tree.PathType(x.ID, y.ID).Steps(host) {
				return true
			}
		}
	}
	return false
}
