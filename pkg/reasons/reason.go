// Package reasons has the reasons for a device's place, and the kinds of warning, with their
// remedies. docs/reasons.md has a section for each.
package reasons

import "hook-sidecar/pkg/topology"

// Reason is why a device has its place.
type Reason string

// The reasons; reasonTable has their meanings.
const (
	Memnode        Reason = "memnode"
	VCPUPin        Reason = "vcpupin"
	Companion      Reason = "companion"
	AlreadyAligned Reason = "already-aligned"
	UserAddress    Reason = "user-address"
	RootComplex    Reason = "root-complex-annotation"
	Referenced     Reason = "referenced-controller"
	Conventional   Reason = "conventional-pci"
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

// TakeSnapshot is the remedy on a machine that is not the node of the VM.
const TakeSnapshot = "run kubectl hostdev snapshot VM --output-file host.txtar, or hook-sidecar " +
	"snapshot on the node, and pass the file with --sysfs"

// reasonTable has the meanings and remedies in the order of docs/reasons.md.
var reasonTable = []entry[Reason]{
	{code: Memnode, meaning: "the cell is the only one with memory on the device's NUMA node"},
	{code: VCPUPin, meaning: "the cell has the most vCPUs pinned to the device's NUMA node"},
	{code: Companion,
		meaning: "it is a function of a placed device and shares the slot of function 0"},
	{code: AlreadyAligned, meaning: "it is where the layout wants it; nothing is changed"},
	{code: UserAddress, meaning: "the user chose its guest address, or asked to keep it"},
	{code: RootComplex,
		meaning: "the VMI requests the root bus with kubevirt.io/placePCIDevicesOnRootComplex"},
	{code: Referenced,
		meaning: "the domain refers elsewhere to the expander bus above it, or to its root port, so " +
			"it stays"},
	{code: Conventional,
		meaning: "it is a conventional PCI device, which libvirt puts on a bridge to " +
			"conventional PCI"},
	{code: LayoutKeep, meaning: "layout keep changes no address"},
	{
		code: NoGuestNUMA, meaning: "the guest has no NUMA cells",
		remedy: "give the guest NUMA cells: set dedicatedCpuPlacement, hugepages and " +
			"numa.guestMappingPassthrough in the VMI; layouts root, switch and mirror need no " +
			"cells, but without them the guest has no NUMA nodes",
	},
	{
		code: NoHostNode, meaning: "the host reports no NUMA node for the device",
		remedy: "check the NUMA setting of the host's firmware, or choose layout root, switch or " +
			"mirror",
	},
	{
		code:    NoGuestCell,
		meaning: "no cell has memory or a pinned vCPU on the device's NUMA node",
		remedy: "let the kubelet's Topology Manager align CPUs, memory and devices (policy " +
			"restricted or single-numa-node)",
	},
	{
		code: AmbiguousCell,
		meaning: "several cells have memory on the device's NUMA node, and no pinned vCPU " +
			"decides",
		remedy: "bind each host NUMA node to one cell in numatune",
	},
	{
		code: NoSysfs, meaning: "sysfs does not show the device",
		remedy: "in a pod, check that it sees the node's /sys; elsewhere " + TakeSnapshot,
	},
	{code: Machine, meaning: "the machine type has no expander buses",
		remedy: "use machine type q35, or virt on aarch64"},
	{
		code:    Budget,
		meaning: "the layout does not fit, as a warning explains; nothing is moved",
		remedy: "set the busNr that the warning names; without one pass fewer devices through, " +
			"reserve fewer hotplug-ports, or choose a layout with fewer buses: numa has the fewest, " +
			"mirror the most",
	},
	{
		code:    BrokenRule,
		meaning: "the result would violate a rule, as a warning explains; nothing is moved",
		remedy: "correct or remove the controller or the address that the warning names; this " +
			"hook does not manage it; with machine type pc (i440fx) use q35",
	},
}

// Reasons returns all reasons in the order of docs/reasons.md.
func Reasons() []Reason {
	return topology.Map(reasonTable, func(e entry[Reason]) Reason { return e.code })
}

// Meaning describes a reason in a few words; "" for an unknown one.
func (r Reason) Meaning() string { return find(reasonTable, r).meaning }

// Remedy returns the remedy for a device that is not placed for this reason; "" if nothing has to
// be done.
func (r Reason) Remedy() string { return find(reasonTable, r).remedy }

// entry is a line of a table.
type entry[T comparable] struct {
	code            T
	meaning, remedy string
	check           string // of doctor; of warnings only
}

// find returns a zero entry for an unknown code.
func find[T comparable](table []entry[T], code T) entry[T] {
	for _, e := range table {
		if e.code == code {
			return e
		}
	}
	return entry[T]{}
}
