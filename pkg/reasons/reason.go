// Package reasons holds why a device is where it is, and the kinds of warning,
// each with its remedy. docs/reasons.md has a section for each.
package reasons

// Reason is why a device is where it is.
type Reason string

// The reasons; reasonTable says what they mean.
const (
	Memnode        Reason = "memnode"
	VCPUPin        Reason = "vcpupin"
	Companion      Reason = "companion"
	AlreadyAligned Reason = "already-aligned"
	UserAddress    Reason = "user-address"
	RootComplex    Reason = "root-complex-annotation"
	Referenced     Reason = "referenced-controller"
	LayoutKeep     Reason = "layout-keep"
	NoGuestNUMA    Reason = "no-guest-numa"
	NoHostNode     Reason = "no-host-node"
	NoGuestCell    Reason = "no-guest-cell"
	AmbiguousCell  Reason = "ambiguous-cell"
	NoSysfs        Reason = "no-sysfs"
	Machine        Reason = "unsupported-machine"
	Budget         Reason = "budget-exceeded"
	BrokenRule     Reason = "broken-rule"
)

// aboutReason is what there is to say of a reason. The remedy is what a user
// can do about a device that was not placed for it; "" where nothing has to be
// done.
type aboutReason struct {
	reason          Reason
	meaning, remedy string
}

// reasonTable has the reasons in the order of docs/reasons.md.
func reasonTable() []aboutReason {
	return []aboutReason{
		{Memnode, "that cell alone takes its memory from the device's NUMA node", ""},
		{VCPUPin, "that cell has the most vCPUs pinned to the device's NUMA node", ""},
		{Companion, "a function of a device that is placed; it shares the slot of function 0", ""},
		{AlreadyAligned, "it stands where the layout wants it; nothing is changed", ""},
		{UserAddress, "the user chose its guest address, or that it is kept", ""},
		{RootComplex, "the VMI asks for the main bus, with kubevirt.io/placePCIDevicesOnRootComplex", ""},
		{Referenced, "something else in the domain names the expander bus above it, which is not changed then", ""},
		{LayoutKeep, "layout keep touches no address", ""},
		{
			NoGuestNUMA, "the guest has no NUMA cells, so the device has no node there",
			"give the guest NUMA cells: dedicatedCpuPlacement, hugepages and numa.guestMappingPassthrough in the VMI; layout root or mirror need no cells: the device's neighbours are then right, its node is not",
		},
		{
			NoHostNode, "the host tells no NUMA node of the device, so no cell is its own",
			"the kernel knows no NUMA node of the device: check the firmware's NUMA setting, or choose layout root or mirror",
		},
		{
			NoGuestCell, "no cell has memory or a pinned vCPU on the device's NUMA node",
			"the guest has no memory and no pinned vCPU on the device's NUMA node: let the Topology Manager align them (single-numa-node or restricted)",
		},
		{
			AmbiguousCell, "several cells have memory on the device's NUMA node, and no pinned vCPU decides",
			"several guest cells take memory of the device's NUMA node and no vCPU pin decides: bind each node to one cell in numatune",
		},
		{
			NoSysfs, "the sysfs that was read does not show the device",
			"the device is not below /sys/bus/pci or /sys/bus/mdev here: check --sysfs, and that the pod sees the node's /sys",
		},
		{Machine, "the machine has no expander buses", "use machine type q35, or virt on aarch64"},
		{
			Budget, "the layout does not fit, a warning says by how much; nothing is moved",
			"pass fewer devices through, keep fewer hotplug-ports, or choose a layout with fewer buses: numa needs the fewest, mirror the most",
		},
		{
			BrokenRule, "the result would break a rule, a warning says which; nothing is moved",
			"correct or remove the controller or the address that the warning names: somebody other than this hook wrote it",
		},
	}
}

// Reasons returns all reasons in the order of docs/reasons.md.
func Reasons() []Reason {
	var reasons []Reason
	for _, entry := range reasonTable() {
		reasons = append(reasons, entry.reason)
	}
	return reasons
}

// Meaning says in a few words what a reason is; "" for an unknown one.
func (r Reason) Meaning() string { return r.about().meaning }

// Remedy says what a user can do about a device that was not placed for this
// reason; "" where nothing has to be done.
func (r Reason) Remedy() string { return r.about().remedy }

func (r Reason) about() aboutReason {
	for _, entry := range reasonTable() {
		if entry.reason == r {
			return entry
		}
	}
	return aboutReason{}
}
