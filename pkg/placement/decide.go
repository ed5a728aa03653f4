package placement

import (
	"cmp"
	"math"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/placement/request"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Outcome is the result of planning a device.
type Outcome string

// The outcomes.
const (
	Placed   Outcome = "placed"   // its place is planned
	Kept     Outcome = "kept"     // it stays on purpose
	Unplaced Outcome = "unplaced" // it should have a place and has none
)

// Decision is the outcome for one device.
type Decision struct {
	PassthroughDevice
	Outcome Outcome
	Reason  reasons.Reason
	Cell    *topology.CellID // of the expander bus that it is under; nil without one

	// OwnPort is true for a whole AMD GPU, which is alone on a root port, and for its companions; see
	// giveOwnPorts.
	OwnPort bool

	Address     *domain.GuestAddress // after the plan; nil until libvirt gives one
	GuestPath   []int                // controller indexes, expander first; nil without an address
	Predicted   *topology.Address    // its address in the guest's kernel; nil when unknown
	MemoryCells string               // cells that are a GPU's own memory, "" for none
}

// decide decides for each device whether it moves and, with a layout, which
// cell is its own. All others decide alike.
func decide(s start, layout policy.Layout) []Decision {
	isReferred := referredIn(s)
	decisions := make([]Decision, len(s.devices))
	for i, d := range s.devices {
		decisions[i] = decideOne(s, layout, d, isReferred(d))
	}

	if !s.Policy.AsksForSwitches() {
		giveOwnPorts(decisions)
	}

	keepFunctionZero(s.current, decisions)
	if !layout.IsPerCell() {
		adoptCells(decisions)
	}

	markCompanions(decisions, s.companionsShare)
	return decisions
}

// referredIn returns what tells whether a device has to stay, since something in the domain names the
// place that it has, or the expander bus under which libvirt plugs it in without the hook: the next
// call of a boot finds it there.
func referredIn(s start) func(PassthroughDevice) bool {
	isReferred := s.current.Referred()
	return func(d PassthroughDevice) bool {
		return isReferred(cmp.Or(d.current, s.pluggedIn(d)))
	}
}

// pluggedIn returns the address under an expander bus that libvirt gives a device without the hook;
// nil if the device has an address or gets another.
func (s start) pluggedIn(d PassthroughDevice) *domain.GuestAddress {
	if d.current != nil || d.Added || len(s.without) == 0 {
		return nil
	}

	at := s.without[0].guest.Hostdev(d.ID).Address
	if s.current.Expander(at) == nil {
		return nil
	}

	return at
}

// giveOwnPorts gives the placed functions of each device that has a whole AMD GPU root ports of
// their own. QEMU lets a root port complete PCIe AtomicOps only for a device that is directly under
// it as function 0 without the multifunction bit (hw/vfio/pci.c, vfio_pci_enable_rp_atomics), and
// Linux refuses them below QEMU's switch ports, which do not route them (drivers/pci/pci.c,
// pci_enable_atomic_ops_to_root). Neither the kernel nor QEMU's version is asked: a sidecar sees
// neither, and an update of the node must not renumber a guest.
func giveOwnPorts(decisions []Decision) {
	var gpus []topology.Address
	for _, d := range decisions {
		if d.NeedsAtomics() && d.Outcome == Placed {
			gpus = append(gpus, d.Function.Address)
		}
	}

	for i := range decisions {
		d := &decisions[i]
		pci, isPCI := d.ID.PCI()
		d.OwnPort = isPCI && d.Outcome == Placed && slices.ContainsFunc(gpus, pci.SameDevice)
	}
}

// decideOne decides for one device by the first rule that keeps it where it is; without
// one it moves if the layout has a place for it, and stays unplaced otherwise: KubeVirt, which
// put it there, may have known more of the host.
func decideOne(
	s start, layout policy.Layout, device PassthroughDevice, isReferred bool,
) Decision {
	d := Decision{PassthroughDevice: device, Outcome: Kept}
	switch {
	case layout == policy.LayoutKeep:
		d.Reason = reasons.LayoutKeep
	case s.onRootComplex():
		d.Reason = reasons.RootComplex
	case isUsersChoice(s.Input, device):
		d.Reason = reasons.UserAddress
	case isReferred:
		d.Reason = reasons.Referenced
	// What the user wants is said before what the machine cannot do.
	case !libvirt.HasExpanderBuses(s.Domain):
		d.Outcome, d.Reason = Unplaced, reasons.Machine
	case staysConventional(device, s.current):
		d.Reason = reasons.Conventional
	default:
		d.Outcome = Unplaced
		d.Cell, d.Reason = findCell(s, device)

		// Numa needs the cell. The finer layouts need the PCIe root alone: an expander bus may have
		// no cell.
		switch {
		case d.Cell != nil, !layout.IsPerCell() && d.PCIeRoot != "":
			d.Outcome = Placed
		case !layout.IsPerCell() && d.Reason != reasons.NoSysfs:
			d.Reason = reasons.NoHostNode
		}
	}

	return d
}

// isUsersChoice reports whether the user chose the device's guest address, hid the
// device, or asks to keep it. An address can be chosen in the VMI's interfaces
// only; any other is libvirt's or an earlier call's.
func isUsersChoice(in Input, d PassthroughDevice) bool {
	switch {
	case d.unassigned, d.Alias != "" && slices.Contains(in.Policy.Keep, d.Alias):
		return true
	case in.VMI == nil:
		return false
	}

	for _, i := range in.VMI.Interfaces {
		if i.PCIAddress != "" && d.Alias == request.SRIOVAlias+i.Name {
			return true
		}
	}

	return false
}

// staysConventional reports whether a device stays where it is because it is a
// conventional PCI device, and under no expander bus, where KubeVirt may put it.
// libvirt adds a bridge to conventional PCI for one without an address, which takes
// the first free port; without the bridge disks and NICs would move.
func staysConventional(d PassthroughDevice, current bus.Guest) bool {
	return !d.Added && d.isConventional() && current.Expander(d.current) == nil
}

// findCell returns the cell of a device, with the reason why it is that one, or why it has none.
// adoptCells may change it.
func findCell(s start, d PassthroughDevice) (*topology.CellID, reasons.Reason) {
	node, known := d.HostNode.Node()
	switch {
	case !s.Host.Shows(d.ID):
		return nil, reasons.NoSysfs // whatever the guest has
	case len(s.Domain.Cells) == 0:
		return nil, reasons.NoGuestNUMA
	case !known:
		return nil, reasons.NoHostNode
	}

	return s.cells.Of(node)
}

// keepFunctionZero keeps function 0 of a slot in place where another function of the slot stays: a
// guest finds no function of a slot without function 0. Both may be ports under an expander bus,
// which go with their devices.
func keepFunctionZero(current bus.Guest, decisions []Decision) {
	type sharedSlot struct {
		bus    *topology.Node
		number int
	}

	// What a device would take with it: its own node, and the ports above it that are under an
	// expander bus.
	takesAlong := func(d Decision) []*topology.Node {
		return slices.DeleteFunc(current.Tree.Node(d.ID).Path(), func(n *topology.Node) bool {
			return n.Kind != topology.Endpoint && n.Top() == current.Root()
		})
	}

	// Where several functions stay, the first of them gives the reason.
	staying := map[sharedSlot]Decision{}
	for _, d := range slices.Backward(decisions) {
		for _, n := range takesAlong(d) {
			if d.Outcome != Placed && n.Function != 0 {
				staying[sharedSlot{n.Parent, n.Slot}] = d
			}
		}
	}

	// Function 0 stays with the outcome of the function for whose sake it does.
	for i, d := range decisions {
		for _, n := range takesAlong(d) {
			other, stays := staying[sharedSlot{n.Parent, n.Slot}]
			if stays && d.Outcome == Placed && n.Function == 0 {
				d.Cell, d.Outcome, d.Reason = nil, other.Outcome, other.Reason
				decisions[i] = d
			}
		}
	}
}

// adoptCells puts placed devices whose NUMA node the host does not know into
// the cell of the others of their PCIe root: under one host bridge they are one
// path type apart, and the layout keeps that. Where the others do not agree it
// is the lowest cell.
func adoptCells(decisions []Decision) {
	cells := map[topology.PCIeRoot]*topology.CellID{}
	for _, d := range decisions {
		if d.Outcome == Placed && compareCells(d.Cell, cells[d.PCIeRoot]) < 0 {
			cells[d.PCIeRoot] = d.Cell
		}
	}

	for i, d := range decisions {
		if _, known := d.HostNode.Node(); d.Outcome == Placed && !known {
			decisions[i].Cell = cells[d.PCIeRoot]
		}
	}
}

// markCompanions marks the placed devices that share the slot of function 0 of
// their own device, where that is placed in the same cell. Every other device
// has a slot of its own. Virtual functions never share: KubeVirt detaches them
// one by one before a migration, and a slot can only be unplugged as a whole. Nor does a whole AMD
// GPU, nor its companions, unless ownShare: then the first of them is function 0 of the others.
func markCompanions(decisions []Decision, ownShare bool) {
	var lead *Decision // the last function 0; its companions come after it
	var at topology.Address
	for i := range decisions {
		d := &decisions[i]
		pci, ok := d.ID.PCI()
		switch {
		case !ok, d.Outcome != Placed, d.Function != nil && d.Function.PhysFn != nil:
		case d.OwnPort && (d.NeedsAtomics() || !ownShare):
		case lead != nil && at.SameDevice(pci) && compareCells(lead.Cell, d.Cell) == 0:
			d.Reason = reasons.Companion
		case pci.Function == 0, d.OwnPort:
			lead, at = d, pci
		}
	}
}

// compareCells orders cells by number, none after all.
func compareCells(x, y *topology.CellID) int {
	order := func(c *topology.CellID) int {
		if c == nil {
			return math.MaxInt
		}
		return int(*c)
	}
	return cmp.Compare(order(x), order(y))
}

// inOrder returns decisions in the order of hostdevs.
func inOrder(hostdevs []domain.Hostdev, decisions []Decision) []Decision {
	order := make(map[topology.DeviceID]int, len(hostdevs))
	for i, h := range hostdevs {
		order[h.ID] = i
	}

	return slices.SortedFunc(slices.Values(decisions), func(x, y Decision) int {
		return cmp.Compare(order[x.ID], order[y.ID])
	})
}

// managedOf returns the devices that are placed.
func managedOf(decisions []Decision) bus.Devices {
	managed := make(bus.Devices, len(decisions))
	for _, d := range decisions {
		if d.Outcome == Placed {
			managed[d.ID] = true
		}
	}

	return managed
}
