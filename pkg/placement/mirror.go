package placement

import (
	"slices"

	"hook-sidecar/pkg/topology"
)

// mirror adds root ports and switches under an expander bus as the host has
// them above the slots. A switch is left out only where no path type changes:
// where it has a single slot under its root port, and where its only child is a
// switch.
func (b wantedTree) mirror(expander *topology.Node, host *topology.Tree, slots []slot) {
	byLead := map[topology.ID]slot{}
	var leads []topology.DeviceID
	for _, s := range slots {
		byLead[s[0].ID] = s
		leads = append(leads, s[0].ID)
	}
	for _, nodes := range hostPorts(host.Only(leads)) {
		if devices := devicesUnder(nodes); len(devices) == 1 {
			b.port(expander, topology.RootPort, byLead[devices[0].ID])
			continue
		}
		b.mirrorSwitch(b.controller(expander, topology.RootPort), nodes, byLead)
	}
}

// mirrorSwitch adds to a port the switch that all devices under nodes of the
// host have in common.
func (b wantedTree) mirrorSwitch(port *topology.Node, nodes []*topology.Node, byLead map[topology.ID]slot) {
	parts := switchParts(nodes)
	for len(parts) == 1 && parts[0].Kind.IsSwitch() {
		parts = switchParts(parts[0].Children)
	}
	upstream := b.controller(port, topology.UpstreamPort)
	devices := slices.DeleteFunc(slices.Clone(parts), func(n *topology.Node) bool { return n.Kind.IsSwitch() })
	for _, part := range parts {
		switch {
		case part.Kind.IsSwitch():
			b.mirrorSwitch(b.controller(upstream, topology.DownstreamPort), part.Children, byLead)
		case part == devices[0]: // all come where the first does
			for _, d := range devices {
				b.port(upstream, topology.DownstreamPort, byLead[d.ID])
			}
		}
	}
}

// hostPorts are the nodes under each port of the host's roots. A device directly
// on a root counts as one port, with all its functions.
func hostPorts(host *topology.Tree) [][]*topology.Node {
	var ports [][]*topology.Node
	for _, top := range host.Roots {
		integrated := map[int]int{} // positions in ports, by slot
		for _, n := range top.Children {
			if n.Kind.IsPort() {
				ports = append(ports, n.Children)
				continue
			}
			at, known := integrated[n.Slot]
			if !known {
				at, integrated[n.Slot] = len(ports), len(ports)
				ports = append(ports, nil)
			}
			ports[at] = append(ports[at], n)
		}
		if top.Kind == topology.Endpoint {
			ports = append(ports, []*topology.Node{top})
		}
	}
	return ports
}

// devicesUnder are the devices at nodes and under them.
func devicesUnder(nodes []*topology.Node) []*topology.Node {
	var devices []*topology.Node
	for _, n := range nodes {
		devices = slices.AppendSeq(devices, n.Endpoints())
	}
	return devices
}

// switchParts are the devices and the switches that a switch leads to, without
// another switch between.
func switchParts(nodes []*topology.Node) []*topology.Node {
	var parts []*topology.Node
	for _, n := range nodes {
		if n.Kind == topology.Endpoint || n.Kind.IsSwitch() {
			parts = append(parts, n)
			continue
		}
		parts = append(parts, switchParts(n.Children)...)
	}
	return parts
}
