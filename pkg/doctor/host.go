package doctor

import (
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

func hostChecks() []Check {
	return []Check{
		{"sysfs", sysfs},
		{"iommu-enabled", iommuEnabled},
		{"host-numa", hostNUMA},
	}
}

// sysfs asks whether the host can be read and shows every device.
func sysfs(in Inputs) []finding {
	var found []finding
	if len(in.Host.Devices) == 0 {
		return fail("give --sysfs the node's /sys or a snapshot of it", "no PCI devices are shown")
	}
	for _, id := range in.subjects() {
		if !isShown(in.Host, id) {
			found = append(found, of(id, fail(reasons.NoSysfs.Remedy(), "%s is not shown", id))...)
		}
	}
	for _, p := range in.Problems {
		if p.Code == env.CodeBadSysfs {
			found = append(found, warn("check the host's kernel and firmware", "%s: %s", p.Source, p.Text)...)
		}
	}
	return orPass(found, "%s, %s and %s", topology.Counted(len(in.Host.Devices), "PCI function"),
		topology.Counted(len(in.Host.MDEVs), "mediated device"), topology.Counted(len(in.Host.Nodes), "NUMA node"))
}

func isShown(host *topology.Host, id topology.DeviceID) bool {
	if uuid, isMDEV := id.MDEV(); isMDEV {
		return host.MDEV(uuid) != nil
	}
	return host.Function(id) != nil
}

// iommuEnabled asks whether there are IOMMU groups: without one VFIO takes no
// device (kernel Documentation/driver-api/vfio.rst).
func iommuEnabled(in Inputs) []finding {
	groups := map[int]bool{}
	for _, d := range in.Host.Devices {
		if d.IOMMUGroup != nil {
			groups[*d.IOMMUGroup] = true
		}
	}
	switch {
	case len(in.Host.Devices) == 0:
		return nil
	case len(groups) == 0:
		return fail("switch VT-d, AMD-Vi or SMMU on in the firmware and boot the kernel with intel_iommu=on or amd_iommu=on",
			"no PCI function is in an IOMMU group")
	}
	return pass("%s", topology.Counted(len(groups), "IOMMU group"))
}

// hostNUMA asks whether the firmware tells of the machine's NUMA nodes: with
// node interleaving, or NPS0 on AMD, two packages become one node.
func hostNUMA(in Inputs) []finding {
	nodes, packages := len(in.Host.Nodes), in.Host.Packages
	switch {
	case len(in.Host.Devices) == 0:
		return nil
	case nodes == 0:
		return warn("the kernel is built without NUMA, or its nodes are hidden here", "no NUMA nodes are shown")
	case packages > nodes:
		return warn("switch node interleaving off in the firmware (NPS1 or more on AMD), so that it tells of each package's memory",
			"%s and %s", topology.Counted(packages, "CPU package"), topology.Counted(nodes, "NUMA node"))
	case packages == 0 && nodes == 1:
		return note("on a machine with two sockets switch node interleaving off", "1 NUMA node; the number of CPU packages is not shown")
	case packages == 0:
		return pass("%s", topology.Counted(nodes, "NUMA node"))
	}
	return pass("%s on %s", topology.Counted(nodes, "NUMA node"), topology.Counted(packages, "CPU package"))
}
