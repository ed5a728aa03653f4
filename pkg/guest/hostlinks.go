package guest

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

// shared returns the part from the root on that all paths have in common.
func shared(paths [][]*topology.Node) []*topology.Node {
	common := paths[0]
	for _, path := range paths[1:] {
		n := 0
		for n < min(len(common), len(path)) && common[n] == path[n] {
			n++
		}
		common = common[:n]
	}

	return common
}

// slowest returns the least speed and the least width of the links on a part of a path, each of
// which has its lower end there; the zero Link where none is known. A guest's link may stand for
// several of the host: mirror leaves out switches that change no path type.
func (h hostLinks) slowest(path []*topology.Node) topology.Link {
	var slowest topology.Link
	for _, n := range path {
		link := h.plan.Host.BestLink(h.lowerEnd(n))
		switch {
		case link == nil:
		case slowest == topology.Link{}:
			slowest = *link
		default:
			slowest = topology.Link{
				Speed: min(slowest.Speed, link.Speed), Width: min(slowest.Width, link.Width),
			}
		}
	}

	return slowest
}

// lowerEnd returns the function of the host at the lower end of a link, nil for a node that is
// none.
func (h hostLinks) lowerEnd(n *topology.Node) *topology.Device {
	switch n.Kind {
	case topology.UpstreamPort, topology.Bridge, topology.MDEVParent:
		return h.plan.Host.Device(n.ID.(topology.Address))
	case topology.Endpoint:
		if id := n.ID.(topology.DeviceID); id.Kind() == topology.KindPCI {
			return h.plan.Host.Function(id)
		}
	}

	return nil
}

// ofSwitch adds the links of the ports of a switch and of all switches under it, and returns that
// of its upstream port; the zero Link where the host has none. Of the host's paths the first
// nodes, as many as above says, lead to the switch above this one.
func (h hostLinks) ofSwitch(
	upstream *topology.Node, above int, links map[*topology.Node]topology.Link,
) topology.Link {
	paths := h.paths(upstream)
	common := shared(paths)
	above = min(above, len(common))
	if last := lastSwitch(common); last >= above {
		common = common[:last+1] // also above a single device
	}

	uplink := h.slowest(common[above:])
	hasOwnLink := slices.ContainsFunc(common[above:], func(n *topology.Node) bool {
		return h.lowerEnd(n) != nil
	})

	if len(common) > 1 && !hasOwnLink {
		// Virtual functions of one device, or vGPUs, under a switch that the host does not have.
		uplink = h.slowest(paths[0][len(common):])
	}

	links[upstream] = uplink

	for _, port := range upstream.Children {
		if port.Kind == topology.DownstreamPort {
			links[port] = h.ofDownstream(port, len(common), uplink, links)
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

// ofDownstream returns the link of a switch's downstream port: of the switch under it, or of the
// device. One without a passthrough device has the uplink's.
func (h hostLinks) ofDownstream(
	port *topology.Node, above int, uplink topology.Link, links map[*topology.Node]topology.Link,
) topology.Link {
	paths := h.paths(port)
	if len(paths) == 0 {
		return uplink
	}

	for _, child := range port.Children {
		if child.Kind == topology.UpstreamPort {
			return h.ofSwitch(child, above, links)
		}
	}

	if own := h.slowest(paths[0][min(above, len(paths[0])):]); own != (topology.Link{}) {
		return own
	}

	return uplink // parts of one device
}
