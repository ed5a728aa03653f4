package doctor

import (
	"slices"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

func deviceChecks() []Check {
	return []Check{
		{"driver-bound", driverBound},
		{"iommu-group-viable", groupViable},
		{"numa-node", numaNode},
		{"reset-method", resetMethod},
	}
}

// driverBound asks whether each function is bound to a driver that hands it to
// guests.
func driverBound(in Inputs) []finding {
	functions := in.functions()
	var found []finding
	for _, f := range functions {
		if f.IsAssignable() {
			continue
		}
		bound := "bound to no driver"
		if f.Driver != "" {
			bound = "bound to " + f.Driver
		}
		found = append(found, of(topology.PCIDevice(f.Address), fail("bind it: driverctl set-override "+f.Address.String()+" vfio-pci",
			"%s is %s", f.Address, bound))...)
	}
	switch {
	case len(functions) > 0:
		return orPass(found, "%s bound for passthrough", topology.Counted(len(functions), "function"))
	case in.Domain == nil && len(in.Host.MDEVs) == 0 && len(in.Host.Devices) > 0:
		return note("bind what guests get to vfio-pci, or create mediated devices", "no function is bound to a VFIO driver")
	}
	return nil
}

// groupViable asks whether a driver of the host holds a member of a device's
// IOMMU group: VFIO then refuses the group (kernel
// Documentation/driver-api/vfio.rst, "group viability"). Bridges do not count,
// nor do functions without a driver or with pci-stub.
func groupViable(in Inputs) []finding {
	var found []finding
	groups := map[int]bool{}
	for _, f := range in.functions() {
		if f.IOMMUGroup == nil {
			continue
		}
		groups[*f.IOMMUGroup] = true
		for _, other := range in.Host.Devices {
			if other.Address == f.Address || other.IOMMUGroup == nil || *other.IOMMUGroup != *f.IOMMUGroup ||
				other.IsBridge || other.Driver == "" || other.Driver == "pci-stub" || other.IsAssignable() {
				continue
			}
			found = append(found, of(topology.PCIDevice(f.Address), fail(reasons.CodeGroupNotViable.Remedy(),
				"IOMMU group %d of %s also holds %s, which is bound to %s", *f.IOMMUGroup, f.Address, other.Address, other.Driver))...)
		}
	}
	if len(groups) == 0 {
		return nil
	}
	return orPass(found, "%s without a driver of the host", topology.Counted(len(groups), "IOMMU group"))
}

// numaNode asks whether the kernel knows on which NUMA node each device stands.
func numaNode(in Inputs) []finding {
	subjects := in.subjects()
	var known, unknown []topology.DeviceID
	for _, id := range subjects {
		if _, ok := in.Host.Affinity(id).Node(); ok {
			known = append(known, id)
		} else if isShown(in.Host, id) {
			unknown = append(unknown, id)
		}
	}
	var found []finding
	for _, id := range unknown {
		text := "the kernel knows no NUMA node of " + id.String()
		if uuid, isMDEV := id.MDEV(); isMDEV && in.Host.MDEV(uuid).Parent == nil {
			text = id.String() + " has no PCI device above it, and so no NUMA node"
		}
		found = append(found, of(id, warn(reasons.NoHostNode.Remedy(), "%s", text))...)
	}
	if len(known) == 0 && len(unknown) == 0 {
		return nil
	}
	if lacks := slices.IndexFunc(known, func(id topology.DeviceID) bool { return in.Host.Function(id).Node == topology.Affinity{} }); lacks >= 0 {
		found = append(found, note("", "the firmware names no NUMA node of %s; the host has only one, which counts", known[lacks])...)
	}
	return orPass(found, "%s with a NUMA node", topology.Counted(len(known), "device"))
}

// resetMethod asks whether the kernel can reset each function between guests.
func resetMethod(in Inputs) []finding {
	functions := in.functions()
	var found []finding
	var untold []topology.Address
	shows := slices.ContainsFunc(in.Host.Devices, func(d topology.Device) bool { return d.Details != nil && d.Details.ResetKnown })
	for _, f := range functions {
		switch {
		case f.Details == nil, !f.Details.ResetKnown && !shows:
			untold = append(untold, f.Address)
		case len(f.Details.ResetMethods) == 0:
			found = append(found, of(topology.PCIDevice(f.Address), warn("a guest may get it in the state that the last one left: reboot the host between them, or write a method to reset_method",
				"the kernel has no way to reset %s", f.Address))...)
		}
	}
	if len(untold) > 0 {
		found = append(found, note("kernels from 5.15 on show reset_method", "how %s can be reset is not shown", list(untold))...)
	}
	if len(functions) == 0 {
		return nil
	}
	return orPass(found, "%s can be reset", topology.Counted(len(functions), "function"))
}
