package placement

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// layoutsFor returns the layouts that build different trees for devices, by their places on the
// host: without cascaded switches there switch is as mirror.
func layoutsFor(hostPlaces []*topology.Node) []policy.Layout {
	layouts := policy.TreeLayouts()
	for i, x := range hostPlaces {
		for _, y := range hostPlaces[:i] {
			if x.PathType(y) == topology.PXB {
				return layouts
			}
		}
	}

	return slices.DeleteFunc(layouts, func(l policy.Layout) bool {
		return l == policy.LayoutSwitch
	})
}

// layOut returns the tree that a layout wants for the placed devices. Its expander buses are in the
// order in which they are to be made, see orderAsHost.
func layOut(decisions []Decision, host *topology.Tree, layout policy.Layout) *topology.Tree {
	compareExpanders := func(x, y slot) int {
		order := compareCells(x[0].Cell, y[0].Cell)
		if layout.IsPerCell() {
			return order
		}
		return cmp.Or(order, cmp.Compare(x[0].PCIeRoot, y[0].PCIeRoot))
	}

	slots := slotsOf(decisions)
	slices.SortStableFunc(slots, compareExpanders)

	b := wantedTree{topology.NewTree(len(decisions), 0)}
	for first, end := 0, 0; first < len(slots); first = end {
		for end < len(slots) && compareExpanders(slots[first], slots[end]) == 0 {
			end++
		}

		expander := b.expander(slots[first][0].Cell)
		if layout.HasSwitches() {
			b.mirror(expander, host, slots[first:end], layout)
			continue
		}

		for _, s := range slots[first:end] {
			b.port(expander, topology.RootPort, s)
		}
	}

	b.orderAsHost(decisions)
	return b.tree
}

// orderAsHost gives the devices of a guest the order of the host's addresses, which is how CUDA and
// nvidia-smi number GPUs and how NICs are named: under each node, children are in the order of the
// lowest host address under them.
//
// Expander buses come the other way round, the host's last one first. The first that is made gets
// the highest bus numbers, and the guest's kernel finds the last that was made first, since QEMU
// puts each before those that it has (hw/pci-bridge/pci_expander_bridge.c, pxb_register_bus) and
// writes the ACPI tables in that order (hw/i386/acpi-build.c, build_dsdt; booted). So drivers
// find devices in the order of addresses, too, and number /dev/nvidia0 or mlx5_0 by that.
func (b wantedTree) orderAsHost(decisions []Decision) {
	ranks := map[topology.ID]int{}
	for rank, i := range hostOrder(decisions) {
		ranks[decisions[i].ID] = rank
	}

	first := map[*topology.Node]int{} // the lowest rank at a node and under it
	compareFirst := func(x, y *topology.Node) int { return cmp.Compare(first[x], first[y]) }
	var order func(n *topology.Node)
	order = func(n *topology.Node) {
		if n.Kind == topology.Endpoint {
			first[n] = ranks[n.ID]
			return
		}

		for _, c := range n.Children {
			order(c)
		}

		slices.SortFunc(n.Children, compareFirst)
		first[n] = first[n.Children[0]]
	}

	for _, root := range b.tree.Roots {
		order(root)
	}

	slices.SortFunc(b.tree.Roots, func(x, y *topology.Node) int { return compareFirst(y, x) })
}

// hostOrder returns the positions of devices in the order of their addresses on the host. A
// mediated device is at its parent's address, and after others there by its UUID, the only order
// of vGPUs that every call sees: that of the domain may change.
func hostOrder(devices []Decision) []int {
	positions := make([]int, len(devices))
	for i := range positions {
		positions[i] = i
	}

	slices.SortFunc(positions, func(i, j int) int {
		x, y := &devices[i].PassthroughDevice, &devices[j].PassthroughDevice
		return cmp.Or(x.hostAddress().Compare(y.hostAddress()), x.ID.Compare(y.ID))
	})

	return positions
}

// slot is the devices that share a slot of the guest: one, or functions of one
// device, function 0 first.
type slot []*Decision

// slotsOf returns the slots of the placed devices. Companions join the slot of their function 0, or
// of the first companion of a whole AMD GPU, which comes before them.
func slotsOf(decisions []Decision) []slot {
	var slots []slot
	lead := 0 // the position of the slot that companions join
	for i := range decisions {
		d := &decisions[i]
		pci, isPCI := d.ID.PCI()
		switch {
		case d.Outcome != Placed:
		case d.Reason == reasons.Companion:
			slots[lead] = append(slots[lead], d)
		default:
			if isPCI && (pci.Function == 0 || d.OwnPort) {
				lead = len(slots)
			}
			slots = append(slots, slot{d})
		}
	}

	return slots
}

// wantedTree is a tree while it is made. Its controllers have no index yet, so no ID.
type wantedTree struct{ tree *topology.Tree }

func (b wantedTree) controller(parent *topology.Node, kind topology.NodeKind) *topology.Node {
	return b.tree.Add(parent, topology.Node{Kind: kind, Slot: topology.NoSlot})
}

func (b wantedTree) expander(cell *topology.CellID) *topology.Node {
	n := topology.Node{Kind: topology.Root, Slot: topology.NoSlot}
	if cell != nil {
		n.NUMA = new(int(*cell))
	}
	return b.tree.Add(nil, n)
}

// port adds a port with the devices of a slot.
func (b wantedTree) port(parent *topology.Node, kind topology.NodeKind, s slot) {
	port := b.controller(parent, kind)
	for i, d := range s {
		n := topology.Node{Kind: topology.Endpoint, ID: d.ID}
		if i > 0 {
			pci, _ := d.ID.PCI()
			n.Function = int(pci.Function)
		}

		b.tree.Add(port, n)
	}
}

// mirror adds root ports and switches under an expander bus as the host has
// them above the slots. A switch is left out only where no path type changes:
// where it has a single slot under its root port, and where its only child is a
// switch. With layout switch all slots under a root port are under one switch. Slots
// that need a root port of their own have no switch above them.
func (b wantedTree) mirror(
	expander *topology.Node, host *topology.Tree, slots []slot, layout policy.Layout,
) {
	byLead := map[topology.ID]slot{}
	var leads []topology.DeviceID
	for _, s := range slots {
		if s[0].OwnPort {
			b.port(expander, topology.RootPort, s)
			continue
		}

		byLead[s[0].ID] = s
		leads = append(leads, s[0].ID)
	}

	for _, nodes := range hostPorts(host.Only(leads)) {
		parts := switchParts(nodes)
		if layout == policy.LayoutSwitch {
			parts = devicesUnder(nodes)
		}

		if len(parts) == 1 {
			b.port(expander, topology.RootPort, byLead[parts[0].ID])
			continue
		}

		b.mirrorSwitch(b.controller(expander, topology.RootPort), parts, byLead)
	}
}

// mirrorSwitch adds to a port a switch with the parts of one of the host.
func (b wantedTree) mirrorSwitch(
	port *topology.Node, parts []*topology.Node, byLead map[topology.ID]slot,
) {
	upstream := b.controller(port, topology.UpstreamPort)
	for _, part := range parts {
		if part.Kind.IsSwitch() {
			b.mirrorSwitch(b.controller(upstream, topology.DownstreamPort),
				switchParts(part.Children), byLead)
		} else {
			b.port(upstream, topology.DownstreamPort, byLead[part.ID])
		}
	}
}

// hostPorts returns the nodes under each port of the host's roots. A device directly on a root
// counts as one port, with all its functions.
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

// switchParts returns the devices and the switches that the switch above nodes of the host leads
// to. Where its only part is a switch they are that one's.
func switchParts(nodes []*topology.Node) []*topology.Node {
	parts := nextParts(nodes)
	for len(parts) == 1 && parts[0].Kind.IsSwitch() {
		parts = nextParts(parts[0].Children)
	}
	return parts
}

// devicesUnder returns the devices at nodes and under them, also under switches.
func devicesUnder(nodes []*topology.Node) []*topology.Node {
	var devices []*topology.Node
	for _, n := range nodes {
		if n.Kind == topology.Endpoint {
			devices = append(devices, n)
			continue
		}
		devices = append(devices, devicesUnder(n.Children)...)
	}

	return devices
}

// nextParts returns the devices and switches at nodes and under them, without another switch
// between.
func nextParts(nodes []*topology.Node) []*topology.Node {
	var parts []*topology.Node
	for _, n := range nodes {
		if n.Kind == topology.Endpoint || n.Kind.IsSwitch() {
			parts = append(parts, n)
			continue
		}
		parts = append(parts, nextParts(n.Children)...)
	}

	return parts
}
