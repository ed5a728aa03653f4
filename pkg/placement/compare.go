package placement

import "hook-sidecar/pkg/topology"

// isAligned reports whether a domain is as the layout wants it, whoever built it
// and whatever the numbers, and violates no rule; and with how many root ports
// reserved. Where the layout wants nothing and nothing is there, what others
// built is not checked.
func isAligned(current guest, wanted *topology.Tree, managed deviceSet, ports portCount) (portCount, bool) {
	if !topology.Equal(current.managedTrees(managed), wanted.Roots) {
		return ports, false
	}
	if len(wanted.Roots) == 0 {
		return ports, true
	}
	_, fits, violations := fit(ports, 0, func(p portCount) (guest, []violation) { return current, check(current, managed, p) })
	return fits, len(violations) == 0
}
