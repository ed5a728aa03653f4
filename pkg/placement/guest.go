package placement

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
)

// guest is a domain with its other devices and the tree that they all make.
type guest struct {
	*domain.Domain                // with root ports that libvirt adds
	source         *domain.Domain // without
	others         []libvirt.Device
	tree           *topology.Tree
	expanders      []domain.Controller // the expander buses, by index
}

// newGuest is the guest of a domain, with more root ports of these indexes.
func newGuest(d *domain.Domain, rootPorts []int, others []libvirt.Device) guest {
	with := libvirt.WithRootPorts(d, rootPorts)
	return guest{with, d, others, libvirt.Tree(with, others), expandersOf(with)}
}

func expandersOf(d *domain.Domain) []domain.Controller {
	var expanders []domain.Controller
	for _, c := range d.Controllers {
		if c.Model == domain.ExpanderBus {
			expanders = append(expanders, c)
		}
	}
	slices.SortFunc(expanders, func(a, b domain.Controller) int { return cmp.Compare(a.Index, b.Index) })
	return expanders
}

// completed is the guest that libvirt makes of a domain, with a root port for
// each index that is missing.
func completed(d *domain.Domain, others []libvirt.Device) guest {
	return newGuest(d, libvirt.Holes(d, others), others)
}

// after is the guest of the domain with changes.
func (g guest) after(changes domain.Changes) guest {
	return completed(g.source.After(changes), g.others)
}

// rootBus is the node of pcie.0.
func (g guest) rootBus() *topology.Node { return g.tree.Roots[0] }

// node is the node of the controller with an index, or nil.
func (g guest) node(index int) *topology.Node { return g.tree.Node(topology.Index(index)) }

// expander is the expander bus above an address; nil on the root bus, and
// without an address.
func (g guest) expander(a *domain.GuestAddress) *topology.Node {
	if a == nil {
		return nil
	}
	return g.expanderAbove(g.node(a.Bus))
}

// expanderAbove is the expander bus at or above a node, or nil.
func (g guest) expanderAbove(n *topology.Node) *topology.Node {
	if n == nil || n.Top() == g.rootBus() {
		return nil
	}
	return n.Top()
}

// numbered are the expander buses with an explicit bus number, the highest first.
func (g guest) numbered() []domain.Controller {
	all := slices.DeleteFunc(slices.Clone(g.expanders), func(c domain.Controller) bool { return c.BusNr == nil })
	slices.SortFunc(all, func(a, b domain.Controller) int { return cmp.Compare(*b.BusNr, *a.BusNr) })
	return all
}

// referenced are the expander buses that something else in the domain names, or
// a controller under them.
func (g guest) referenced() map[*topology.Node]bool {
	named := map[*topology.Node]bool{}
	for _, index := range g.References {
		if n := g.node(index); n != nil {
			named[n.Top()] = true
		}
	}
	return named
}

// cellOf is the cell of an expander bus, or nil.
func cellOf(expander *topology.Node) *topology.CellID {
	if expander == nil || expander.NUMA == nil {
		return nil
	}
	return new(topology.CellID(*expander.NUMA))
}

// busNumberCount is how many bus numbers a PCI domain has.
const busNumberCount = 256

// deviceSet is a set of passthrough devices.
type deviceSet map[topology.DeviceID]bool

// has reports whether a node of a guest's tree is one of the devices.
func (s deviceSet) has(n *topology.Node) bool {
	id, isHostdev := n.ID.(topology.DeviceID)
	return isHostdev && s[id]
}

// holdsAny reports whether one of the devices is at a node or under it.
func (s deviceSet) holdsAny(n *topology.Node) bool {
	for e := range n.Endpoints() {
		if s.has(e) {
			return true
		}
	}
	return false
}

// holdsAnyOther reports whether a device that is not in the set is at a node or
// under it.
func (s deviceSet) holdsAnyOther(n *topology.Node) bool {
	for e := range n.Endpoints() {
		if !s.has(e) {
			return true
		}
	}
	return false
}

// isOccupied reports whether a device is at a node or under it.
func isOccupied(n *topology.Node) bool {
	for range n.Endpoints() {
		return true
	}
	return false
}

// managedTrees are the expander buses that hold a managed device and that nothing
// else in the domain refers to.
func (g guest) managedTrees(managed deviceSet) []*topology.Node {
	referenced := g.referenced()
	return slices.DeleteFunc(slices.Clone(g.tree.Roots[1:]), func(expander *topology.Node) bool {
		return referenced[expander] || !managed.holdsAny(expander)
	})
}

// freePorts are the ports and other bridges under an expander bus that hold
// nothing.
func freePorts(expander *topology.Node) []*topology.Node {
	var free []*topology.Node
	for n := range expander.Walk() {
		if n != expander && n.Kind != topology.UpstreamPort && n.Kind != topology.Endpoint && len(n.Children) == 0 {
			free = append(free, n)
		}
	}
	return free
}
