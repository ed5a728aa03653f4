package keys

import (
	"slices"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/topology"
)

// hostLinks finds for the ports of a guest the links of the host that they stand for.
type hostLinks struct{ plan *placement.Plan }

// paths returns the paths on the host to the passthrough devices under a node of the guest.
func (h hostLinks) paths(n *topology.Node) [][]*topology.Node {
	var paths [][]*topology.Node
	for e := range n.Endpoints() {
		if id, isPassedThrough := e.ID.(topology.DeviceID); isPassedThrough {
			paths = append(paths, h.plan.HostTree.Node(id).Path())
		}
	}

	return paths
}

// addLinks adds the links of the ports of a switch and of all switches under it, and returns the
// link of its upstream port; the zero Link if the host has none. The first above nodes of each
// host path lead to the switch above this one.
func (h hostLinks) addLinks(
	upstream *topology.Node, above int, links map[*topology.Node]topology.Link,
) topology.Link {
	paths := h.paths(upstream)
	common := topology.Shared(paths...)
	above = min(above, len(common))
	if last := lastSwitch(common); last >= above {
		common = common[:last+1] // also above a single device
	}

	uplink := h.plan.Host.SlowestLink(common[above:])
	hasOwnLink := slices.ContainsFunc(common[above:], func(n *topology.Node) bool {
		return h.plan.Host.LowerEnd(n) != nil
	})

	if len(common) > 1 && !hasOwnLink {
		// Virtual functions of one device, or vGPUs, under a switch that the host does not have.
		uplink = h.plan.Host.SlowestLink(paths[0][len(common):])
	}

	links[upstream] = uplink

	for _, port := range upstream.Children {
		if port.Kind == topology.DownstreamPort {
			links[port] = h.downstreamLink(port, len(common), uplink, links)
		}
	}

	return uplink
}

// lastSwitch returns the position of the innermost switch in a path, -1 without one.
func lastSwitch(path []*topology.Node) int {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].Kind.IsSwitch() {
			return i
		}
	}
	return -1
}

// downstreamLink returns the link of a switch's downstream port: of the switch under it, or of the
// device. One without a passthrough device has the uplink's.
func (h hostLinks) downstreamLink(
	port *topology.Node, above int, uplink topology.Link, links map[*topology.Node]topology.Link,
) topology.Link {
	paths := h.paths(port)
	if len(paths) == 0 {
		return uplink
	}

	for _, child := range port.Children {
		if child.Kind == topology.UpstreamPort {
			return h.addLinks(child, above, links)
		}
	}

	if own := h.plan.Host.SlowestLink(paths[0][min(above,
		len(paths[0])):]); own != (topology.Link{}) {
		return own
	}

	return uplink // parts of one device
}
