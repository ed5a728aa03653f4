package bus

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/pkg/topology"
)

// LastKubeVirtIndex is the index past which KubeVirt appends no root port (KubeVirt
// pkg/virt-launcher/virtwrap/manager.go, calculateHotplugPortCountV2).
const LastKubeVirtIndex = 31

// Ports is how many root ports are to stay free for hotplug.
type Ports struct {
	KubeVirt int // that KubeVirt keeps free
	Hook     int // that the hook keeps free, where controllers go past KubeVirt's last index
}

// free returns how many root ports will be free for hotplug in the end, in a domain whose
// controllers reach the index highest before those ports.
func (p Ports) free(highest int) int {
	if highest < LastKubeVirtIndex {
		return p.KubeVirt
	}
	return p.Hook
}

// RootBus counts what is on the root bus in the end, and the room that others need there.
type RootBus struct {
	RootPorts int // of the domain, with those of missing indexes
	Pending   int // devices without an address that will take a port
	Added     int // controllers that libvirt, KubeVirt and the hook will add
	// the highest index after libvirt has added controllers for devices without an address
	Last       int
	free       int   // root ports that stay free for hotplug
	uses       []use // by each libvirt
	otherSlots int   // slots that are not for root ports
}

// use counts what a guest takes of the root bus and of each expander bus once a libvirt has
// completed it.
type use struct {
	pending     int         // devices without an address that take a port
	held        int         // root ports that hold something
	own         int         // root ports that libvirt adds with its bridges, though others may be free
	addedOthers int         // controllers other than root ports that libvirt adds
	bridges     int         // bridges other than root ports at the root bus and under it
	unaddressed int         // of these, those that get an address on the root bus itself
	perExpander map[int]int // bridges at each expander bus and under it, by its index
}

// RootBus counts what is on the root bus of a guest whose controllers will reach the
// index highest.
func (g Guest) RootBus(ports Ports, highest int) RootBus {
	r := RootBus{otherSlots: g.otherSlots(), uses: g.uses()}
	for _, c := range g.Controllers {
		if c.Model == domain.RootPort && g.Node(c.Index).Top() == g.Root() {
			r.RootPorts++
		}
	}

	r.Pending = r.most(func(u use) int { return u.pending })

	// KubeVirt counts after libvirt has added its own.
	r.Last = highest + r.added(0)
	r.free = ports.free(r.Last)
	r.Added = r.added(r.free)
	return r
}

// uses returns what each libvirt makes of the guest. Where none accepts it, everything that may
// take a port does.
func (g Guest) uses() (all []use) {
	for whole := range g.wholes() {
		u := use{bridges: whole.Root().Bridges(), perExpander: map[int]int{}}
		u.pending = g.pendingIn(whole)
		for _, c := range whole.Controllers {
			n, given := whole.Node(c.Index), g.Node(c.Index)
			isOnRoot := n.Parent == whole.Root()
			switch { // root ports are counted apart from other bridges, since ports may be added
			case n.Kind == topology.Root:
				u.perExpander[c.Index] = n.Bridges()
			case c.Model == domain.RootPort && n.Top() == whole.Root():
				u.bridges--
				if len(n.Children) > 0 {
					u.held++
				}

			case given == nil:
				u.addedOthers++
				if c.Model == domain.PCIeToPCIBridge {
					u.own++
				}

			case isOnRoot && given.Slot == topology.NoSlot:
				u.unaddressed++
			}
		}

		// libvirt refuses the guest, or has other rules: nothing was plugged in, and all of it may be.
		if whole.Given.Domain == g.Given.Domain {
			u.held += u.pending
		}

		all = append(all, u)
	}

	return all
}

// pendingIn counts the devices without an address that take a port in a completed guest.
func (g Guest) pendingIn(whole Guest) (count int) {
	inPort := func(a *domain.GuestAddress) bool {
		return a == nil || whole.Node(a.Bus).Kind.IsPort()
	}

	if libvirt.HasExpanderBuses(g.Domain) { // else libvirt has other rules
		for i, o := range g.Devices {
			if isOpen(o) && inPort(whole.Devices[i].Address) {
				count++
			}
		}
	}

	for i, h := range g.Hostdevs {
		if isOpenHostdev(h) && inPort(whole.Hostdevs[i].Address) {
			count++
		}
	}

	return count
}

// most returns the most of what each libvirt makes of a guest, at least 0.
func (r RootBus) most(count func(use) int) (most int) {
	for _, u := range r.uses {
		most = max(most, count(u))
	}
	return most
}

// Missing returns how many root ports are to be added, so that a number of them stays free once
// each pending device has one, and beside those that libvirt adds with bridges of its own.
func (r RootBus) Missing(free int) int {
	return r.most(func(u use) int { return u.held + free - r.RootPorts - u.own })
}

// added returns how many controllers are added in the end, with a number of root ports that stay
// free. Which libvirt it will be is not known when the hook adds its ports.
func (r RootBus) added(free int) int {
	return r.Missing(free) + r.most(func(u use) int { return u.own + u.addedOthers })
}

// BusNumbers returns how many bus numbers the root bus takes in the end, its own included.
func (r RootBus) BusNumbers() int {
	return r.most(func(u use) int { return u.bridges + u.own }) + r.allPorts()
}

// allPorts returns how many root ports there are in the end, but for those of libvirt's bridges.
func (r RootBus) allPorts() int { return r.RootPorts + r.Missing(r.free) }

// Expander returns how many bus numbers the expander bus with an index takes in the end.
func (r RootBus) Expander(index int) int {
	return r.most(func(u use) int { return u.perExpander[index] })
}

// ports returns how many ports and other bridges take a place on the root bus in the end, at most.
func (r RootBus) ports() int {
	return r.most(func(u use) int { return u.unaddressed + u.own }) + r.allPorts()
}

// FunctionsPerSlot is how many ports, or expander buses, a slot takes (libvirt
// src/conf/domain_addr.c, virDomainPCIAddressBusSetModel).
const FunctionsPerSlot = 8

// portCapacity returns how many root ports the root bus takes. libvirt packs those without address
// eight per slot, also into slots that hold one and into those that it keeps for devices that do
// not exist. Here every open slot counts for eight, before libvirt gives addresses and after.
func (r RootBus) portCapacity() int {
	return FunctionsPerSlot * max(0, len(openSlots)-r.otherSlots)
}

// SlotsLeft returns how many slots are left beside the root ports and what holds others, expander
// buses without an address included: fewer than 0 where they are too few.
func (r RootBus) SlotsLeft() int {
	slotsForPorts := (r.ports() + FunctionsPerSlot - 1) / FunctionsPerSlot
	return len(openSlots) - r.otherSlots - slotsForPorts
}

// openSlots are the slots of the root bus that the hook takes, in this order. Left out are those
// that libvirt keeps for devices without address: VGA (0x01), USB 2 (0x1a, 0x1d), sound (0x1b), a
// bridge (0x1e) and the chipset (0x1f). Taking one moves disks and NICs (measured, libvirt 9 and
// 11).
var openSlots = []int{
	0x1c, 0x19, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x10, 0x0f, 0x0e,
	0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02,
}

// FreeSlots returns the open slots that hold nothing, in the order in which the hook takes them.
func (g Guest) FreeSlots() []int {
	taken := map[int]bool{}
	for _, n := range g.Root().Children {
		taken[n.Slot] = true
	}

	for _, e := range g.Expanders {
		if e.Address != nil && e.Address.Bus == 0 {
			taken[e.Address.Slot] = true
		}
	}

	return slices.DeleteFunc(slices.Clone(openSlots), func(slot int) bool { return taken[slot] })
}

// IsFree reports whether nothing is at an address of the root bus.
func (g Guest) IsFree(a domain.GuestAddress) bool {
	isThere := func(n *topology.Node) bool { return n.Slot == a.Slot && n.Function == a.Function }
	return !slices.ContainsFunc(g.Root().Children, isThere) &&
		!slices.ContainsFunc(g.Tree.Roots[1:], isThere)
}

// otherSlots counts the slots that hold something else than root ports: open
// ones, and any that an expander bus has or will have.
func (g Guest) otherSlots() int {
	held := map[int]bool{}
	count := 0
	for _, e := range g.Expanders {
		if e.Address == nil {
			count++
			continue
		}
		held[e.Address.Slot] = true
	}

	for _, n := range g.Root().Children {
		if n.Kind != topology.RootPort && slices.Contains(openSlots, n.Slot) {
			held[n.Slot] = true
		}
	}

	return count + len(held)
}

// RootPorts returns root ports of these indexes, without an address.
func RootPorts(indexes []int) (ports []domain.Controller) {
	for _, index := range indexes {
		ports = append(ports, domain.Controller{Index: index, Model: domain.RootPort})
	}
	return ports
}

// LastPorts returns root ports of these indexes at addresses after the last port that something is
// in when libvirt has completed the domain, so that they change no existing bus number: firmware
// numbers buses by slot. One for which there is no place has none.
func (g Guest) LastPorts(indexes []int) []domain.Controller {
	ports := RootPorts(indexes)
	whole, isAccepted := g.Completed()
	if !isAccepted || len(ports) == 0 {
		return ports
	}

	// Nothing is known by the bus number of an empty port, so that one may change.
	from := 0
	isHeld := whole.Held()
	for _, c := range whole.Domain.Controllers {
		if c.Model != domain.ExpanderBus && c.Address != nil && c.Address.Bus == 0 &&
			isHeld[c.Index] {
			from = max(from, c.Address.Slot)
		}
	}

	beside := g.Given
	beside.Devices = slices.Concat(beside.Devices, g.argumentPlaces())
	for i, at := range alloc.RootPorts(beside, g.Libvirt, len(ports), from) {
		ports[i].Address = &at
	}

	return ports
}

// Reserving returns the guest with these addresses reserved, each by a device without an element.
func (g Guest) Reserving(taken []domain.GuestAddress) Guest {
	g.Devices, g.Given.Devices = slices.Clip(g.Devices), slices.Clip(g.Given.Devices)
	for i := range taken {
		d := reserved(&taken[i])
		g.Devices, g.Given.Devices = append(g.Devices, d), append(g.Given.Devices, d)
	}

	return g.With(g.Given.Domain)
}

func reserved(at *domain.GuestAddress) libvirt.Endpoint {
	return libvirt.Endpoint{Device: domain.Device{Address: at}, Connect: libvirt.Express}
}
