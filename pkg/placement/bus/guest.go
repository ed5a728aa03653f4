// Package bus describes the PCI buses of a guest: the tree that libvirt makes of a
// domain, what the root bus holds and has to have room for, the rules and the budgets
// that a guest can violate, and the addresses that its kernel shows. It decides nothing.
package bus

import (
	"cmp"
	"slices"
	"sync"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/pkg/topology"
)

// Guest is a guest with the root ports that libvirt adds for missing indexes, and its tree. It is a
// value: what changes it returns another.
type Guest struct {
	libvirt.Guest
	Given     libvirt.Guest // what is rewritten, and what libvirt completes: without these ports
	Tree      *topology.Tree
	Expanders []domain.Controller // the expander buses, by index
	Libvirt   alloc.Libvirt       // that libvirt's answer depends on

	completed func() (libvirt.Guest, error) // Given as Libvirt completes it, simulated once
}

// New returns the guest that a libvirt makes of a given one.
func New(given libvirt.Guest, by alloc.Libvirt) Guest {
	return Guest{Guest: given, Given: given, Libvirt: by}.With(given.Domain)
}

// With returns the guest of another domain, which has the same devices.
func (g Guest) With(d *domain.Domain) Guest {
	return g.WithRootPorts(d, libvirt.Guest{Domain: d, Devices: g.Devices}.Holes())
}

// WithRootPorts does what With does, with more root ports, of these indexes.
func (g Guest) WithRootPorts(d *domain.Domain, indexes []int) Guest {
	g.Given.Domain = d
	return g.by(g.Libvirt).seen(libvirt.Guest{Domain: d, Devices: g.Devices}, indexes)
}

// by returns the guest with another libvirt.
func (g Guest) by(m alloc.Libvirt) Guest {
	g.Libvirt = m
	g.completed = sync.OnceValues(func() (libvirt.Guest, error) {
		return alloc.Simulate(g.Given, m)
	})
	return g
}

// seen returns the guest with the tree of a domain and its devices, and of more root ports. Given
// stays.
func (g Guest) seen(as libvirt.Guest, rootPorts []int) Guest {
	g.Guest = as.WithRootPorts(rootPorts)
	g.Tree = g.Guest.Tree()
	g.Expanders = slices.DeleteFunc(slices.Clone(g.Controllers), func(c domain.Controller) bool {
		return c.Model != domain.ExpanderBus
	})

	slices.SortFunc(g.Expanders, func(a, b domain.Controller) int {
		return cmp.Compare(a.Index, b.Index)
	})

	return g
}

// Root returns the node of pcie.0, the root bus.
func (g Guest) Root() *topology.Node { return g.Tree.Roots[0] }

// Node returns the node of the controller with an index, or nil.
func (g Guest) Node(index int) *topology.Node { return g.Tree.Node(topology.Index(index)) }

// Expander returns the expander bus above an address; nil on the root bus, and without an address.
func (g Guest) Expander(a *domain.GuestAddress) *topology.Node {
	if a == nil {
		return nil
	}

	n := g.Node(a.Bus)
	if n == nil || n.Top() == g.Root() {
		return nil
	}

	return n.Top()
}

// Path returns the indexes of the controllers from the root bus to the one with an index, both
// included but for the root bus itself. It is nil if a controller on the path is one that libvirt
// still has to add.
func (g Guest) Path(index int) []int {
	added := g.Controllers[len(g.Given.Controllers):]
	var path []int
	for _, n := range g.Node(index).Path() {
		at := int(n.ID.(topology.Index))
		if n == g.Root() {
			continue
		}
		if slices.ContainsFunc(added, func(c domain.Controller) bool { return c.Index == at }) {
			return nil
		}

		path = append(path, at)
	}

	return path
}

// CellOf returns the cell of an expander bus, or nil.
func CellOf(expander *topology.Node) *topology.CellID {
	if expander == nil || expander.NUMA == nil {
		return nil
	}
	return new(topology.CellID(*expander.NUMA))
}

// Numbered returns the expander buses with an explicit bus number, the highest first.
func (g Guest) Numbered() []domain.Controller {
	all := slices.DeleteFunc(slices.Clone(g.Expanders), func(c domain.Controller) bool {
		return c.BusNr == nil
	})

	slices.SortFunc(all, func(a, b domain.Controller) int {
		return cmp.Compare(*b.BusNr, *a.BusNr)
	})

	return all
}

// Referenced returns the expander buses to which something else in the domain refers, directly or by
// a controller under them, and the ports under the root bus to which it refers.
func (g Guest) Referenced() map[*topology.Node]bool {
	named := map[*topology.Node]bool{}
	for _, index := range g.References {
		n := g.Node(index)
		switch {
		case n == nil:
		case n.Top() != g.Root():
			named[n.Top()] = true
		case n.Kind.IsPort():
			named[n] = true
		}
	}

	return named
}

// Referred returns what tells whether something else in the domain refers to the expander bus above an
// address, or to the port under the root bus that has it. What is there stays: if it left a port with
// a name, libvirt would plug the next device without an address into it, and no such device is left
// in the later calls of a boot.
func (g Guest) Referred() func(*domain.GuestAddress) bool {
	referenced := g.Referenced()
	return func(a *domain.GuestAddress) bool {
		if a == nil {
			return false
		}
		n := g.Node(a.Bus)
		return n != nil && (referenced[n] || referenced[n.Top()])
	}
}

// Managed returns the expander buses that hold one of the devices and that nothing else in the
// domain refers to.
func (g Guest) Managed(devices Devices) []*topology.Node {
	referenced := g.Referenced()
	return slices.DeleteFunc(slices.Clone(g.Tree.Roots[1:]), func(expander *topology.Node) bool {
		return referenced[expander] || !devices.AnyUnder(expander)
	})
}

// Devices is a set of passthrough devices.
type Devices map[topology.DeviceID]bool

// AnyUnder reports whether one of the devices is at a node or under it.
func (s Devices) AnyUnder(n *topology.Node) bool { return hasEndpoint(n, s.Has) }

// OthersUnder reports whether a device that is not in the set, or an empty bridge to conventional
// PCI, is at a node or under it.
func (s Devices) OthersUnder(n *topology.Node) bool {
	return hasBridge(n) || hasEndpoint(n, func(e *topology.Node) bool { return !s.Has(e) })
}

// HaveAll reports whether there are devices at a port, all of the set.
func (s Devices) HaveAll(port *topology.Node) bool {
	return len(port.Children) > 0 &&
		!slices.ContainsFunc(port.Children, func(n *topology.Node) bool {
			return !s.Has(n)
		})
}

// Has reports whether a node is one of the devices.
func (s Devices) Has(n *topology.Node) bool {
	id, isHostdev := n.ID.(topology.DeviceID)
	return isHostdev && s[id]
}

// IsOccupied reports whether a device, or an empty bridge to conventional PCI, is at a node or
// under it.
func IsOccupied(n *topology.Node) bool {
	return hasBridge(n) || hasEndpoint(n, func(*topology.Node) bool { return true })
}

// hasBridge reports whether a bridge to conventional PCI with nothing under it is at a node or
// under it: libvirt's own, or the user's for devices without an address.
func hasBridge(n *topology.Node) bool {
	for at := range n.Walk() {
		if at.Kind == topology.Bridge && len(at.Children) == 0 {
			return true
		}
	}
	return false
}

func hasEndpoint(n *topology.Node, isSuch func(*topology.Node) bool) bool {
	for e := range n.Endpoints() {
		if isSuch(e) {
			return true
		}
	}
	return false
}

// FreePorts returns the ports and other bridges under an expander bus that hold nothing.
func FreePorts(expander *topology.Node) []*topology.Node {
	var free []*topology.Node
	for n := range expander.Walk() {
		if n != expander && n.Kind != topology.UpstreamPort && n.Kind != topology.Endpoint &&
			len(n.Children) == 0 {
			free = append(free, n)
		}
	}

	return free
}

// Predict returns the address that the guest's kernel shows for an address of libvirt's, see
// libvirt.NumberBuses. It is nil under an expander bus without a number, and where libvirts differ
// on what is before it. It is nil under the root bus until every device has an address.
func (g Guest) Predict() func(domain.GuestAddress) *topology.Address {
	firsts := map[int]int{}
	for _, e := range g.Numbered() {
		firsts[e.Index] = *e.BusNr
	}

	// Firmware numbers depth first, so one more bridge on the root bus changes all numbers after it.
	// Buses under expander buses do not depend on that.
	isUnaddressed := func(c domain.Controller) bool { return c.Index != 0 && c.Address == nil }
	isPending := func(u use) bool { return u.pending+u.addedOthers > 0 }
	if !slices.ContainsFunc(g.uses(), isPending) &&
		!slices.ContainsFunc(g.Controllers, isUnaddressed) {
		firsts[0] = 0
	}

	var all []map[topology.ID]int
	for whole := range g.wholes() {
		all = append(all, libvirt.NumberBuses(whole.Tree, firsts))
	}

	return func(a domain.GuestAddress) *topology.Address {
		// Known is only what all libvirts agree on.
		number, isKnown := all[0][topology.Index(a.Bus)]
		for _, numbers := range all[1:] {
			other, isOther := numbers[topology.Index(a.Bus)]
			isKnown = isKnown && isOther && other == number
		}

		if !isKnown {
			return nil
		}

		return &topology.Address{
			Bus: uint8(number), Device: uint8(a.Slot), Function: uint8(a.Function),
		}
	}
}
