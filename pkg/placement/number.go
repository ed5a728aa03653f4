package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
)

// numbers is a layout with its numbers.
type numbers struct {
	controllers []domain.Controller
	addresses   map[topology.DeviceID]domain.GuestAddress
}

// number gives indexes, slots and bus numbers to the tree that is wanted, or
// returns the budgets that it exceeds.
func number(wanted *topology.Tree, r reservation, hotplugOff bool) (numbers, []violation) {
	var violations []violation
	wanted = withFillers(wanted, r.fillers)
	if need, free := controllersOf(wanted), max(0, libvirt.MaxIndex-r.highest+len(r.freed)-r.rootBus.added); need > free {
		violations = append(violations, exceeded("controller indexes: the layout needs %d, %d are free: %d too many", need, free, need-free))
	}
	busNumbers, tight := busNumbersOf(wanted, r)
	places, crowded := expanderPlaces(len(wanted.Roots), r)
	if violations = slices.Concat(violations, tight, crowded); len(violations) > 0 {
		return numbers{}, violations
	}
	n := numberer{
		freed: slices.Clone(r.freed), highest: r.highest, hotplugOff: hotplugOff,
		numbers: numbers{slices.Clone(r.ports), map[topology.DeviceID]domain.GuestAddress{}},
	}
	for i, expander := range wanted.Roots {
		index := n.take()
		n.add(domain.Controller{
			Index: index, Model: domain.ExpanderBus, BusNr: &busNumbers[i], Cell: cellOf(expander),
			Address: &places[i],
		})
		n.plug(index, expander.Children)
	}
	for _, c := range n.controllers[len(r.ports):] {
		if slices.Contains(r.guest.References, c.Index) {
			return numbers{}, []violation{violated("the layout needs the controller index %d, which the domain already names as pci.%d", c.Index, c.Index)}
		}
	}
	return n.numbers, nil
}

// controllersOf is how many controllers a wanted tree is.
func controllersOf(wanted *topology.Tree) int {
	count := 0
	for _, expander := range wanted.Roots {
		count += expander.Bridges()
	}
	return count
}

// numberer gives out indexes.
type numberer struct {
	numbers
	freed      []int // that are free again, ascending
	highest    int   // that is taken
	hotplugOff bool
}

func (n *numberer) add(c domain.Controller) { n.controllers = append(n.controllers, c) }

// take takes the lowest free index. Indexes come in ascending order, so a
// parent that is numbered before its children has a lower one: QEMU makes the
// controllers in the order of indexes and does not find a later one ("Bus
// 'pci.2' not found").
func (n *numberer) take() int {
	if len(n.freed) > 0 {
		index := n.freed[0]
		n.freed = n.freed[1:]
		return index
	}
	n.highest++
	return n.highest
}

// slotsPerBus is how many slots the bus of an expander or of an upstream port
// has, from 0; each takes functionsPerSlot ports (libvirt
// src/conf/domain_addr.c, virDomainPCIAddressBusSetModel).
const slotsPerBus = 32

// plug numbers what is plugged into a bus, and all that is under it. Ports fill
// all slots first, then further functions.
func (n *numberer) plug(bus int, children []*topology.Node) {
	for i, c := range children {
		if id, isDevice := c.ID.(topology.DeviceID); isDevice {
			n.addresses[id] = domain.GuestAddress{Bus: bus, Function: c.Function, Multifunction: c.Function == 0 && len(children) > 1}
			continue
		}
		controller := domain.Controller{Index: n.take(), Model: domain.UpstreamPort, Address: &domain.GuestAddress{Bus: bus}}
		if c.Kind.IsPort() {
			controller.Model, controller.HotplugOff = portModel(c.Kind), n.hotplugOff
			controller.Address.Slot, controller.Address.Function = i%slotsPerBus, i/slotsPerBus
			controller.Address.Multifunction = i+slotsPerBus < len(children) && i < slotsPerBus
		}
		n.add(controller)
		n.plug(controller.Index, c.Children)
	}
}

func portModel(kind topology.NodeKind) domain.Model {
	if kind == topology.DownstreamPort {
		return domain.DownstreamPort
	}
	return domain.RootPort
}

// changesFor are the edits that replace the vacated controllers by the numbered
// layout and put its devices there.
func changesFor(current guest, base domain.Changes, decisions []Decision, r reservation, n numbers) domain.Changes {
	changes := base
	changes.AddHostdevs = slices.Clone(base.AddHostdevs)
	changes.RemoveControllers, changes.AddControllers = r.removed, n.controllers
	changes.Place = map[int]*domain.GuestAddress{}
	existing := len(current.Hostdevs)
	for _, d := range decisions {
		address, placed := n.addresses[d.ID]
		switch {
		case placed && d.Added:
			changes.AddHostdevs[d.position-existing].Address = &address
		case placed:
			changes.Place[d.position] = &address
		case d.movable && !d.Added && d.Outcome != Placed && current.expander(d.current) != nil:
			changes.Place[d.position] = nil // libvirt chooses
		}
	}
	return changes
}
