package placement

// Reason says why a device stands where it stands; docs/reasons.md has a
// section for each.
type Reason string

// The reasons.
const (
	ReasonMemnode        Reason = "memnode"
	ReasonVCPUPin        Reason = "vcpupin"
	ReasonUserAddress    Reason = "user-address"
	ReasonRootComplex    Reason = "root-complex-annotation"
	ReasonReferenced     Reason = "referenced-controller"
	ReasonAlreadyAligned Reason = "already-aligned"
	ReasonNoHostNode     Reason = "no-host-node"
	ReasonNoGuestCell    Reason = "no-guest-cell"
	ReasonAmbiguousCell  Reason = "ambiguous-cell"
	ReasonNoGuestNUMA    Reason = "no-guest-numa"
	ReasonMachine        Reason = "unsupported-machine"
	ReasonNoSysfs        Reason = "no-sysfs"
	ReasonLayoutKeep     Reason = "layout-keep"
	ReasonCompanion      Reason = "companion"
	ReasonBudget         Reason = "budget-exceeded"
	ReasonBrokenRule     Reason = "broken-rule"
)

// Reasons are all reasons, in the order of the documentation.
func Reasons() []Reason {
	return []Reason{
		ReasonMemnode, ReasonVCPUPin, ReasonCompanion, ReasonAlreadyAligned,
		ReasonUserAddress, ReasonRootComplex, ReasonReferenced, ReasonLayoutKeep,
		ReasonNoGuestNUMA, ReasonNoHostNode, ReasonNoGuestCell, ReasonAmbiguousCell,
		ReasonNoSysfs, ReasonMachine, ReasonBudget, ReasonBrokenRule,
	}
}

// Meaning says in a few words what a reason is, "" for one that is not known.
func (r Reason) Meaning() string {
	switch r {
	case ReasonMemnode:
		return "that cell alone takes its memory from the device's NUMA node"
	case ReasonVCPUPin:
		return "that cell has the most vCPUs pinned to the device's NUMA node"
	case ReasonCompanion:
		return "a function of a device that is placed; it shares the slot of function 0"
	case ReasonAlreadyAligned:
		return "it stands where the layout wants it; nothing is changed"
	case ReasonUserAddress:
		return "the user chose its guest address, or that it is kept"
	case ReasonRootComplex:
		return "the VMI asks for the main bus, with " + RootComplexAnnotation
	case ReasonReferenced:
		return "something else in the domain names the expander bus above it, which is not changed then"
	case ReasonLayoutKeep:
		return "layout keep touches no address"
	case ReasonNoGuestNUMA:
		return "the guest has no NUMA cells, so the device has no node there"
	case ReasonNoHostNode:
		return "the host tells no NUMA node of the device, so no cell is its own"
	case ReasonNoGuestCell:
		return "no cell has memory or a pinned vCPU on the device's NUMA node"
	case ReasonAmbiguousCell:
		return "several cells have memory on the device's NUMA node, and no pinned vCPU decides"
	case ReasonNoSysfs:
		return "the sysfs that was read does not show the device"
	case ReasonMachine:
		return "the machine has no expander buses"
	case ReasonBudget:
		return "the layout does not fit, a warning says by how much; nothing is moved"
	case ReasonBrokenRule:
		return "the result would break a rule, a warning says which; nothing is moved"
	default:
		return ""
	}
}

// Remedy is what a user can do about a device that was not placed for this
// reason; "" where there is nothing to do.
func (r Reason) Remedy() string {
	switch r {
	case ReasonNoGuestNUMA:
		return "give the guest NUMA cells: dedicatedCpuPlacement, hugepages and numa.guestMappingPassthrough in the VMI; layout root or mirror need no cells: the device's neighbours are then right, its node is not"
	case ReasonNoHostNode:
		return "the kernel knows no NUMA node of the device: check the firmware's NUMA setting, or choose layout root or mirror"
	case ReasonNoGuestCell:
		return "the guest has no memory and no pinned vCPU on the device's NUMA node: let the Topology Manager align them (single-numa-node or restricted)"
	case ReasonAmbiguousCell:
		return "several guest cells take memory of the device's NUMA node and no vCPU pin decides: bind each node to one cell in numatune"
	case ReasonNoSysfs:
		return "the device is not below /sys/bus/pci or /sys/bus/mdev here: check --sysfs, and that the pod sees the node's /sys"
	case ReasonMachine:
		return "use machine type q35, or virt on aarch64"
	case ReasonBudget:
		return "pass fewer devices through, keep fewer hotplug-ports, or choose a layout with fewer buses: numa needs the fewest, mirror the most"
	case ReasonBrokenRule:
		return "correct or remove the controller or the address that the warning names: somebody other than this hook wrote it"
	default:
		return ""
	}
}
