package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
)

// maxIndex is the highest index of a PCI controller (libvirt
// src/conf/domain_addr.c, "PCI controller index %d too high, maximum is 255").
const maxIndex = 255

// numbering gives indexes, slots and bus numbers to the tree that is wanted.
type numbering struct {
	rest       *tree // what stays of the domain
	main       mainBus
	freed      []int // indexes that fell free and may be used again, ascending
	highest    int   // the highest index in use or named by an address
	hotplugOff bool

	controllers []domain.Controller
	addresses   map[*device]domain.GuestAddress
}

// number prepares the numbering of the tree that is wanted, for a domain
// without the controllers at the positions in removed.
func (b *builder) number(removed []int, wanted []expander) *numbering {
	rest := b.rest(removed)
	n := &numbering{
		rest: newTree(rest), highest: highestIndex(rest), hotplugOff: b.hotplugOff(),
		addresses: map[*device]domain.GuestAddress{},
	}
	for _, i := range removed {
		if index := b.Domain.Controllers[i].Index; index < n.highest {
			n.freed = append(n.freed, index)
		}
	}
	slices.Sort(n.freed)
	n.fillHoles()
	rest.Controllers = append(rest.Controllers, n.controllers...)
	// Freed indexes that the wanted tree does not take become root ports, too.
	needed := indexesOf(wanted)
	unused := n.freed[min(len(n.freed), needed):]
	n.main = b.mainBus(newTree(withRootPorts(rest, unused)), n.highest+max(0, needed-len(n.freed)))
	return n
}

// rest is the domain without the controllers at the positions in removed,
// without the devices that are placed, and with no address for those that
// stood below a removed controller.
func (b *builder) rest(removed []int) *domain.Domain {
	rest := after(b.Domain, domain.Changes{RemoveControllers: removed})
	rest.Hostdevs = nil
	left := newTree(rest)
	for _, d := range b.devices {
		if d.Outcome == Placed {
			continue
		}
		h := domain.Hostdev{ID: d.ID, Alias: d.Alias, Address: d.Address}
		if d.hostdev >= 0 {
			h.Unassigned = b.Domain.Hostdevs[d.hostdev].Unassigned
		}
		if h.Address != nil && b.tree.at[h.Address.Bus] != nil && left.at[h.Address.Bus] == nil && d.movable {
			h.Address = nil
		}
		rest.Hostdevs = append(rest.Hostdevs, h)
	}
	return rest
}

// highestIndex is the highest index that a controller has or an address names.
func highestIndex(d *domain.Domain) int {
	highest := 0
	for _, c := range d.Controllers {
		highest = max(highest, c.Index, busOf(c.Address))
	}
	for _, h := range d.Hostdevs {
		highest = max(highest, busOf(h.Address))
	}
	for _, o := range d.Others {
		highest = max(highest, busOf(o.Address))
	}
	return highest
}

func busOf(a *domain.GuestAddress) int {
	if a == nil {
		return 0
	}
	return a.Bus
}

// fillHoles makes root ports of the main bus of the indexes that nobody has.
// libvirt would do the same (src/qemu/qemu_domain_address.c,
// qemuDomainAssignPCIAddresses), so that devices keep the address that they have
// without the hook.
func (n *numbering) fillHoles() {
	for _, index := range holes(n.rest.domain) {
		if !slices.Contains(n.freed, index) {
			n.addRootPort(index)
		}
	}
}

// holes are the indexes that nobody has, up to the highest that is in use or
// named by an address.
func holes(d *domain.Domain) []int {
	var taken [maxIndex + 1]bool
	for _, c := range d.Controllers {
		taken[c.Index] = true
	}
	var missing []int
	for index := 1; index <= highestIndex(d); index++ {
		if !taken[index] {
			missing = append(missing, index)
		}
	}
	return missing
}

// filled is the domain as libvirt makes it: with a root port of the main bus in
// each hole.
func filled(d *domain.Domain) *domain.Domain { return withRootPorts(d, holes(d)) }

// withRootPorts is a domain with more root ports of the main bus.
func withRootPorts(d *domain.Domain, indexes []int) *domain.Domain {
	next := *d
	next.Controllers = slices.Clone(d.Controllers)
	for _, index := range indexes {
		next.Controllers = append(next.Controllers, domain.Controller{Index: index, Model: domain.RootPort})
	}
	return &next
}

func (n *numbering) addRootPort(index int) {
	n.controllers = append(n.controllers, domain.Controller{Index: index, Model: domain.RootPort})
}

// assign numbers the whole tree, or says which budgets it exceeds.
func (n *numbering) assign(wanted []expander) []breach {
	var short []breach
	if need, free := indexesOf(wanted), max(0, maxIndex-n.highest+len(n.freed)-n.main.coming); need > free {
		short = append(short, exceeded("controller indexes: the layout needs %d, %d are free: %d too many", need, free, need-free))
	}
	busNumbers, tight := n.busNumbers(wanted)
	slots, crowded := n.slots(len(wanted))
	if short = slices.Concat(short, tight, crowded); len(short) > 0 {
		return short
	}
	for i, e := range wanted {
		index := n.next()
		n.controllers = append(n.controllers, domain.Controller{
			Index: index, Model: domain.ExpanderBus, BusNr: &busNumbers[i], Cell: e.cell,
			Address: &domain.GuestAddress{Slot: slots[i]},
		})
		n.plug(index, domain.RootPort, e.ports)
	}
	for _, index := range n.freed {
		n.addRootPort(index)
	}
	return nil
}

// indexesOf is how many controllers the expanders are.
func indexesOf(wanted []expander) int {
	count := 0
	for _, e := range wanted {
		count += e.buses()
	}
	return count
}

// next is the lowest index that is free. Indexes come in ascending order, so a
// parent that is numbered before its children is below them: QEMU makes the
// controllers in the order of indexes and does not find a later one ("Bus
// 'pci.2' not found").
func (n *numbering) next() int {
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
const (
	slotsPerBus      = 32
	functionsPerSlot = 8
)

// plug numbers the ports on a bus: all slots first, then further functions.
func (n *numbering) plug(bus int, model domain.Model, ports []branch) {
	for i, p := range ports {
		index := n.next()
		n.controllers = append(n.controllers, domain.Controller{
			Index: index, Model: model, HotplugOff: n.hotplugOff,
			Address: &domain.GuestAddress{
				Bus: bus, Slot: i % slotsPerBus, Function: i / slotsPerBus,
				Multifunction: i+slotsPerBus < len(ports) && i < slotsPerBus,
			},
		})
		for _, f := range p.slot {
			n.addresses[f.device] = domain.GuestAddress{
				Bus: index, Function: f.number, Multifunction: f.number == 0 && len(p.slot) > 1,
			}
		}
		if p.slot != nil {
			continue
		}
		upstream := n.next()
		n.controllers = append(n.controllers, domain.Controller{
			Index: upstream, Model: domain.UpstreamPort, Address: &domain.GuestAddress{Bus: index},
		})
		n.plug(upstream, domain.DownstreamPort, p.ports)
	}
}
