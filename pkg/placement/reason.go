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
)

// Reasons are all reasons, in the order of the documentation.
func Reasons() []Reason {
	return []Reason{
		ReasonMemnode, ReasonVCPUPin, ReasonCompanion, ReasonAlreadyAligned,
		ReasonUserAddress, ReasonRootComplex, ReasonReferenced, ReasonLayoutKeep,
		ReasonNoGuestNUMA, ReasonNoHostNode, ReasonNoGuestCell, ReasonAmbiguousCell,
		ReasonNoSysfs, ReasonMachine, ReasonBudget,
	}
}

// Remedy is what a user can do about a device that was not placed for this
// reason; "" where there is nothing to do.
func (r Reason) Remedy() string {
	switch r {
	case ReasonNoGuestNUMA:
		return "give the guest NUMA cells: dedicatedCpuPlacement, hugepages and numa.guestMappingPassthrough in the VMI"
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
		return "pass fewer devices through, or choose a layout with fewer buses: numa needs the fewest, mirror the most"
	default:
		return ""
	}
}
