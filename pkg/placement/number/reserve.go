package number

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/topology"
)

// reservation is the room that the numbers of a layout have to leave: the
// domain without the controllers that the layout replaces, and those that libvirt and KubeVirt add.
type reservation struct {
	expanders []*topology.Node    // that are wanted, then fillers
	removed   []int               // positions in Domain.Controllers, of those that the layout replaces
	guest     bus.Guest           // without these and without the placed devices
	ports     []domain.Controller // that are added: of named and unused indexes, and after all others
	freed     []int               // indexes that may be used again, ascending
	highest   int                 // the highest index in use or named by an address
	rootBus   bus.RootBus

	// vacant are the places on the root bus of the expander buses that the layout
	// replaces, by index.
	vacant []domain.GuestAddress
}

// reserve is the guest without the controllers that the layout replaces.
func reserve(l Layout) reservation {
	current := l.Current
	r := reservation{expanders: l.Wanted.Roots}
	gone := vacated(current, l.Managed)
	awaited, left := portsLeft(l)
	for _, port := range left {
		gone[port.Index] = true
	}
	rest := *current.Source // without these controllers and without the devices that are placed
	rest.Controllers = nil
	for i, c := range current.Source.Controllers {
		if gone[c.Index] {
			r.removed = append(r.removed, i)
		} else {
			rest.Controllers = append(rest.Controllers, c)
		}
	}
	rest.Hostdevs = l.Unplaced
	r.highest = libvirt.HighestIndex(&rest, current.Others)
	for index := range gone {
		if index < r.highest {
			r.freed = append(r.freed, index)
		}
	}
	slices.Sort(r.freed)
	var fillers int
	r.vacant, fillers = vacantPlaces(current, gone, len(l.Wanted.Roots))
	// A port that libvirt makes of a freed index would be taken before those of higher indexes.
	before, _ := slices.BinarySearch(r.freed, current.LastPlugged(l.Managed))
	for range max(fillers, before-countControllers(l.Wanted.Roots)) {
		r.expanders = append(slices.Clip(r.expanders), &topology.Node{Kind: topology.Root})
	}
	controllers := countControllers(r.expanders)
	holes := slices.DeleteFunc(libvirt.Holes(&rest, current.Others), func(index int) bool { return gone[index] })
	// Those before a controller stay libvirt's: it addresses their ports last (9.0) or by index (11.3, 12.8).
	last, _ := slices.BinarySearch(holes, libvirt.HighestIndex(&domain.Domain{Controllers: rest.Controllers}, nil))
	for _, port := range slices.Concat(awaited, left) {
		r.highest++
		port.Index = r.highest
		r.ports = append(r.ports, port)
	}
	rest.Controllers = slices.Concat(rest.Controllers, r.ports)
	// Freed indexes that the layout does not take become root ports, too.
	added := slices.Concat(r.freed[min(len(r.freed), controllers):], holes[last:])
	others := slices.Clip(current.Others)
	for i := range r.vacant {
		others = append(others, libvirt.Device{Device: domain.Device{Address: &r.vacant[i]}})
	}
	r.ports = append(r.ports, bus.WithRootPorts(&rest, others, holes[:last]).LastPorts(added)...)
	r.guest = bus.WithRootPorts(&rest, current.Others, slices.Concat(holes[:last], added))
	r.rootBus = r.guest.RootBus(l.Ports, r.highest+max(0, controllers-len(r.freed)))
	return r
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
			(managed.AnyUnder(expander) || !bus.IsOccupied(expander) && len(bus.FreePorts(expander)) > 0)
	}
	gone := map[int]bool{}
	for _, c := range current.Source.Controllers {
		if n := current.Node(c.Index); isVacated[n.Top()] && !managed.OthersUnder(n) {
			gone[c.Index] = true
		}
	}
	return gone
}

// portsLeft is the ports that managed devices leave on the root bus and under it, where disks, NICs
// or controllers without an address, or hostdevs that stay, would be plugged into them: libvirt takes
// the free port with the lowest index, and adds one where none is free. So these ports come after
// all others, and before them those that are awaited: libvirt adds them without the hook.
func portsLeft(l Layout) (awaited, left []domain.Controller) {
	current := l.Current
	awaited, last := current.AwaitedPorts()
	for i, h := range current.Hostdevs {
		if current.Source.Hostdevs[i].Address == nil && h.Address != nil && !l.Managed[h.ID] {
			last = max(last, h.Address.Bus)
		}
	}
	addresses := libvirt.ControllerAddresses(current.Domain, current.Others, nil)
	for _, c := range current.Controllers {
		n := current.Node(c.Index)
		if n.Kind.IsPort() && c.Index < last && n.Top() == current.Root() && l.Managed.HaveAll(n) && !slices.Contains(current.References, c.Index) {
			if a, found := addresses[c.Index]; found {
				c.Address = &a
			}
			left = append(left, c)
		}
	}
	leavesSlot := slices.ContainsFunc(current.Root().Children, func(n *topology.Node) bool {
		return n.Slot != topology.NoSlot && l.Managed.Has(n)
	})
	if len(left) == 0 && !leavesSlot {
		return nil, nil
	}
	return awaited, left
}
