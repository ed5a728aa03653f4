package placement

import (
	"slices"

	"hook-sidecar/pkg/topology"
)

// mirror arranges the slots of one PCIe root as the host's root ports and
// switches do. A switch is left out only where no path type changes: where it
// has a single slot below its root port, and where its only child is a switch.
func mirror(slots []branch) []branch {
	var ports []branch
	for _, group := range groupBy(slots, hostPort) {
		if len(group) == 1 {
			ports = append(ports, group[0])
			continue
		}
		ports = append(ports, switchOver(group, 0))
	}
	return ports
}

// switchOver is the switch that the slots have in common below the first depth
// switches of their host paths.
func switchOver(slots []branch, depth int) branch {
	var sw branch
	groups := groupBy(slots, func(b branch) topology.Address { return hostSwitch(b, depth) })
	if len(groups) == 1 && hostSwitch(slots[0], depth) != none() {
		return switchOver(slots, depth+1)
	}
	for _, group := range groups {
		switch {
		case hostSwitch(group[0], depth) == none():
			sw.ports = append(sw.ports, group...)
		case len(group) == 1:
			sw.ports = append(sw.ports, branch{ports: group})
		default:
			sw.ports = append(sw.ports, switchOver(group, depth+1))
		}
	}
	return sw
}

// none is an address that no bridge has.
func none() topology.Address { return topology.Address{Function: 0xff} }

// hostPort is the root port above a slot. A device straight on the root complex
// counts as a port of its own, which its functions share.
func hostPort(b branch) topology.Address {
	lead := b.slot[0].device
	if len(lead.HostPath) > 0 {
		return lead.HostPath[0]
	}
	port := lead.Function.Address
	port.Function = 0
	return port
}

// hostSwitch is the upstream port of the switch at a depth of the slot's host
// path, or none. Behind the root port the path alternates between upstream and
// downstream ports; a bridge to conventional PCI counts as a switch.
func hostSwitch(b branch, depth int) topology.Address {
	path := b.slot[0].device.HostPath
	if at := 2*depth + 1; at < len(path) {
		return path[at]
	}
	return none()
}

// groupBy groups branches by key, in the order in which the keys first appear.
func groupBy(branches []branch, key func(branch) topology.Address) [][]branch {
	var keys []topology.Address
	groups := map[topology.Address][]branch{}
	for _, b := range branches {
		k := key(b)
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], b)
	}
	ordered := make([][]branch, len(keys))
	for i, k := range keys {
		ordered[i] = groups[k]
	}
	return ordered
}
