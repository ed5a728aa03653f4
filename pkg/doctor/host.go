package doctor

import (
	"fmt"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// sysfs checks whether the host can be read and shows every device.
func sysfs(in Inputs) []Result {
	var found []Result
	if len(in.Host.Devices) == 0 {
		return fail("pass --sysfs the node's /sys or a snapshot of it", "sysfs shows no PCI devices")
	}
	if ids := in.subjects(); in.isElsewhere() {
		none := fmt.Sprintf("none of the %d devices is", len(ids))
		if len(ids) == 1 {
			none = ids[0].String() + " is not"
		}
		return fail(reasons.TakeSnapshot, "%s on this machine", none)
	}
	for _, id := range in.subjects() {
		if !in.Host.Shows(id) {
			found = append(found, about(id, fail(reasons.NoSysfs.Remedy(), "sysfs does not show %s", id))...)
		}
	}
	for _, p := range in.Problems {
		if p.Code == reasons.CodeBadSysfs {
			found = append(found, warn("check the host's kernel and firmware", "%s: %s", p.Source, p.Text)...)
		}
	}
	return orPass(found, "%s, %s and %s", topology.Counted(len(in.Host.Devices), "PCI function"),
		topology.Counted(len(in.Host.MDEVs), "mediated device"), topology.Counted(len(in.Host.Nodes), "NUMA node"))
}

// iommuEnabled checks whether there are IOMMU groups: VFIO refuses devices
// without one (kernel Documentation/driver-api/vfio.rst).
func iommuEnabled(in Inputs) []Result {
	groups := map[int]bool{}
	for _, d := range in.Host.Devices {
		if d.IOMMUGroup != nil {
			groups[*d.IOMMUGroup] = true
		}
	}
	if len(groups) == 0 {
		return fail("enable VT-d, AMD-Vi or the SMMU in the firmware, and boot with intel_iommu=on or amd_iommu=on",
			"no PCI function is in an IOMMU group")
	}
	return pass("%s", topology.Counted(len(groups), "IOMMU group"))
}

// hostNUMA checks whether the firmware reports the machine's NUMA nodes: with
// node interleaving, or NPS0 on AMD, two packages become one node.
func hostNUMA(in Inputs) []Result {
	nodes, packages := len(in.Host.Nodes), in.Host.Packages
	switch {
	case nodes == 0:
		return warn("the kernel has no NUMA support, or its nodes are hidden here", "sysfs shows no NUMA nodes")
	case packages > nodes:
		return warn("disable node interleaving in the firmware (on AMD: NPS1 or more), so that it reports each package's memory",
			"%s but %s", topology.Counted(packages, "CPU package"), topology.Counted(nodes, "NUMA node"))
	case packages == 0 && nodes == 1:
		return note("on a machine with two sockets disable node interleaving", "1 NUMA node; sysfs does not show the CPU packages")
	case packages == 0:
		return pass("%s", topology.Counted(nodes, "NUMA node"))
	}
	return pass("%s on %s", topology.Counted(nodes, "NUMA node"), topology.Counted(packages, "CPU package"))
}
