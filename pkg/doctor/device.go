package doctor

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// driverBound checks whether each function is bound to a driver that passes it
// to guests.
func driverBound(in Inputs) []Result {
	functions := in.functions()
	var found []Result
	for _, f := range functions {
		if f.IsAssignable() {
			continue
		}
		found = append(found, about(topology.PCIDevice(f.Address), fail("bind it: driverctl set-override "+f.Address.String()+" vfio-pci",
			"%s is bound to %s", f.Address, cmp.Or(f.Driver, "no driver")))...)
	}
	switch {
	case len(functions) > 0:
		return orPass(found, "%s bound to a passthrough driver", topology.Counted(len(functions), "function"))
	case in.Plan == nil && len(in.Host.MDEVs) == 0 && len(in.Host.Devices) > 0:
		return note("bind the devices for guests to vfio-pci, or create mediated devices", "no function is bound to a VFIO driver")
	}
	return nil
}

// groupViable checks whether a driver of the host holds another member of a
// device's IOMMU group.
func groupViable(in Inputs) []Result {
	var found []Result
	groups := map[int]bool{}
	for _, f := range in.functions() {
		if f.IOMMUGroup == nil {
			continue
		}
		groups[*f.IOMMUGroup] = true
		for _, other := range in.Host.GroupBlockers(*f.IOMMUGroup) {
			if other.Address != f.Address { // driver-bound is about the function itself
				found = append(found, about(topology.PCIDevice(f.Address), fail(reasons.CodeGroupNotViable.Remedy(),
					"IOMMU group %d of %s also holds %s, which is bound to %s", *f.IOMMUGroup, f.Address, other.Address, other.Driver))...)
			}
		}
	}
	if len(groups) == 0 {
		return nil
	}
	return orPass(found, "%s without a host driver", topology.Counted(len(groups), "IOMMU group"))
}

// numaNode checks whether the kernel knows the NUMA node of each device.
func numaNode(in Inputs) []Result {
	var known []topology.DeviceID
	var found []Result
	for _, id := range in.subjects() {
		if _, isKnown := in.Host.Affinity(id).Node(); isKnown {
			known = append(known, id)
			continue
		}
		if !in.Host.Shows(id) {
			continue
		}
		text := "the kernel does not know the NUMA node of %s"
		if uuid, isMDEV := id.MDEV(); isMDEV && in.Host.MDEV(uuid).Parent == nil {
			text = "%s has no PCI device above it, and so no NUMA node"
		}
		found = append(found, about(id, warn(reasons.NoHostNode.Remedy(), text, id))...)
	}
	if len(known) == 0 && len(found) == 0 {
		return nil
	}
	found = append(found, in.toldNode0()...)
	if i := slices.IndexFunc(known, func(id topology.DeviceID) bool { return in.Host.Function(id).Node == topology.Affinity{} }); i >= 0 {
		found = append(found, note("", "the firmware reports no NUMA node for %s; the host's only node is used", known[i])...)
	}
	return orPass(found, "%s with a NUMA node", topology.Counted(len(known), "device"))
}

// toldNode0 reports the devices without a NUMA node that the kubelet takes for
// devices of node 0: NVIDIA's device plugin reports -1 as 0 (kubevirt-gpu-device-plugin,
// pkg/device_plugin/device_plugin.go), KubeVirt's own reports no node
// (pkg/virt-handler/device-manager/pci_device.go).
func (in Inputs) toldNode0() []Result {
	const nvidia = 0x10de
	var told []topology.Address
	for _, f := range in.functions() {
		if f.Vendor == nvidia && f.Node == (topology.Affinity{}) && len(in.Host.Nodes) > 1 {
			told = append(told, f.Address)
		}
	}
	if len(told) == 0 {
		return nil
	}
	return note("the Topology Manager then aligns CPUs and memory with node 0, wherever the device is: set the node in the firmware, or in numa_node before the plugin starts",
		"NVIDIA's device plugin reports %s to the kubelet as on node 0", list(told))
}

// resetMethod checks whether the kernel can reset each function between guests.
func resetMethod(in Inputs) []Result {
	var found []Result
	var unknown []topology.Address
	// The kernel has no file for a function without a method, so that one file
	// anywhere shows that this kernel has them.
	hasFiles := slices.ContainsFunc(in.Host.Devices, func(d topology.Device) bool { return d.Details != nil && d.Details.ResetKnown })
	functions := in.functions()
	for _, f := range functions {
		switch {
		case f.Details == nil, !f.Details.ResetKnown && !hasFiles:
			unknown = append(unknown, f.Address)
		case len(f.Details.ResetMethods) == 0:
			found = append(found, about(topology.PCIDevice(f.Address), warn("the next guest may get it as the last one left it: reboot the host between guests, or write a method to reset_method",
				"the kernel has no method to reset %s", f.Address))...)
		}
	}
	if len(unknown) > 0 {
		found = append(found, note("kernels since 5.15 have reset_method", "sysfs does not show how to reset %s", list(unknown))...)
	}
	return orPass(found, "%s can be reset", topology.Counted(len(functions), "function"))
}
