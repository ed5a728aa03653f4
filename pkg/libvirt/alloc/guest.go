package alloc

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
)

// guest is a domain that gets its addresses.
type guest struct {
	Machine
	domain *domain.Domain
	source []libvirt.Device

	own      []*item // PCI controllers of the domain, position by position
	added    []*item // PCI controllers that libvirt adds, by index
	hostdevs []*item // position by position
	devices  []*item // position by position

	controllers []*item // own and added, in the order in which they get addresses
	others      []*item // hostdevs and devices, in the order in which they get addresses
	buses       int     // how many buses there are
}

// item is a controller or a device.
type item struct {
	name  string
	flags flags                // of the connection; 0 for none
	at    *domain.GuestAddress // nil without an address

	isWanted bool // an address of libvirt's choice, where it has none
	element  string
	kind     string // of a controller: its type
	model    domain.Model
	index    int // of a controller; noIndex while libvirt has given none
}

const noIndex = -1

func newGuest(d *domain.Domain, devices []libvirt.Device, m Machine) *guest {
	g := &guest{Machine: m, domain: d, source: devices, buses: 1}
	g.readControllers()

	for _, h := range d.Hostdevs {
		i := &item{name: "hostdev " + h.ID.String(), element: "hostdev", at: h.Address, isWanted: !h.Unassigned}
		i.flags = express | autoAssign
		if h.Address == nil && m.IsConventional != nil && m.IsConventional(h.ID) {
			i.flags = conventional | autoAssign
		}
		g.hostdevs = append(g.hostdevs, i)
	}
	for _, d := range devices {
		g.devices = append(g.devices, g.newDevice(d))
	}

	g.others = g.inOrder()
	return g
}

// readControllers reads the PCI controllers. libvirt sorts them by index; those without an index are
// after those before them in the document, since they get theirs later
// (src/conf/domain_postparse.c, virDomainAssignControllerIndexes).
func (g *guest) readControllers() {
	for _, c := range g.domain.Controllers {
		i := newController(c)
		g.own = append(g.own, i)
		if c.Index != 0 {
			if c.NoIndex {
				i.index = noIndex
			}
			g.controllers = insert(g.controllers, i)
		}
		g.buses = max(g.buses, c.Index+1)
	}
	for i, c := range g.domain.Controllers {
		g.own[i].index = c.Index
	}
}

func newController(c domain.Controller) *item {
	return &item{
		name: fmt.Sprintf("controller %d (%s)", c.Index, c.Model), element: "controller", kind: "pci",
		flags: connectionOf(c.Model), at: c.Address, isWanted: c.Index != 0, model: c.Model, index: c.Index,
	}
}

func (g *guest) newDevice(d libvirt.Device) *item {
	i := &item{
		name: cmp.Or(d.Alias, d.Element), element: d.Element, kind: d.Type, model: domain.Model(d.Model),
		at: d.Address, isWanted: d.Connect != libvirt.NotPCI, flags: g.connectionOf(d), index: noIndex,
	}
	if index, err := strconv.Atoi(d.Index); err == nil {
		i.index = index
	}
	return i
}

// connectionOf returns the flags of a device's connection (src/qemu/qemu_domain_address.c,
// qemuDomainDeviceCalculatePCIConnectFlags). A device that is not on PCI but has a PCI address counts
// as conventional (qemuDomainCollectPCIAddress).
func (g *guest) connectionOf(d libvirt.Device) flags {
	switch d.Connect {
	case libvirt.Express:
		return express | autoAssign
	case libvirt.Conventional:
		return conventional | autoAssign
	case libvirt.EitherWay:
		if g.HasLSI {
			return conventional | autoAssign
		}
		return express | autoAssign
	case libvirt.Integrated:
		return express | autoAssign | integrated
	}
	return conventional
}

// insert puts a controller before the first one of its type with a higher index, else after the last
// of its type, else at the end (src/conf/domain_conf.c, virDomainControllerInsertPreAlloced).
func insert(list []*item, c *item) []*item {
	at := len(list)
	for i, other := range list {
		switch {
		case other.kind != c.kind:
		case c.index != noIndex && other.index > c.index:
			return slices.Insert(list, i, c)
		default:
			at = i + 1
		}
	}
	return slices.Insert(list, at, c)
}

// assignedElements are the elements in the order in which libvirt gives them addresses, after the PCI
// controllers (src/qemu/qemu_domain_address.c, qemuDomainAssignDevicePCISlots).
var assignedElements = []string{
	"filesystem", "interface", "sound", "controller", "disk", "hostdev", "memballoon", "rng", "watchdog",
	"video", "shmem", "input", "serial", "iommu", "vsock", "memory", "crypto", "panic", "pstore",
}

// inOrder returns hostdevs and devices in the order in which libvirt gives them addresses.
func (g *guest) inOrder() []*item {
	groups := map[string][]*item{}
	for i, d := range g.source {
		element := d.Element
		if element == "interface" && d.Type == "hostdev" {
			element = "hostdev" // libvirt makes a hostdev of it, before the others
		}
		if element != "controller" && element != "hostdev" || d.Element == "interface" {
			groups[element] = append(groups[element], g.devices[i])
		}
	}
	groups["controller"] = g.otherControllers()
	groups["disk"] = g.disks()
	groups["hostdev"] = append(groups["hostdev"], g.allHostdevs()...)
	if primary := libvirt.PrimaryVideo(g.source); primary >= 0 {
		first := g.devices[primary]
		rest := slices.DeleteFunc(groups["video"], func(i *item) bool { return i == first })
		groups["video"] = append([]*item{first}, rest...)
	}

	var all []*item
	for _, element := range assignedElements {
		all = append(all, groups[element]...)
	}
	return all
}

// otherControllers returns the controllers other than for PCI. libvirt 9.0 appends those that it
// adds.
func (g *guest) otherControllers() []*item {
	var list []*item
	for i, d := range g.source {
		switch {
		case d.Element != "controller":
		case d.Implicit && g.AppendsControllers:
			list = append(list, g.devices[i])
		default:
			list = insert(list, g.devices[i])
		}
	}
	return list
}

// disks returns the disks by the number that their names stand for (src/conf/domain_conf.c,
// virDomainDiskInsert).
func (g *guest) disks() []*item {
	var positions []int
	for i, d := range g.source {
		if d.Element == "disk" {
			positions = append(positions, i)
		}
	}
	slices.SortStableFunc(positions, func(i, j int) int {
		return cmp.Compare(libvirt.DriveNumber(g.source[i].TargetDev), libvirt.DriveNumber(g.source[j].TargetDev))
	})

	var list []*item
	for _, i := range positions {
		list = append(list, g.devices[i])
	}
	return list
}

// allHostdevs returns the hostdevs of all kinds in document order.
func (g *guest) allHostdevs() []*item {
	list := slices.Clone(g.hostdevs)
	before := 0
	for i, d := range g.source {
		if d.Element == "hostdev" {
			list = slices.Insert(list, d.Hostdevs+before, g.devices[i])
			before++
		}
	}
	return list
}
