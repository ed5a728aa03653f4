// Package findings looks for what a user should know about a plan: faults of its devices and of
// the domain that it results in. A finding is a function from a plan to texts, and an entry of
// the table in findings.go.
package findings

import (
	"cmp"
	"fmt"
	"slices"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// kind is a kind of finding.
type kind struct {
	code      reasons.Code
	severity  reasons.Severity // "" stands for Warn
	check     string           // of doctor, which reports it; "" stands for warnings
	remedy    string           // of those that have none of their own
	needsTree bool             // it is about the tree of a layout, so a device has to be in one
	find      func(*placement.Plan) []reasons.Finding
}

// speedRemedy is the remedy for an emulated port that shows NCCL a false speed.
const speedRemedy = "set port-speed=host, or " + reasons.SpeedRemedy

// groupNotViable is the code of what is also found without a plan.
const groupNotViable = "iommu-group-not-viable"

// kinds has every kind of finding. docs/reasons.md has a section for each.
var kinds = []kind{
	{
		code: "io-space", check: "io-space", severity: reasons.Fail, find: ioSpace,
		remedy: "pass fewer through: SeaBIOS stops if more than 14 ports have a device with an " +
			"I/O BAR, and UEFI has room for 9",
	},
	{
		code: "switch-port-hotplug", needsTree: true, find: switchPortHotplug,
		remedy: "choose layout root or numa for a VM with only SR-IOV networks, or boot it with " +
			"SeaBIOS",
	},
	{
		code: "launch-security", check: "launch-security", needsTree: true, find: launchSecurity,
		remedy: "check that the guest has every device: confidential guests with expander buses " +
			"are not tested",
	},
	{
		code: groupNotViable, check: "iommu-group-viable", severity: reasons.Fail,
		find: blockedGroups,
		remedy: "leave the device out, or use another slot, where the node uses a function of the " +
			"group; bind only functions of the same card, but no disk controller or NIC",
	},
	{
		code: "viommu", check: "viommu", needsTree: true, find: untestedIOMMU,
		remedy: "check the guest's IOMMU groups: with expander buses only an <iommu> of model " +
			"intel is tested",
	},
	{
		code: "viommu-shared-group", check: "viommu", needsTree: true, find: sharedGroups,
		remedy: "choose layout root or numa, where each device has a root port and a group of " +
			"its own, or pass these devices to one nested guest",
	},
	{
		code: "ssid-size", check: "viommu", find: ssidSize,
		remedy: "the hook writes ssidsize in its place; without the hook, update KubeVirt",
	},
	{
		code: "grace", check: "grace", severity: reasons.Fail, find: grace,
		remedy: "as the warning says",
	},
	{
		code: "nvswitches", find: nvSwitches,
		remedy: "give the VM the NVSwitches that its GPUs take in full passthrough, or none if " +
			"the node's Fabric Manager activates their partition; if it runs in a VM of its own, " +
			"list the partitions in the node's annotation hostdev.vm.kubevirt.io/nvlink-partitions",
	},
	{
		code: "nvlink-partition", find: noPartition,
		remedy: "give the VM GPUs that are a partition, which the node's Fabric Manager " +
			"activates before it starts: kubectl hostdev fit shows those that are free",
	},
	{
		code: "atomics-lost", check: "atomics", find: atomicsLost,
		remedy: "leave layout at auto, so that each is alone on a root port; if it stays for a " +
			"reason of its own, remove that reason",
	},
	{
		code: "atomics-without-switch", needsTree: true, find: atomicsWithoutSwitch,
		remedy: "for RCCL set nccl-topology, or NCCL_NET_GDR_LEVEL=PHB in the guest",
	},
	{
		code: "xgmi-assumed", needsTree: true, find: xgmiAssumed,
		remedy: "take the snapshot of the whole node again, so that it has the physical functions",
	},
	{
		code: "gpudirect-rdma-off", needsTree: true, find: gpuDirectOff,
		remedy: "as the warning says: port-speed=host with layout auto or mirror, or nccl-topology; " +
			"else NCCL_NET_GDR_LEVEL=PHB in the guest, which does not bring the host's NIC",
	},
	{
		code: "ucx-other-nic", needsTree: true, find: otherNIC,
		remedy: "as the warning says: port-speed=host, or UCX_DISTANCE_BW=auto,phb:48GBs in the " +
			"guest",
	},
	{
		code: "p2pdma-refused", needsTree: true, find: peerDMARefused,
		remedy: "as the warning says: port-speed=host with layout auto or mirror",
	},
	{
		code: "dra-aligned-otherwise", needsTree: true, find: alignedOtherwise,
		remedy: "as the warning says: port-speed=host with layout auto or mirror, or layout root",
	},
	{
		code: "cells-share-socket", needsTree: true, find: cellsShareSocket,
		remedy: "set spec.domain.cpu.sockets in the VMI to the number of guest cells",
	},
	{
		code: "peer-path-not-ready", check: "ats", needsTree: true, find: notReady,
		remedy: "as the warning says; " + reasons.Page("docs/doctor.md#acs") + " has each cause",
	},
	{
		code: "merged-switches", needsTree: true, find: mergedSwitches,
		remedy: "none for NCCL; to show the host's switches, set port-speed=host or nccl-topology " +
			"with layout auto, or choose layout mirror",
	},
	{code: "switch-port-link-speed", needsTree: true, find: slowUplinks, remedy: speedRemedy},
	{code: "port-link-speed", find: slowRootPorts, remedy: speedRemedy},
}

// Of returns all findings of a plan, with the warnings that it was made with, in the order of
// their codes. A plan that is nil has none.
func Of(plan *placement.Plan) []reasons.Finding {
	if plan == nil {
		return nil
	}

	all := slices.Clone(plan.Warnings)
	for _, k := range kinds {
		all = append(all, k.in(plan)...)
	}

	return reasons.Sort(all)
}

// OfCheck returns the findings of a plan that a check of doctor reports.
func OfCheck(plan *placement.Plan, check string) []reasons.Finding {
	all := slices.DeleteFunc(slices.Clone(plan.Warnings), func(f reasons.Finding) bool {
		return f.Check != check
	})

	for _, k := range kinds {
		if k.check == check {
			all = append(all, k.in(plan)...)
		}
	}

	return reasons.Sort(all)
}

// OfGroup returns the findings of the IOMMU group of a host's function, without those about the
// function itself. They need no plan.
func OfGroup(host *topology.Host, function *topology.Function) []reasons.Finding {
	if function.IOMMUGroup == nil {
		return nil
	}

	id := topology.PCIDevice(function.Address)
	k := kindOf(groupNotViable)
	return k.complete(othersInGroup(host, id, *function.IOMMUGroup))
}

// in returns the findings of a kind in a plan.
func (k kind) in(plan *placement.Plan) []reasons.Finding {
	if k.needsTree && !slices.ContainsFunc(plan.Devices, isInTree) {
		return nil
	}
	return k.complete(k.find(plan))
}

// complete adds to findings what all of a kind have.
func (k kind) complete(found []reasons.Finding) []reasons.Finding {
	for i := range found {
		f := &found[i]
		f.Code, f.Check, f.Severity = k.code, k.check, cmp.Or(k.severity, reasons.Warn)
		f.Remedy, f.Page = cmp.Or(f.Remedy, k.remedy), k.code.Page()
	}

	return found
}

// isInTree reports whether a device is in the tree of a layout.
func isInTree(d placement.Decision) bool {
	return d.Outcome == placement.Placed || d.Reason == reasons.AlreadyAligned
}

// Codes returns the code of every kind of finding.
func Codes() []reasons.Code {
	codes := make([]reasons.Code, len(kinds))
	for i, k := range kinds {
		codes[i] = k.code
	}

	return codes
}

// Remedy returns the remedy for the findings of a code that have none of their own, also for a
// warning that another package gives.
func Remedy(code reasons.Code) string {
	return cmp.Or(kindOf(code).remedy, code.Remedy())
}

// kindOf returns the kind with a code, the zero kind for a code of another package.
func kindOf(code reasons.Code) kind {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.code == code })
	if i < 0 {
		return kind{}
	}
	return kinds[i]
}

// one returns a single finding; its entry in the table completes it.
func one(format string, args ...any) []reasons.Finding {
	return []reasons.Finding{{Text: fmt.Sprintf(format, args...)}}
}

// about returns a single finding of a device.
func about(id topology.DeviceID, format string, args ...any) []reasons.Finding {
	found := one(format, args...)
	found[0].Device = &id
	return found
}

// withRemedy returns a single finding with a remedy of its own.
func withRemedy(remedy, format string, args ...any) []reasons.Finding {
	found := one(format, args...)
	found[0].Remedy = remedy
	return found
}
