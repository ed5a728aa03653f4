// Package number gives numbers to the tree that a layout wants: controller indexes, slots and bus
// numbers (busnumber.go). It leaves room for the controllers that the domain keeps, and for those
// that libvirt and KubeVirt add (reserve.go). It does not know whether a disk or NIC moves then:
// placement simulates libvirt with the result, and tries the next of Plans where one does.
package number

import (
	"cmp"
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Replacement is a tree that is to replace the controllers above the managed devices.
type Replacement struct {
	Current    bus.Guest
	Wanted     *topology.Tree
	Managed    bus.Devices      // that Wanted has
	Unplaced   []domain.Hostdev // in their order, with those to add: all that Wanted lacks
	Ports      bus.Ports        // to reserve for hotplug
	HotplugOff bool             // of ports with a device
	Plan       Plan
	Version    alloc.Version // that the plan looks at
}

// Plan is a way to leave everything else where it is. In each the layout takes the indexes and the
// slots of the root bus of the controllers that it replaces, and indexes that are left over become
// root ports.
type Plan struct {
	// PinsPorts gives root ports that devices without an address take a lower index than those
	// that are free: libvirt takes the free port with the lowest index. All ports that it adds
	// get the addresses that libvirt gives them without the hook, those of indexes that are left
	// over addresses after all others.
	PinsPorts bool

	// FillsSlots puts empty expander buses into slots that are left over, since libvirt would
	// move root ports up into them.
	FillsSlots bool

	// TakesDeviceSlots puts expander buses also into slots of the root bus that managed devices
	// leave.
	TakesDeviceSlots bool

	// FillsIndexes gives empty expander buses the indexes that are left over, where a root port
	// would come before one that cannot be pinned: of a user's expander bus, or that something
	// names.
	FillsIndexes bool
}

// Plans are the plans in the order in which they are tried.
var Plans = []Plan{
	{},
	{PinsPorts: true},
	{PinsPorts: true, FillsSlots: true, TakesDeviceSlots: true},
	{PinsPorts: true, FillsSlots: true, FillsIndexes: true},
}

// Numbers are the changes that give a layout its controllers and addresses in the domain.
type Numbers struct {
	Removed     []int // the indexes of the controllers that the layout replaces
	Controllers []domain.Controller
	Addresses   map[topology.DeviceID]domain.GuestAddress
}

// Assign gives a layout its numbers, or returns the budgets that it exceeds.
func Assign(rep Replacement) (Numbers, []reasons.Finding) {
	r := reserve(rep)
	var violations []reasons.Finding
	if need, free := countControllers(r.expanders), max(0,
		libvirt.MaxIndex-r.highest+len(r.freed)-len(r.named)-r.rootBus.Added); need > free {
		violations = append(violations,
			bus.Exceeded("controller indexes: the layout needs %d, %d are free: %d too many", need,
				free, need-free))
	}

	for _, index := range r.named {
		if slices.Contains(r.guest.CommandLine.IDs(), fmt.Sprint("pci.", index)) {
			// libvirt makes a controller of each index up to the highest, and QEMU refuses a second
			// device of the same id.
			return Numbers{}, []reasons.Finding{
				bus.Violated("the layout needs the controller index %d, which the domain already "+
					"names as pci.%d", index, index),
			}
		}
	}

	busNumbers, tight := busNumbersOf(r.expanders, r.guest, r.rootBus)
	places, crowded := expanderPlaces(r)
	if violations = slices.Concat(violations, tight, crowded); len(violations) > 0 {
		return Numbers{}, violations
	}

	n := r.numbers(rep.HotplugOff)
	// The first controllers are the root ports that were reserved. Of the layout's the expander buses
	// get their numbers and places in turn.
	at := 0
	for i, c := range n.Controllers {
		if i >= len(r.ports) && c.Model == domain.ExpanderBus {
			n.Controllers[i].BusNr, n.Controllers[i].Address = &busNumbers[at], &places[at]
			at++
		}
	}

	return n, nil
}

// numbers gives the layout its indexes, and addresses to all but the expander buses.
func (r reservation) numbers(hotplugOff bool) Numbers {
	n := numberer{
		freed: r.freed, highest: r.highest, named: r.named, hotplugOff: hotplugOff,
		Numbers: Numbers{
			r.removed, slices.Clone(r.ports), map[topology.DeviceID]domain.GuestAddress{},
		},
	}

	for _, expander := range r.expanders {
		index := n.take()
		n.Controllers = append(n.Controllers, domain.Controller{
			Index: index, Model: domain.ExpanderBus, Cell: bus.CellOf(expander),
		})

		n.plug(index, expander.Children)
	}

	return n.Numbers
}

// expanderPlaces returns addresses on the root bus for the expander buses, or the budget that
// they exceed. Each has a slot. Where slots run out, expander buses are further functions of
// these slots: first function 1 of each, so that one more expander bus leaves those before it
// where they are. libvirt keeps such addresses (case more-roots-than-slots), and firmware and
// kernel find the buses by number (test/boot, TestLayouts).
func expanderPlaces(r reservation) ([]domain.GuestAddress, []reasons.Finding) {
	count := len(r.expanders)
	places := expanderSlots(r)
	slots := len(places)
	for function := 1; function < bus.FunctionsPerSlot; function++ {
		for i := range slots {
			place := domain.GuestAddress{Slot: places[i].Slot, Function: function}
			if len(places) < count && r.guest.IsFree(place) {
				places = append(places, place)
				places[i].Multifunction = true
			}
		}
	}

	if excess := count - len(places); excess > 0 {
		return nil,
			[]reasons.Finding{bus.Exceeded("functions on the root bus: the layout needs %d, %d "+
				"are free: %d too many",
				count, len(places), excess)}
	}

	return places, nil
}

// expanderSlots returns slots for expander buses, at most one for each: first those of expander
// buses that they replace, since a port that libvirt would put there moves disks and NICs.
func expanderSlots(r reservation) []domain.GuestAddress {
	count := len(r.expanders)
	places := slices.Clone(r.slots[:min(count, len(r.slots))])
	// Slots of replaced expander buses come first, so that a second call takes the same. left is how
	// many of the free slots the root ports can spare; it may be negative.
	free, left := r.guest.FreeSlots(), r.rootBus.SlotsLeft()+count // the expander buses hold some
	for _, a := range places {
		if at := slices.Index(free, a.Slot); at >= 0 {
			free, left = slices.Delete(free, at, at+1), left-1
		}
	}

	// Root ports of freed indexes may need some of these slots. The highest are after all ports.
	compareSlots := func(x, y domain.GuestAddress) int { return cmp.Compare(x.Slot, y.Slot) }
	for ; left < 0 && len(places) > 1; left++ {
		highest := slices.Index(places, slices.MaxFunc(places, compareSlots))
		places = slices.Delete(places, highest, highest+1)
	}

	for _, slot := range free[:max(0, min(count-len(places), len(free), left))] {
		places = append(places, domain.GuestAddress{Slot: slot})
	}

	return places
}

// numberer gives out indexes.
type numberer struct {
	Numbers
	freed      []int // that are free again, ascending
	highest    int   // that is taken
	named      []int // that are not taken
	hotplugOff bool
}

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

	for n.highest++; slices.Contains(n.named, n.highest); n.highest++ {
	}
	return n.highest
}

// slotsPerBus is how many slots the bus of an expander or of an upstream port
// has, from 0; each takes eight ports (libvirt src/conf/domain_addr.c,
// virDomainPCIAddressBusSetModel).
const slotsPerBus = 32

// plug numbers the nodes on a bus, and all that is under them. Where there are more ports than
// slots, each slot takes several in turn: firmware numbers buses by slot, then by function, and
// the order of the ports is to be that of their addresses.
func (n *numberer) plug(index int, children []*topology.Node) {
	perSlot := (len(children) + slotsPerBus - 1) / slotsPerBus
	for i, c := range children {
		if id, isDevice := c.ID.(topology.DeviceID); isDevice {
			n.Addresses[id] = domain.GuestAddress{
				Bus:           index,
				Function:      c.Function,
				Multifunction: c.Function == 0 && len(children) > 1,
			}
			continue
		}

		controller := domain.Controller{
			Index:   n.take(),
			Model:   bus.ModelUnder(c.Parent.Kind),
			Address: &domain.GuestAddress{Bus: index},
		}

		if c.Kind.IsPort() {
			controller.HotplugOff = n.hotplugOff
			controller.Address.Slot, controller.Address.Function = i/perSlot, i%perSlot
			controller.Address.Multifunction = perSlot > 1 && i%perSlot == 0 && i+1 < len(children)
		}

		n.Controllers = append(n.Controllers, controller)
		n.plug(controller.Index, c.Children)
	}
}

// PortsToClose returns the indexes of ports that have to get hotplug='off' again in a domain
// that is as the layout wants it: KubeVirt 1.9.0 loses it between the calls of a boot
// (virtwrap/api/schema.go, ControllerTarget). Firmware reserves windows for each slot that can
// hotplug. With many downstream ports it then ends with no BAR assigned (measured with OVMF
// 2022.11), so they are closed whoever built them; root ports that another tool built are harmless
// and left alone.
func PortsToClose(rep Replacement) []int {
	trees := rep.Current.Managed(rep.Managed)
	if !rep.HotplugOff || len(trees) == 0 {
		return nil
	}

	// Open ports of the trees that hold managed devices.
	var open []int
	for _, c := range rep.Current.Given.Controllers {
		n := rep.Current.Node(c.Index)
		isClosable := c.Model == domain.DownstreamPort || c.Model == domain.RootPort
		if isClosable && !c.HotplugOff && rep.Managed.AnyUnder(n) && slices.Contains(trees, n.Top()) {
			open = append(open, c.Index)
		}
	}

	if len(open) == 0 || rep.isOwn(trees) {
		return open
	}

	// Another tool's: its downstream ports are closed, its root ports are not.
	return slices.DeleteFunc(open, func(index int) bool {
		return rep.Current.Given.Controller(index).Model == domain.RootPort
	})
}

// isOwn reports whether expander buses have the bus numbers that an earlier call of
// the hook gave them. KubeVirt gives each the exact need from 256 downwards
// (converter/pci-placement.go), the hook only where ranges of one size do not fit;
// closing KubeVirt's ports then does no harm.
func (rep Replacement) isOwn(expanders []*topology.Node) bool {
	r := reserve(rep)
	own, _ := busNumbersOf(expanders, r.guest, r.rootBus)
	for _, e := range rep.Current.Numbered() {
		at := slices.Index(expanders, rep.Current.Node(e.Index))
		if at >= 0 && (at >= len(own) || own[at] != *e.BusNr) {
			return false
		}
	}

	return true
}
