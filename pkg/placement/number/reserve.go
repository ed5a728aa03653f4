package number

import (
	"maps"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/topology"
)

// reservation is the room that the numbers of a layout have to leave: the
// domain without the controllers that the layout replaces, and those that libvirt and KubeVirt add.
type reservation struct {
	expanders []*topology.Node // that are wanted, then fillers
	// positions in Domain.Controllers, of those that the layout replaces
	removed []int
	guest   bus.Guest // without these and without the placed devices
	// that are added: of named and unused indexes, and after all others
	ports   []domain.Controller
	freed   []int // indexes that may be used again, ascending
	highest int   // the highest index in use or named by an address
	rootBus bus.RootBus

	// vacant are the places on the root bus of the expander buses that the layout
	// replaces, by index.
	vacant []domain.GuestAddress
}

// reserve is the guest without the controllers that the layout replaces.
func reserve(l Layout) reservation {
	current := l.Current.WithVersion(l.Plan.Version)
	awaited, last := current.AwaitedPorts()
	addressed := current.Addressed()
	left, waited, fixed := rootBusPorts(l, addressed[:len(current.Controllers)], last)
	gone := vacated(current, l.Managed)
	for _, port := range left {
		gone[port.Index] = true
	}

	rest, _ := without(l, gone)
	r := reservation{highest: libvirt.HighestIndex(&rest, current.Others)}
	freed := slices.Sorted(maps.Keys(gone))
	below, _ := slices.BinarySearch(freed, r.highest)
	freed = freed[:below]
	r.expanders, r.vacant = withFillers(l.Wanted.Roots, addressed, gone, freed, fixed,
		l.leftSlots())
	controllers := countControllers(r.expanders)
	holes := slices.DeleteFunc(libvirt.Holes(&rest, current.Others), func(index int) bool {
		return gone[index]
	})

	// Those before a controller stay libvirt's: it addresses their ports last (9.0) or by index
	// (11.3, 12.8).
	at, _ := slices.BinarySearch(holes,
		libvirt.HighestIndex(&domain.Domain{Controllers: rest.Controllers}, nil))

	// Freed indexes that the layout does not take become root ports, too: the lowest those that
	// devices take.
	r.freed = freed[:min(len(freed), controllers)]
	unused := freed[len(r.freed):]
	waited = slices.DeleteFunc(waited, func(c domain.Controller) bool {
		return len(unused) == 0 || c.Index < unused[0]
	})

	for _, port := range waited {
		gone[port.Index] = true
		unused = append(unused, port.Index)
	}

	slices.Sort(unused)
	isInSlot := func(n *topology.Node) bool { return n.Slot != topology.NoSlot && l.Managed.Has(n) }
	if len(left)+len(unused) == 0 && !slices.ContainsFunc(current.Root().Children, isInSlot) {
		awaited = nil // libvirt adds these ports where it does without the hook
	}

	r.ports, unused, r.highest = renumber(slices.Concat(waited, awaited, left), unused, r.highest)
	rest, r.removed = without(l, gone)
	rest.Controllers = append(rest.Controllers, r.ports...)

	if len(unused)+len(holes[at:]) > 0 {
		// An address names the last holes: a device is in their ports.
		named := current.WithRootPorts(&rest, holes[:at]).Beside(r.vacant...).LastPorts(holes[at:])
		more := append(lastPorts(current.WithRootPorts(&rest, holes), r.vacant, unused), named...)
		r.ports = append(r.ports, more...)
		rest.Controllers = append(rest.Controllers, more...)
	}

	r.guest = current.WithRootPorts(&rest, holes[:at])
	r.rootBus = r.guest.RootBus(l.Ports, r.highest+controllers-len(r.freed))
	return r
}

// without is the domain without the controllers that are gone and without the devices that are
// placed, and the positions of these controllers.
func without(l Layout, gone map[int]bool) (rest domain.Domain, removed []int) {
	rest = *l.Current.Source
	rest.Controllers, rest.Hostdevs = nil, l.Unplaced
	for i, c := range l.Current.Source.Controllers {
		if gone[c.Index] {
			removed = append(removed, i)
		} else {
			rest.Controllers = append(rest.Controllers, c)
		}
	}

	return rest, removed
}

// renumber gives ports the first of these indexes, and then those after the highest.
func renumber(
	ports []domain.Controller, indexes []int, highest int,
) (numbered []domain.Controller, unused []int, last int) {
	for i := range ports {
		if len(indexes) == 0 {
			highest++
			indexes = []int{highest}
		}
		ports[i].Index, indexes = indexes[0], indexes[1:]
	}

	return ports, indexes, highest
}

// lastPorts returns root ports of these indexes that change no existing bus number: beside vacant
// slots, and in slots after the last occupied port, since firmware numbers buses by slot.
func lastPorts(g bus.Guest, vacant []domain.GuestAddress, indexes []int) []domain.Controller {
	g = g.Beside(vacant...)
	last := 0
	isHeld := g.Held()
	for _, c := range alloc.Controllers(g.Domain, g.Others, g.Libvirt, nil, 0) {
		if isHeld(c.Index) && c.Model != domain.ExpanderBus && c.Address != nil &&
			c.Address.Bus == 0 {
			last = max(last, c.Address.Slot)
		}
	}

	isBefore := func(c domain.Controller) bool { return c.Address != nil && c.Address.Slot < last }
	if !slices.ContainsFunc(g.RootPorts(indexes, 0), isBefore) {
		return g.LastPorts(indexes)
	}

	return g.RootPorts(indexes, last)
}

// countControllers is how many controllers the trees under expander buses are.
func countControllers(expanders []*topology.Node) int {
	count := 0
	for _, expander := range expanders {
		count += expander.Bridges()
	}
	return count
}

// vacated is the indexes of the controllers that hold nothing once the
// managed devices are gone, expander buses with all that is under them. One that
// was empty before goes, too, if it has a free port: libvirt would plug a device
// into it.
func vacated(current bus.Guest, managed bus.Devices) map[int]bool {
	referenced := current.Referenced()
	isVacated := map[*topology.Node]bool{}
	for _, expander := range current.Tree.Roots[1:] {
		isVacated[expander] = !referenced[expander] &&
			(managed.AnyUnder(expander) || !bus.IsOccupied(expander) &&
				len(bus.FreePorts(expander)) > 0)
	}

	gone := map[int]bool{}
	for _, c := range current.Source.Controllers {
		if n := current.Node(c.Index); isVacated[n.Top()] && !managed.OthersUnder(n) {
			gone[c.Index] = true
		}
	}

	return gone
}

// rootBusPorts finds ports among the addressed controllers. left has the ports that managed
// devices leave, if unaddressed disks, NICs or controllers, or hostdevs that stay, would be
// plugged into them: libvirt takes the free port with the lowest index. They come after all ports
// that such devices take without the hook. waited has the free root ports that such devices take.
// fixed is the highest index that has to stay: of a port that such a device takes, if something
// names the port or it is not on the root bus.
func rootBusPorts(
	l Layout, addressed []domain.Controller, last int,
) (left, waited []domain.Controller, fixed int) {
	current, plugged := l.Current, l.Current.LastPlugged(l.Managed)
	fixed = plugged
	for _, c := range addressed {
		n := current.Node(c.Index)
		isNamed := slices.Contains(current.References, c.Index)
		switch isTaken := c.Index <= last && len(n.Children) == 0; {
		case !n.Kind.IsPort():
		case isTaken && (isNamed || n.Parent != current.Root()):
			fixed = max(fixed, c.Index)
		case isTaken:
			waited = append(waited, c)
		case c.Index < max(last, plugged) && l.Managed.HaveAll(n) && n.Top() == current.Root() &&
			!isNamed:
			left = append(left, c)
		}
	}

	return left, waited, fixed
}

// leftSlots returns the slots of the root bus that managed devices leave, if the plan takes them.
func (l Layout) leftSlots() (slots []domain.GuestAddress) {
	if !l.Plan.TakesLeft {
		return nil
	}

	for _, n := range l.Current.Root().Children {
		if n.Slot != topology.NoSlot && n.Function == 0 && l.Managed.Has(n) {
			slots = append(slots, domain.GuestAddress{Slot: n.Slot})
		}
	}

	return slots
}
