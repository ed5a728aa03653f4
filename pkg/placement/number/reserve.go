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
	ports     []domain.Controller // root ports of missing indexes and of those that are not used again
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
	r := reservation{expanders: l.Wanted.Roots, removed: vacated(current, l.Managed)}
	left, awaited := portsLeft(l)
	r.removed = append(r.removed, left...)
	gone := make(map[int]bool, len(r.removed))
	for _, i := range r.removed {
		gone[current.Source.Controllers[i].Index] = true
	}
	var fillers int
	r.vacant, fillers = vacantPlaces(current, gone, len(l.Wanted.Roots))
	for range fillers {
		r.expanders = append(slices.Clip(r.expanders), &topology.Node{Kind: topology.Root})
	}
	controllers := countControllers(r.expanders)
	rest := *current.Source // without these controllers and without the devices that are placed
	rest.Controllers = slices.DeleteFunc(slices.Clone(rest.Controllers), func(c domain.Controller) bool { return gone[c.Index] })
	rest.Hostdevs = l.Unplaced
	r.highest = libvirt.HighestIndex(&rest, current.Others)
	for index := range gone {
		if index < r.highest {
			r.freed = append(r.freed, index)
		}
	}
	slices.Sort(r.freed)
	holes := slices.DeleteFunc(libvirt.Holes(&rest, current.Others), func(index int) bool { return slices.Contains(r.freed, index) })
	r.ports = holePorts(current, holes)
	for _, i := range left {
		awaited = append(awaited, current.Source.Controllers[i])
	}
	for _, port := range awaited {
		r.highest++
		port.Index = r.highest
		r.ports = append(r.ports, port)
	}
	rest.Controllers = slices.Concat(rest.Controllers, r.ports)
	// Freed indexes that the layout does not take become root ports, too.
	unused := r.freed[min(len(r.freed), controllers):]
	r.guest = bus.WithRootPorts(&rest, current.Others, unused)
	r.ports = append(r.ports, unusedPorts(r.guest, r.vacant, unused)...)
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

// vacated is the positions of the controllers that hold nothing once the
// managed devices are gone, expander buses with all that is under them. One that
// was empty before goes, too, if it has a free port: libvirt would plug a device
// into it.
func vacated(current bus.Guest, managed bus.Devices) []int {
	referenced := current.Referenced()
	isVacated := map[*topology.Node]bool{}
	for _, expander := range current.Tree.Roots[1:] {
		isVacated[expander] = !referenced[expander] &&
			(managed.AnyUnder(expander) || !bus.IsOccupied(expander) && len(bus.FreePorts(expander)) > 0)
	}
	var positions []int
	for i, c := range current.Source.Controllers {
		if n := current.Node(c.Index); isVacated[n.Top()] && !managed.OthersUnder(n) {
			positions = append(positions, i)
		}
	}
	return positions
}

// portsLeft is the positions of the root ports that managed devices leave on the root bus where
// disks, NICs or controllers without an address would be plugged into them: libvirt takes the
// free port with the lowest index, and adds one where none is free. So these ports get
// indexes after all others, and before them come those that it adds without the hook.
func portsLeft(l Layout) (positions []int, added []domain.Controller) {
	current := l.Current
	added, last := current.AwaitedPorts()
	leavesSlot := slices.ContainsFunc(current.Root().Children, func(n *topology.Node) bool {
		return n.Slot != topology.NoSlot && l.Managed.Has(n)
	})
	for i, c := range current.Source.Controllers {
		n := current.Node(c.Index)
		if c.Model == domain.RootPort && c.Index < last && n.Top() == current.Root() && l.Managed.AnyUnder(n) && !l.Managed.OthersUnder(n) &&
			!slices.Contains(current.References, c.Index) {
			positions = append(positions, i)
		}
	}
	if len(positions) == 0 && !leavesSlot {
		return nil, nil
	}
	return positions, added
}
