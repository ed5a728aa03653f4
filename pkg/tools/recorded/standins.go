package recorded

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// nameStandIns gives what a record shows without a name, or without a possible one, a name that the
// record does not use: PCIe roots, ports, switches and functions.
func (m *maker) nameStandIns() error {
	n := namer{
		maker:      m,
		impossible: m.impossible(),
		roots:      map[string]*bus{},
		below:      map[topology.Address]*bus{},
		names:      map[topology.Address]topology.Address{},
	}

	for i := range m.devices {
		d := &m.devices[i]
		if len(d.Bridges) == 0 && paste.IsStandIn(d.Root) {
			return fmt.Errorf("%s is at no CPU", d.Address)
		}
		n.nameFunction(d)
	}

	n.report()
	return m.buses.err()
}

// namer names stand-ins. What is under one root or bridge gets slots of one bus.
type namer struct {
	*maker
	impossible map[aBus]bool

	roots map[string]*bus           // by what stands for the root
	below map[topology.Address]*bus // under a bridge
	names map[topology.Address]topology.Address

	moved, noAddress int // functions: whose address is impossible, that had none
}

// nameFunction names what is above a function, and the function.
func (n *namer) nameFunction(d *topology.Function) {
	at := n.rootBus(d)
	if paste.IsStandIn(d.Root) {
		d.Root = at.root()
	}

	d.Bridges = slices.Clone(d.Bridges)

	// From the root down: each name is that of a slot on the bus of the one above.
	for k, bridge := range d.Bridges {
		d.Bridges[k] = n.name(bridge, at)
		if n.below[bridge] == nil {
			n.below[bridge] = &bus{buses: &n.buses}
		}
		at = n.below[bridge]
	}

	was := d.Address
	if d.Address = n.name(was, at); d.Address == was {
		return
	}

	n.was[d.Address] = was

	if paste.HasAddress(was) {
		n.moved++
	} else {
		n.noAddress++
	}
}

// rootBus returns the bus of a function's PCIe root. NCCL's files have a CPU in its place, and each
// device or switch directly at it gets a root of its own.
func (n *namer) rootBus(d *topology.Function) *bus {
	key := d.Root.String()
	if strings.HasPrefix(key, "cpu ") {
		key += " " + d.Bridges[0].String()
	}

	if n.roots[key] == nil {
		n.roots[key] = &bus{buses: &n.buses, slot: rootPortSlot}
	}

	return n.roots[key]
}

// name returns the name of a bridge or function on a bus.
func (n *namer) name(is topology.Address, on *bus) topology.Address {
	if paste.HasAddress(is) && !n.impossible[busOf(is)] {
		return is
	}

	if _, isNamed := n.names[is]; !isNamed {
		n.names[is] = on.next()
		if bridge, isBridge := n.bridges[is]; isBridge {
			n.bridges[n.names[is]] = bridge
		}
	}

	return n.names[is]
}

// report says what was named.
func (n *namer) report() {
	if len(n.names) > n.moved+n.noAddress {
		n.assume("Names of PCIe roots and of %s are made up.",
			words.Counted(len(n.names)-n.moved-n.noAddress, "bridge"))
	}

	if n.record.Has(paste.NCCL) {
		n.assume("NCCL's file has no PCIe roots: each device or switch directly at a CPU has one " +
			"of its own.")
	}

	if n.noAddress > 0 {
		n.assume("The addresses of %s are made up.", words.Counted(n.noAddress, "device"))
	}

	if n.moved > 0 {
		n.assume("%s have another address than in the file, where one bus is under several ports.",
			words.Counted(n.moved, "device"))
	}
}

// aBus is the number of a bus.
type aBus struct {
	domain uint32
	number uint8
}

func busOf(a topology.Address) aBus { return aBus{a.Domain, a.Bus} }

// impossible returns the buses that are under several ports, as in files that were written by hand.
// NCCL finds a function by its bus (src/graph/xml.cc, getPciPath).
func (m *maker) impossible() map[aBus]bool {
	port := map[aBus]topology.Address{}
	impossible := map[aBus]bool{}
	for _, d := range m.devices {
		path := append(slices.Clone(d.Bridges), d.Address)
		for k, at := range path {
			if k == 0 || !paste.HasAddress(at) {
				continue
			}

			on := busOf(at)
			if first, isSeen := port[on]; isSeen && first != path[k-1] {
				impossible[on] = true
			}

			port[on] = path[k-1]
		}
	}

	return impossible
}

// nameNodes numbers NUMA nodes that a record tells apart without their numbers.
func (m *maker) nameNodes() {
	used := map[topology.NodeID]bool{}
	for _, n := range m.nodes {
		used[n.ID] = true
	}

	for _, d := range m.devices {
		if id, isKnown := d.Node.Node(); isKnown {
			used[id] = true
		}
	}

	numbers := map[topology.NodeID]topology.NodeID{}
	for i := range m.devices {
		id, isKnown := m.devices[i].Node.Node()
		if !isKnown || id <= maxNode {
			continue
		}

		if _, isNumbered := numbers[id]; !isNumbered {
			free := topology.NodeID(0)
			for used[free] {
				free++
			}
			used[free], numbers[id] = true, free
		}

		m.devices[i].Node = topology.OnNode(numbers[id])
	}

	if len(numbers) > 0 {
		m.assume("The numbers of %s are made up.", words.Counted(len(numbers), "NUMA node"))
	}
}

// maxNode is the highest NUMA node of Linux (arch/x86/Kconfig, NODES_SHIFT). Stand-ins are above.
const maxNode = 1023
