package libvirt

import (
	"cmp"
	"slices"
	"strconv"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// Other is the ID, in a guest's tree, of a device that is not placed: its position in Devices.
type Other int

// String returns the position.
func (o Other) String() string { return "device " + strconv.Itoa(int(o)) }

// Argument is the ID, in a guest's tree, of a device in qemu:commandline: its position in
// domain.CommandLine.
type Argument int

// String returns the position.
func (a Argument) String() string { return "argument " + strconv.Itoa(int(a)) }

// Tree returns the guest's PCI Express tree: the root bus first, then the expander buses by index,
// each with the controllers under it, in the order of slot and function, and devices. A device
// without an address, or under no controller of the domain, is on the root bus. Expander buses in
// qemu:commandline are devices of the root bus, and what is under them is left out.
func (g Guest) Tree() *topology.Tree {
	b := treeBuilder{
		tree:  topology.NewTree(len(g.Hostdevs), len(g.Devices)),
		under: map[int][]*domain.Controller{},
	}

	all := byIndex(g.Domain)
	for _, c := range all {
		// An expander bus is a root of its own, whatever its address.
		if kindOf(c) != topology.Root && c.Address != nil {
			b.under[c.Address.Bus] = append(b.under[c.Address.Bus], c)
		}
	}

	rootBus := b.add(nil, &domain.Controller{Index: 0})

	for _, c := range all {
		if kindOf(c) == topology.Root {
			b.add(nil, c)
		}
	}

	for _, c := range all {
		if b.tree.Node(topology.Index(c.Index)) == nil { // under no root
			b.add(rootBus, &domain.Controller{Index: c.Index, Model: c.Model})
		}
	}

	for _, h := range g.Hostdevs {
		b.endpoint(h.ID, h.Address)
	}

	for i, o := range g.Devices {
		b.endpoint(Other(i), o.Address)
	}

	b.arguments(g.CommandLine.Devices)
	return b.tree
}

// byIndex returns the controllers of a domain in the order of their indexes, as QEMU makes them.
func byIndex(d *domain.Domain) []*domain.Controller {
	all := make([]*domain.Controller, len(d.Controllers))
	for i := range d.Controllers {
		all[i] = &d.Controllers[i]
	}

	slices.SortStableFunc(all, func(x, y *domain.Controller) int {
		return cmp.Compare(x.Index, y.Index)
	})

	return all
}

type treeBuilder struct {
	tree  *topology.Tree
	under map[int][]*domain.Controller // by the index of their bus
}

// add adds a controller with everything under it, unless it is there.
func (b treeBuilder) add(parent *topology.Node, c *domain.Controller) *topology.Node {
	id := topology.Index(c.Index)
	if known := b.tree.Node(id); known != nil {
		return known
	}

	n := topology.Node{Kind: kindOf(c), ID: id, Slot: topology.NoSlot}
	if c.Address != nil {
		n.Slot, n.Function = c.Address.Slot, c.Address.Function
	}

	if n.Kind == topology.Root && c.Cell != nil {
		n.NUMA = new(int(*c.Cell))
	}

	added := b.tree.Add(parent, n)
	slices.SortStableFunc(b.under[c.Index], bySlot)
	for _, child := range b.under[c.Index] {
		b.add(added, child)
	}

	return added
}

func bySlot(x, y *domain.Controller) int {
	return cmp.Or(cmp.Compare(x.Address.Slot, y.Address.Slot),
		cmp.Compare(x.Address.Function, y.Address.Function))
}

func (b treeBuilder) endpoint(id topology.ID, address *domain.GuestAddress) {
	n := topology.Node{Kind: topology.Endpoint, ID: id, Slot: topology.NoSlot}
	parent := b.tree.Roots[0]
	if address != nil {
		if bus := b.tree.Node(topology.Index(address.Bus)); bus != nil {
			parent, n.Slot, n.Function = bus, address.Slot, address.Function
		}
	}

	b.tree.Add(parent, n)
}

// arguments adds the devices in qemu:commandline that are on a bus of the domain or under one.
func (b treeBuilder) arguments(devices []domain.ArgumentDevice) {
	added := make([]*topology.Node, len(devices)) // nil under an expander bus of theirs
	for i, d := range devices {
		bus := b.tree.Node(topology.Index(d.Bus))
		if d.Parent != domain.NoParent {
			bus = added[d.Parent]
			if devices[d.Parent].BusNr != nil {
				bus = nil
			}
		}

		if bus == nil {
			continue
		}

		n := topology.Node{Kind: topology.Endpoint, ID: Argument(i), Slot: d.Slot}
		if d.IsBridge {
			n.Kind = topology.Bridge
		}

		added[i] = b.tree.Add(bus, n)
		bus.Children = sortedIn(bus.Children)
	}
}

// sortedIn moves the last of the nodes on a bus before the first with a higher slot.
func sortedIn(nodes []*topology.Node) []*topology.Node {
	last := len(nodes) - 1
	added := nodes[last]
	at := slices.IndexFunc(nodes[:last], func(n *topology.Node) bool { return n.Slot > added.Slot })
	if added.Slot == topology.NoSlot || at < 0 {
		return nodes
	}

	return slices.Insert(nodes[:last], at, added)
}

// kindOf returns the kind of a controller's node (libvirt docs/formatdomain.rst, "Controllers").
func kindOf(c *domain.Controller) topology.NodeKind {
	switch {
	case c.Index == 0, c.Model == domain.ExpanderBus:
		return topology.Root
	case c.Model == domain.RootPort:
		return topology.RootPort
	case c.Model == domain.UpstreamPort:
		return topology.UpstreamPort
	case c.Model == domain.DownstreamPort:
		return topology.DownstreamPort
	}

	return topology.Bridge
}
