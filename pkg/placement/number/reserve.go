package number

import (
	"maps"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/topology"
)

// reservation is the room that the numbers of a layout have to leave: the domain without the
// controllers that the layout replaces, and those that libvirt and KubeVirt add.
type reservation struct {
	expanders []*topology.Node // that are wanted, then empty ones
	removed   []int            // the indexes of the controllers that are replaced
	guest     bus.Guest        // without these and without the placed devices
	rootBus   bus.RootBus      // of the whole guest

	ports   []domain.Controller   // root ports that are added
	named   []int                 // their indexes beyond highest, which something names
	freed   []int                 // indexes that the layout takes again, ascending
	highest int                   // the highest index in use or named by an address
	slots   []domain.GuestAddress // of the root bus, which expander buses take first
}

// reserve returns the room that a layout has to leave with its plan.
func reserve(rep Replacement) reservation {
	// First what goes: the controllers above managed devices, and with a plan that pins ports also the
	// ports that managed devices leave free before those that other devices take.
	rep.Current = rep.Current.WithVersion(rep.Version)
	gone := vacated(rep.Current, rep.Managed)

	var needed, left []domain.Controller
	if rep.Plan.PinsPorts {
		needed, left = rep.Current.OpenPorts(rep.Managed)
	}

	for _, port := range left {
		gone[port.Index] = true
	}

	// Then what stays, and with it the highest index. Of the indexes below that are free again the
	// layout takes the lowest, the rest become root ports: first those that devices need, then those
	// that are made again, last those that only fill an index.
	rest, _ := without(rep, gone)
	r := reservation{highest: rest.HighestIndex()}

	spare := r.reuse(rep, gone)
	spare = r.pin(rep, gone, needed, spare)
	spare = r.addPorts(left, spare)

	// The layout leaves out indexes beyond all others that something names: what is said of pci.9
	// must not be said of a port of the layout's. They become root ports, as in the domain that
	// libvirt reads back if it has that many.
	r.named = namedBeyond(rep.Current, r.highest, countControllers(r.expanders)-len(r.freed))
	spare = append(spare, r.named...)

	// libvirt would make root ports of the indexes that are left over, too.
	last := bus.RootPorts(spare)
	if rep.Plan.PinsPorts {
		last = rep.Current.LastPorts(spare)
	}

	// pin may have taken more controllers away, so that the rest is made again, now with all ports.
	named, missing := missingIndexes(rep, gone)
	r.ports = slices.Concat(r.ports, last, bus.RootPorts(named))
	rest, r.removed = without(rep, gone)
	rest.Controllers = append(rest.Controllers, r.ports...)

	// Counted is the root bus of the guest with the layout; slots and bus numbers are looked for in
	// the guest without it.
	r.guest = rep.Current.WithRootPorts(rest.Domain, missing)
	r.rootBus = r.whole(*rest.Domain, rep).RootBus(rep.Ports, r.last())
	return r
}

// last returns the highest index that the layout takes.
func (r reservation) last() int {
	return r.highest + countControllers(r.expanders) - len(r.freed) + len(r.named)
}

// namedBeyond returns the indexes that something names among those of controllers that are added
// after the highest, in their order.
func namedBeyond(g bus.Guest, highest, added int) (named []int) {
	for index := highest + 1; index <= highest+added+len(named); index++ {
		if slices.Contains(g.References, index) {
			named = append(named, index)
		}
	}
	return named
}

// whole returns the guest with the layout, whose expander buses have no number and no slot yet. Of
// it, and not of the rest without the layout, is known what libvirt makes: the indexes that the
// layout takes would be missing. Where it takes too many there is no such guest.
func (r reservation) whole(rest domain.Domain, rep Replacement) bus.Guest {
	if r.last() > libvirt.MaxIndex {
		return r.guest
	}

	n := r.numbers(rep.HotplugOff)
	rest.Controllers = slices.Concat(rest.Controllers, n.Controllers[len(r.ports):])
	rest.Hostdevs = slices.Clip(rest.Hostdevs)
	for id, at := range n.Addresses {
		rest.Hostdevs = append(rest.Hostdevs, domain.Hostdev{ID: id, Address: &at})
	}

	return rep.Current.With(&rest)
}

// missingIndexes returns the indexes without a controller in two parts. Named are those past all
// that the domain has: of ports that libvirt would add, up to one that something in the domain
// names. The layout's indexes are higher, so they would be missing, and the hook makes these ports.
// The others are missing without the hook, too, and stay libvirt's.
func missingIndexes(rep Replacement, gone map[int]bool) (named, others []int) {
	// What is only reserved is not in the domain, and does not count.
	highest := libvirt.NewGuest(rep.Current.Given.Domain).HighestIndex()

	rest, _ := without(rep, gone)
	for _, index := range rest.Holes() {
		switch {
		case gone[index]:
		case index > highest:
			named = append(named, index)
		default:
			others = append(others, index)
		}
	}

	return named, others
}

// reuse gives the layout the slots and the lowest of the indexes of the controllers that are gone.
// It returns the indexes that are left over.
func (r *reservation) reuse(rep Replacement, gone map[int]bool) (spare []int) {
	freed := slices.Sorted(maps.Keys(gone))
	below, _ := slices.BinarySearch(freed, r.highest)
	freed = freed[:below]

	r.slots = freedSlots(rep, gone)
	r.expanders = withEmpty(rep, len(r.slots), len(freed))
	r.freed = freed[:min(len(freed), countControllers(r.expanders))]
	return freed[len(r.freed):]
}

// pin adds the root ports that devices need and that libvirt would add, and makes those again that
// a port of a spare index would come before. It returns the spare indexes that are left.
func (r *reservation) pin(
	rep Replacement, gone map[int]bool, needed []domain.Controller, spare []int,
) []int {
	var ports []domain.Controller
	indexes := slices.Clone(spare)
	for _, port := range needed {
		// A port of the domain's with a lower index than all spare ones is taken first as it is.
		isThere := rep.Current.Node(port.Index) != nil
		if isThere && (len(spare) == 0 || port.Index < spare[0]) {
			continue
		}

		if isThere {
			gone[port.Index] = true
			indexes = append(indexes, port.Index)
		}

		ports = append(ports, port)
	}

	// Ports are in the order in which libvirt takes them, so each gets the next index, and what is
	// left comes after all of them.
	slices.Sort(indexes)
	return r.addPorts(ports, indexes)
}

// addPorts adds ports with the first of these indexes, and then with those after the highest. It
// returns the indexes that are left.
func (r *reservation) addPorts(ports []domain.Controller, indexes []int) []int {
	for _, port := range ports {
		if len(indexes) == 0 {
			r.highest++
			indexes = []int{r.highest}
		}

		port.Index, indexes = indexes[0], indexes[1:]
		r.ports = append(r.ports, port)
	}

	return indexes
}

// vacated returns the indexes of the controllers that hold nothing once the managed devices are
// gone: expander buses with all that is under them. One that was empty before goes, too, if it has
// a free port: libvirt would plug a device into it.
func vacated(current bus.Guest, managed bus.Devices) map[int]bool {
	referenced := current.Referenced()
	isVacated := map[*topology.Node]bool{}
	// An expander bus goes if nothing names it and it held managed devices, or nothing but free ports.
	for _, expander := range current.Tree.Roots[1:] {
		isVacated[expander] = !referenced[expander] &&
			(managed.AnyUnder(expander) || !bus.IsOccupied(expander) &&
				len(bus.FreePorts(expander)) > 0)
	}

	// Of its controllers those stay that hold another device.
	gone := map[int]bool{}
	for _, c := range current.Given.Controllers {
		if n := current.Node(c.Index); isVacated[n.Top()] && !managed.OthersUnder(n) {
			gone[c.Index] = true
		}
	}

	return gone
}

// without returns the guest without the controllers that are gone and without the devices that are
// placed, and the indexes of these controllers. Its domain is a copy.
func without(rep Replacement, gone map[int]bool) (rest libvirt.Guest, removed []int) {
	d := *rep.Current.Given.Domain
	rest = libvirt.Guest{Domain: &d, Devices: rep.Current.Devices}
	rest.Controllers, rest.Hostdevs = nil, rep.Unplaced
	for _, c := range rep.Current.Given.Controllers {
		if gone[c.Index] {
			removed = append(removed, c.Index)
		} else {
			rest.Controllers = append(rest.Controllers, c)
		}
	}

	return rest, removed
}

// freedSlots returns the slots of the root bus that the replaced expander buses leave, by index,
// and, where the plan takes them, those that managed devices leave.
func freedSlots(rep Replacement, gone map[int]bool) (slots []domain.GuestAddress) {
	for _, c := range rep.Current.Addressed() {
		if gone[c.Index] && c.Model == domain.ExpanderBus && c.Address != nil &&
			c.Address.Bus == 0 && c.Address.Function == 0 {
			slots = append(slots, domain.GuestAddress{Slot: c.Address.Slot})
		}
	}

	// A qemu:commandline argument may have a device in such a slot.
	slots = slices.DeleteFunc(slots, func(a domain.GuestAddress) bool {
		return rep.Current.ArgumentAt(a.Slot) != nil
	})

	if !rep.Plan.TakesDeviceSlots {
		return slots
	}

	for _, n := range rep.Current.Root().Children {
		if n.Slot != topology.NoSlot && n.Function == 0 && rep.Managed.Has(n) {
			slots = append(slots, domain.GuestAddress{Slot: n.Slot})
		}
	}

	return slots
}

// withEmpty returns the expander buses that are wanted, then empty ones: as many as fill a number
// of slots and of indexes, where the plan does.
func withEmpty(rep Replacement, slots, indexes int) []*topology.Node {
	expanders := slices.Clip(rep.Wanted.Roots)
	empty := 0
	if rep.Plan.FillsSlots {
		empty = slots - len(expanders)
	}

	if rep.Plan.FillsIndexes {
		empty = max(empty, indexes-countControllers(expanders))
	}

	for range empty {
		expanders = append(expanders, &topology.Node{Kind: topology.Root})
	}

	return expanders
}

// countControllers counts the controllers of expander buses and of the trees under them.
func countControllers(expanders []*topology.Node) int {
	count := 0
	for _, expander := range expanders {
		count += expander.Bridges()
	}
	return count
}
