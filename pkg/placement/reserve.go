package placement

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// KubeVirt's count of free root ports for hotplug, topology v3 (KubeVirt
// pkg/virt-launcher/virtwrap/manager.go, calculateHotplugPortCountV2).
const (
	largeMemory      = 2 << 30 // bytes
	largeTotalPorts  = 16
	largeFreePorts   = 6
	smallTotalPorts  = 8
	smallFreePorts   = 3
	kubevirtMaxIndex = 31 // it appends no root port past this index
)

// portCount is how many root ports are to stay free for hotplug.
type portCount struct {
	kubevirt int // that KubeVirt keeps free
	hook     int // that the hook keeps free, where controllers go past KubeVirt's last index
}

// portCountOf is what the policy says, or what KubeVirt gives a domain of this
// size.
func portCountOf(in Input, current guest, devices []Device) portCount {
	p := portCount{}
	if !onRootComplex(in) {
		total, free := smallTotalPorts, smallFreePorts
		if in.Domain.MemoryBytes > largeMemory {
			total, free = largeTotalPorts, largeFreePorts
		}
		p.kubevirt = max(total-portsInUse(current, devices), free)
	}
	p.hook = in.Policy.HotplugPorts
	if p.hook == policy.HotplugAuto {
		p.hook = p.kubevirt
	}
	return p
}

// portsInUse counts devices as KubeVirt does before the first define
// (converter/pci-placement.go, CountPCIDevices): without placeholder NICs, SATA
// controllers and mediated devices. Hostdevs count wherever they are.
func portsInUse(current guest, devices []Device) int {
	count := 0
	for _, d := range devices {
		if d.ID.Kind() == topology.KindPCI {
			count++
		}
	}
	for _, o := range current.others {
		switch o.Element {
		case "interface":
			if !strings.HasPrefix(o.Alias, "placeholder-") {
				count++
			}
		case "controller":
			if o.Type != "sata" {
				count++
			}
		case "disk", "input", "watchdog", "rng", "memballoon":
			count++
		}
	}
	return count
}

// free is how many root ports will be free for hotplug in the end, in a domain
// whose controllers reach the index highest.
func (p portCount) free(highest int) int {
	if highest < kubevirtMaxIndex {
		return p.kubevirt
	}
	return p.hook
}

// rootBus is what the root bus holds, and what it has to have room for.
type rootBus struct {
	bridges     int // controllers at the root bus and under it, without expander buses
	rootPorts   int // bridges that are root ports
	free        int // root ports with nothing under them
	unaddressed int // bridges without an address that are no root ports
	pending     int // devices without an address that will take a root port
	added       int // bridges that libvirt, KubeVirt and the hook will add
	otherSlots  int // slots that are not for root ports
}

// rootBusOf counts what is on the root bus of a guest whose controllers will
// reach the index highest.
func rootBusOf(g guest, ports portCount, highest int) rootBus {
	r := rootBus{otherSlots: otherSlots(g), pending: libvirt.Unaddressed(g.Domain, g.others)}
	for _, c := range g.Controllers {
		n := g.node(c.Index)
		switch {
		case n.Kind == topology.Root, n.Top() != g.rootBus():
			continue
		case c.Model == domain.RootPort:
			r.rootPorts++
			if len(n.Children) == 0 {
				r.free++
			}
		case c.Address == nil:
			r.unaddressed++
		}
		r.bridges++
	}
	r.added = r.missing(ports.free(highest))
	if libvirt.LacksBridge(g.others) {
		r.added += 2 // a bridge to conventional PCI, and the root port above it
	}
	return r
}

// missing is how many root ports are to be added, so that a number of them stays
// free once each pending device has one.
func (r rootBus) missing(free int) int { return max(0, r.pending+free-r.free) }

// busNumbers is how many bus numbers the root bus takes in the end, its own
// included.
func (r rootBus) busNumbers() int { return 1 + r.bridges + r.added }

// ports is how many ports and other bridges take a place on the root bus in the
// end, at most.
func (r rootBus) ports() int { return r.rootPorts + r.unaddressed + r.added }

// functionsPerSlot is how many ports a slot takes (libvirt
// src/conf/domain_addr.c, virDomainPCIAddressBusSetModel).
const functionsPerSlot = 8

// portCapacity is how many root ports the root bus takes. libvirt packs those
// without address eight per slot, also into slots that hold one and into those
// that it keeps for devices that do not exist. Here every open slot counts for
// eight, before libvirt gives addresses and after.
func (r rootBus) portCapacity() int {
	return functionsPerSlot * max(0, len(openSlots())-r.otherSlots)
}

// slotsLeft is how many slots the root ports leave to expander buses.
func (r rootBus) slotsLeft() int { return (r.portCapacity() - r.ports()) / functionsPerSlot }

// openSlots are the slots of the root bus that the hook takes, in this order.
// Left out are those that libvirt keeps for devices without address: VGA (0x01),
// USB 2 (0x1a, 0x1d), sound (0x1b), a bridge (0x1e) and the chipset (0x1f).
// Taking one moves disks and NICs (measured, libvirt 9 and 11).
func openSlots() []int {
	return []int{
		0x1c, 0x19, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x10, 0x0f, 0x0e,
		0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02,
	}
}

// freeSlots are the open slots that hold nothing.
func freeSlots(g guest) []int {
	taken := map[int]bool{}
	for _, n := range g.rootBus().Children {
		taken[n.Slot] = true
	}
	for _, e := range g.expanders {
		if e.Address != nil && e.Address.Bus == 0 {
			taken[e.Address.Slot] = true
		}
	}
	return slices.DeleteFunc(openSlots(), func(slot int) bool { return taken[slot] })
}

// otherSlots counts the slots that hold something else than root ports: open
// ones, and any that an expander bus has or will have.
func otherSlots(g guest) int {
	held := map[int]bool{}
	count := 0
	for _, e := range g.expanders {
		if e.Address == nil {
			count++
			continue
		}
		held[e.Address.Slot] = true
	}
	open := openSlots()
	for _, n := range g.rootBus().Children {
		if n.Kind != topology.RootPort && slices.Contains(open, n.Slot) {
			held[n.Slot] = true
		}
	}
	return count + len(held)
}

// reservation is what the numbers of a layout have to leave room for: the
// domain without what the layout replaces, and what libvirt and KubeVirt add.
type reservation struct {
	removed []int               // positions in Domain.Controllers, of those that the layout replaces
	guest   guest               // without these and without the placed devices
	ports   []domain.Controller // root ports of missing indexes and of those that are not used again
	freed   []int               // indexes that may be used again, ascending
	highest int                 // the highest index in use or named by an address
	rootBus rootBus

	// vacant are the places on the root bus of the expander buses that the layout
	// replaces, by index; the last ones, fillers of them, are not to be left free.
	vacant  []domain.GuestAddress
	fillers int
}

// reserve is the guest without what the layout replaces.
func reserve(current guest, decisions []Decision, managed deviceSet, ports portCount, wanted *topology.Tree) reservation {
	r := reservation{removed: vacated(current, managed)}
	r.vacant, r.fillers = vacantPlaces(current, r.removed, len(wanted.Roots))
	controllers := controllersOf(wanted) + r.fillers
	rest := remaining(current, decisions, r.removed)
	r.highest = libvirt.HighestIndex(rest, current.others)
	for _, i := range r.removed {
		if index := current.source.Controllers[i].Index; index < r.highest {
			r.freed = append(r.freed, index)
		}
	}
	slices.Sort(r.freed)
	holes := slices.DeleteFunc(libvirt.Holes(rest, current.others), func(index int) bool { return slices.Contains(r.freed, index) })
	r.ports = holePorts(current, holes)
	rest.Controllers = slices.Concat(rest.Controllers, r.ports)
	// Freed indexes that the layout does not take become root ports, too.
	unused := r.freed[min(len(r.freed), controllers):]
	r.guest = newGuest(rest, unused, current.others)
	r.ports = append(r.ports, unusedPorts(r.guest, r.vacant, unused)...)
	r.rootBus = rootBusOf(r.guest, ports, r.highest+max(0, controllers-len(r.freed)))
	return r
}

// vacated is the positions of the controllers that hold nothing once the
// managed devices are gone, expander buses with all that is under them. One that
// was empty before goes, too, if it has a free port: libvirt would plug a device
// into it.
func vacated(current guest, managed deviceSet) []int {
	referenced := current.referenced()
	isVacated := map[*topology.Node]bool{}
	for _, expander := range current.tree.Roots[1:] {
		isVacated[expander] = !referenced[expander] &&
			(managed.holdsAny(expander) || !isOccupied(expander) && len(freePorts(expander)) > 0)
	}
	var positions []int
	for i, c := range current.source.Controllers {
		if n := current.node(c.Index); isVacated[n.Top()] && !managed.holdsAnyOther(n) {
			positions = append(positions, i)
		}
	}
	return positions
}

// remaining is the domain without the controllers at the positions in removed,
// without the devices that are placed, and with no address for those that were
// under a removed controller.
func remaining(current guest, decisions []Decision, removed []int) *domain.Domain {
	rest := current.source.After(domain.Changes{RemoveControllers: removed})
	rest.Hostdevs = nil
	gone := map[int]bool{}
	for _, i := range removed {
		gone[current.source.Controllers[i].Index] = true
	}
	for _, decision := range decisions {
		if decision.Outcome == Placed {
			continue
		}
		h := domain.Hostdev{ID: decision.ID, Alias: decision.Alias, Address: decision.current, Unassigned: decision.unassigned}
		if h.Address != nil && decision.movable && gone[h.Address.Bus] {
			h.Address = nil
		}
		rest.Hostdevs = append(rest.Hostdevs, h)
	}
	return rest
}
