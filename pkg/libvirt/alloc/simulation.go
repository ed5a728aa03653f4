package alloc

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
)

// simulation is a guest that gets its addresses.
type simulation struct {
	Libvirt
	given libvirt.Guest

	own      []*item // PCI controllers of the domain, position by position
	added    []*item // PCI controllers that libvirt adds, by index
	hostdevs []*item // position by position
	devices  []*item // position by position

	controllers []*item  // own and added, in the order in which they get addresses
	others      []*item  // hostdevs and devices, in the order in which they get addresses
	buses       int      // how many buses there are
	isAddressed bool     // all that needs an address has one in the domain
	space       []pciBus // for the buses of a pass
}

// item is a controller or a device.
type item struct {
	flags    flags                // of the connection; 0 for none
	at       *domain.GuestAddress // nil without an address
	isWanted bool                 // an address of libvirt's choice, where it has none
	isTyped  bool                 // the domain says the address's type, with numbers or without

	element string
	kind    string // of a controller: its type
	model   domain.Model
	index   int // of a controller; noIndex while libvirt has given none

	device  *libvirt.Endpoint // nil for PCI controllers and hostdevs
	hostdev *domain.Hostdev   // nil for others
}

const noIndex = -1

// isOpen reports whether an item has no address and needs one.
func (i *item) isOpen() bool { return i.isWanted && i.at == nil }

// name names an item in an error.
func (i *item) name() string {
	switch {
	case i.device != nil:
		return cmp.Or(i.device.Alias, i.element)
	case i.hostdev != nil:
		return "hostdev " + i.hostdev.ID.String()
	}

	return fmt.Sprintf("controller %d (%s)", i.index, i.model)
}

func newSimulation(given libvirt.Guest, m Libvirt) *simulation {
	sim := &simulation{Libvirt: m, given: given, buses: 1}
	all := make([]item, len(given.Controllers)+len(given.Hostdevs)+len(given.Devices))
	next := func(i item) *item {
		added := &all[0]
		all = all[1:]
		*added = i
		return added
	}

	sim.readControllers(next)
	sim.hostdevs = make([]*item, len(given.Hostdevs))
	for i := range given.Hostdevs {
		sim.hostdevs[i] = next(sim.newHostdev(&given.Hostdevs[i]))
	}

	sim.devices = make([]*item, len(given.Devices))
	for i := range given.Devices {
		sim.devices[i] = next(sim.newDevice(&given.Devices[i]))
	}

	sim.others = sim.inOrder()
	sim.isAddressed = !slices.ContainsFunc(sim.own, (*item).isOpen) &&
		!slices.ContainsFunc(sim.others, (*item).isOpen)
	return sim
}

// readControllers reads the PCI controllers. libvirt sorts them by index; those without an index
// are after those before them in the document, since they get theirs later
// (src/conf/domain_postparse.c, virDomainAssignControllerIndexes).
func (sim *simulation) readControllers(next func(item) *item) {
	sim.own = make([]*item, 0, len(sim.given.Controllers))
	sim.controllers = make([]*item, 0, len(sim.given.Controllers))
	for _, c := range sim.given.Controllers {
		i := next(newController(c))
		sim.own = append(sim.own, i)
		if c.Index != 0 {
			if c.NoIndex {
				i.index = noIndex
			}
			sim.controllers = insert(sim.controllers, i)
		}

		sim.buses = max(sim.buses, c.Index+1)
	}

	for i, c := range sim.given.Controllers {
		sim.own[i].index = c.Index
	}
}

func newController(c domain.Controller) item {
	return item{
		element: "controller", kind: "pci", flags: connectionOf(c.Model), at: c.Address,
		isWanted: c.Index != 0, isTyped: c.AddressType != "", model: c.Model, index: c.Index,
	}
}

func (sim *simulation) newHostdev(h *domain.Hostdev) item {
	i := item{
		element:  "hostdev",
		hostdev:  h,
		at:       h.Address,
		isWanted: !h.Unassigned,
		flags:    express | autoAssign,
	}

	if h.Address == nil && sim.IsConventional != nil && sim.IsConventional(h.ID) {
		i.flags = conventional | autoAssign
	}

	return i
}

func (sim *simulation) newDevice(d *libvirt.Endpoint) item {
	i := item{
		element: d.Element, kind: d.Type, model: domain.Model(d.Model), device: d,
		at: d.Address, isWanted: d.Connect != libvirt.NotPCI, isTyped: d.AddressType != "",
		flags: sim.connectionOf(d), index: noIndex,
	}

	if index, err := strconv.Atoi(d.Index); err == nil {
		i.index = index
	}

	return i
}

// connectionOf returns the flags of a device's connection (src/qemu/qemu_domain_address.c,
// qemuDomainDeviceCalculatePCIConnectFlags). A device that is not on PCI but has a PCI address
// counts as conventional (qemuDomainCollectPCIAddress).
func (sim *simulation) connectionOf(d *libvirt.Endpoint) flags {
	// First what the SCSI controller's model would be, where the domain leaves that to QEMU's build;
	// then the flags.
	how := d.Connect
	switch {
	case how != libvirt.EitherWay:
	case sim.PrefersVirtioSCSI && !libvirt.IsQ35(sim.given.Machine):
		how = libvirt.Express
	case sim.CopiesSCSIModel && d.Implicit:
		how = sim.connectOfFirstSCSI()
	}

	switch how {
	case libvirt.Express:
		return express | autoAssign
	case libvirt.Conventional:
		return conventional | autoAssign
	case libvirt.EitherWay:
		if sim.HasLSI {
			return conventional | autoAssign
		}
		return express | autoAssign

	case libvirt.Integrated:
		return express | autoAssign | integrated
	}

	return conventional
}

// connectOfFirstSCSI returns the connection of the domain's SCSI controller with the lowest
// index, or EitherWay without one.
func (sim *simulation) connectOfFirstSCSI() libvirt.Connect {
	how, lowest := libvirt.EitherWay, math.MaxInt
	for _, o := range sim.given.Devices {
		index, err := strconv.Atoi(o.Index)
		isSCSI := o.Element == "controller" && o.Type == "scsi" && !o.Implicit
		if isSCSI && err == nil && index < lowest {
			how, lowest = o.Connect, index
		}
	}

	return how
}

// insert puts a controller before the first one of its type with a higher index, else after the
// last of its type, else at the end (src/conf/domain_conf.c,
// virDomainControllerInsertPreAlloced).
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

// assignedElements are the elements in the order in which libvirt gives them addresses, after the
// PCI controllers (src/qemu/qemu_domain_address.c, qemuDomainAssignDevicePCISlots).
var assignedElements = []string{
	"filesystem", "interface", "sound", "controller", "disk", "hostdev", "memballoon", "rng",
	"watchdog",
	"video", "shmem", "input", "serial", "iommu", "vsock", "memory", "crypto", "panic", "pstore",
}

// IsBeforeHostdevs reports whether libvirt gives the device an address before hostdevs.
func IsBeforeHostdevs(d libvirt.Endpoint) bool {
	at := slices.Index(assignedElements, d.Element)
	return at >= 0 && at < slices.Index(assignedElements, "hostdev")
}

// inOrder returns hostdevs and devices in the order in which libvirt gives them addresses.
func (sim *simulation) inOrder() []*item {
	groups := map[string][]*item{}
	for i, d := range sim.given.Devices {
		element := d.Element
		if element == "interface" && d.Type == "hostdev" {
			element = "hostdev" // libvirt makes a hostdev of it, before the others
		}

		if element != "controller" && element != "hostdev" || d.Element == "interface" {
			groups[element] = append(groups[element], sim.devices[i])
		}
	}

	groups["controller"] = sim.otherControllers()
	groups["disk"] = sim.disks()
	groups["hostdev"] = append(groups["hostdev"], sim.allHostdevs()...)

	if primary := libvirt.PrimaryVideo(sim.given.Devices); primary >= 0 {
		first := sim.devices[primary]
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
// adds. Other versions put them after the others of their type; q35's own SATA controller, which
// they add after the USB controller, has its place among these (src/qemu/qemu_postparse.c,
// qemuDomainDefAddDefaultDevices).
func (sim *simulation) otherControllers() []*item {
	var list, added []*item
	needsNoSATA := !libvirt.IsQ35(sim.given.Machine)
	for i, d := range sim.given.Devices {
		switch {
		case d.Element != "controller":
		case d.Implicit:
			added = append(added, sim.devices[i])
		default:
			needsNoSATA = needsNoSATA || d.Type == "sata" && sim.devices[i].index <= 0
			list = insert(list, sim.devices[i])
		}
	}

	if sim.AppendsControllers {
		return append(list, added...)
	}

	// The order in which libvirt adds them: USB, the machine's own SATA, the others.
	if len(added) > 0 && added[0].kind == "usb" {
		list, added = insert(list, added[0]), added[1:]
	}

	if !needsNoSATA {
		list = insert(list, &item{element: "controller", kind: "sata"})
	}

	for _, c := range added {
		list = insert(list, c)
	}

	return list
}

// disks returns the disks by the number that their names stand for (src/conf/domain_conf.c,
// virDomainDiskInsert).
func (sim *simulation) disks() []*item {
	var positions []int
	for i, d := range sim.given.Devices {
		if d.Element == "disk" {
			positions = append(positions, i)
		}
	}

	slices.SortStableFunc(positions, func(i, j int) int {
		return cmp.Compare(libvirt.DriveNumber(sim.given.Devices[i].TargetDev),
			libvirt.DriveNumber(sim.given.Devices[j].TargetDev))
	})

	var list []*item
	for _, i := range positions {
		list = append(list, sim.devices[i])
	}

	return list
}

// allHostdevs returns the hostdevs of all kinds in document order.
func (sim *simulation) allHostdevs() []*item {
	list := slices.Clone(sim.hostdevs)
	before := 0
	for i, d := range sim.given.Devices {
		if d.Element == "hostdev" {
			// The domain may be planned for, without some hostdevs.
			at := min(d.Hostdevs+before, len(list))
			list = slices.Insert(list, at, sim.devices[i])
			before++
		}
	}

	return list
}
