package placement

import (
	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/policy"
)

// isAligned reports whether a domain needs no other tree, whoever built the one
// that it has: every device is in its cell, every pair has the host's path type
// or the one that the layout gives, and no rule is violated; and with how many
// root ports reserved. Where the layout wants nothing and nothing is there, what
// others built is not checked.
func isAligned(s start, p proposal) (bus.Ports, bool) {
	if len(p.wanted.Roots) == 0 && len(s.current.Managed(p.managed)) == 0 {
		return s.ports, true
	}
	if !inCells(s, p) || !inPairs(s, p) {
		return s.ports, false
	}
	fits, violations := fit(s.ports, 0, func(ports bus.Ports) []bus.Violation { return s.current.Check(p.managed, ports) })
	return fits, len(violations) == 0
}

// inCells reports whether every device that may move is under an expander bus of
// its cell. What numa leaves on the root bus may be where root would place it.
func inCells(s start, p proposal) bool {
	var byRoot []Decision // of layout root, which are mirror's too
	for i, d := range p.decisions {
		expander := s.current.Expander(d.current)
		if d.Outcome != Placed && expander != nil {
			if byRoot == nil {
				byRoot = decide(s, policy.LayoutRoot)
			}
			d = byRoot[i]
		}
		isUnder := expander != nil && compareCells(bus.CellOf(expander), d.Cell) == 0
		if d.movable && isUnder != (d.Outcome == Placed) {
			return false
		}
	}
	return true
}

// inPairs reports whether every pair of devices that may move has the path type
// of the host, or the one that the layout gives.
func inPairs(s start, p proposal) bool {
	current := s.current.Tree.Devices(s.ids)
	for i := range current {
		for j := range i {
			if !p.decisions[i].movable || !p.decisions[j].movable {
				continue
			}
			now := current[i].PathType(current[j])
			if now != p.pathType(i, j) && now != s.hostPlaces[i].PathType(s.hostPlaces[j]) {
				return false
			}
		}
	}
	return true
}

// worsens reports whether changes take two devices that are under expander buses
// further from the host's path type than they are.
func worsens(s start, changes domain.Changes, result bus.Guest) bool {
	if len(changes.Place) == 0 {
		return false
	}
	current, next := s.current.Tree.Devices(s.ids), result.Tree.Devices(s.ids)
	isUnder := func(i int) bool { return s.current.Expander(s.devices[i].current) != nil }
	for i := range current {
		for j := range i {
			if !isUnder(i) || !isUnder(j) {
				continue
			}
			want := s.hostPlaces[i].PathType(s.hostPlaces[j])
			if next[i].PathType(next[j]).Steps(want) > current[i].PathType(current[j]).Steps(want) {
				return true
			}
		}
	}
	return false
}
