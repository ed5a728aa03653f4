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

// RootBus counts the devices on the root bus, and the room that others need there.
type RootBus struct {
	RootPorts int // at the root bus and under it
	Pending   int // devices without an address that will take a root port
	Added     int // bridges that libvirt, KubeVirt and the hook will add
	inPort    int // of these, the bridge to conventional PCI, which libvirt plugs into a port
	// the highest index after libvirt has added bridges for devices without an address
	Last        int
	bridges     int // at the root bus and under it, without expander buses
	free        int // root ports with nothing under them
	unaddressed int // bridges without an address that take a place on the root bus itself
	otherSlots  int // slots that are not for root ports
}

// RootBus counts what is on the root bus of a guest whose controllers will reach the
// index highest.
func (g Guest) RootBus(ports Ports, highest int) RootBus {
	pending, needsBridge := g.pending()
	r := RootBus{otherSlots: g.otherSlots(), Pending: pending}
	for _, c := range g.Controllers {
		n := g.Node(c.Index)
		switch {
		case n.Kind == topology.Root, n.Top() != g.Root():
			continue
		case c.Model == domain.RootPort:
			r.RootPorts++
			if len(n.Children) == 0 {
				r.free++
			}

		case c.Address == nil && !isBridge(c):
			r.unaddressed++
		}

		r.bridges++
	}

	r.bridges += g.argumentBridges()

	bridge := 0
	if needsBridge {
		bridge = 2 // a bridge to conventional PCI, and the root port above it
		r.inPort = 1
	}

	// KubeVirt counts after libvirt has added its own.
	r.Last = highest + r.Missing(0) + bridge
	r.Added = r.Missing(ports.free(r.Last)) + bridge
	return r
}

// Missing returns how many root ports are to be added, so that a number of them stays free once
// each pending device has one.
func (r RootBus) Missing(free int) int { return max(0, r.Pending+free-r.free) }

// BusNumbers returns how many bus numbers the root bus takes in the end, its own included.
func (r RootBus) BusNumbers() int { return 1 + r.bridges + r.Added }

// ports returns how many ports and other bridges take a place on the root bus in the end, at most.
func (r RootBus) ports() int { return r.RootPorts + r.unaddressed + r.Added - r.inPort }

// FunctionsPerSlot is how many ports, or expander buses, a slot takes (libvirt
// src/conf/domain_addr.c, virDomainPCIAddressBusSetModel).
const FunctionsPerSlot = 8

// portCapacity returns how many root ports the root bus takes. libvirt packs those without address
// eight per slot, also into slots that hold one and into those that it keeps for devices that do
// not exist. Here every open slot counts for eight, before libvirt gives addresses and after.
func (r RootBus) portCapacity() int {
	return FunctionsPerSlot * max(0, len(openSlots)-r.otherSlots)
}

// SlotsLeft returns how many slots the root ports leave to expander buses.
func (r RootBus) SlotsLeft() int { return (r.portCapacity() - r.ports()) / FunctionsPerSlot }

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
	whole, isAccepted := g.Layout()
	if !isAccepted || len(ports) == 0 {
		return ports
	}

	from := 0
	isHeld := whole.Held()
	for _, c := range whole.Domain.Controllers {
		if c.Model != domain.ExpanderBus && c.Address != nil && c.Address.Bus == 0 &&
			isHeld[c.Index] {
			from = max(from, c.Address.Slot)
		}
	}

	beside := slices.Concat(g.unsettled, g.argumentPlaces())
	for i, at := range alloc.RootPorts(g.Source, beside, g.Libvirt, len(ports), from) {
		ports[i].Address = &at
	}

	return ports
}

// Beside returns the guest with these addresses reserved, each by a device without an element.
func (g Guest) Beside(taken ...domain.GuestAddress) Guest {
	g.Others, g.unsettled, g.layout = slices.Clip(g.Others), slices.Clip(g.unsettled), nil
	for i := range taken {
		other := reserved(&taken[i])
		g.Others, g.unsettled = append(g.Others, other), append(g.unsettled, other)
	}

	return g
}

func reserved(at *domain.GuestAddress) libvirt.Endpoint {
	return libvirt.Endpoint{Device: domain.Device{Address: at}, Connect: libvirt.Express}
}

// IsReserved reports whether a device stands for a reserved address, see Beside.
func IsReserved(d libvirt.Endpoint) bool { return d.Element == "" }
