package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

func sysfs(in Inputs) []Result {
	if len(in.Host.Functions) == 0 {
		return fail("pass --sysfs the node's /sys or a snapshot of it",
			"sysfs shows no PCI devices")
	}

	if ids := in.subjects(); in.isElsewhere() {
		none := fmt.Sprintf("none of the %d devices is", len(ids))
		if len(ids) == 1 {
			none = ids[0].String() + " is not"
		}
		return fail(reasons.TakeSnapshot, "%s on this machine", none)
	}

	found := in.problems("sysfs")
	for _, id := range in.subjects() {
		if !in.Host.Shows(id) {
			found = append(found,
				about(id, fail(reasons.NoSysfs.Remedy(), "sysfs does not show %s", id))...)
		}
	}

	return orPass(found, "%s, %s and %s", words.Counted(len(in.Host.Functions), "PCI function"),
		words.Counted(len(in.Host.MDEVs),
			"mediated device"), words.Counted(len(in.Host.Nodes), "NUMA node"))
}

// IsGuest reports whether the host is a virtual machine: it has a bridge of QEMU or VMware.
func (in Inputs) IsGuest() bool {
	return slices.ContainsFunc(in.Host.Functions, func(d topology.Function) bool {
		return d.IsBridge &&
			(d.Vendor == topology.VendorRedHat || d.Vendor == topology.VendorVMware)
	})
}

// hostHint returns a hint about the host's firmware, or for a guest about its configuration.
func (in Inputs) hostHint(hint, guestHint string) string {
	if in.IsGuest() {
		return "this machine is a guest: give it " + guestHint +
			"; for the host of a VM run doctor on its node"
	}
	return hint
}

// iommuEnabled checks whether there are IOMMU groups, and each function is in one: VFIO
// refuses devices without one (kernel Documentation/driver-api/vfio.rst).
func iommuEnabled(in Inputs) []Result {
	groups := map[int]bool{}
	for _, d := range in.Host.Functions {
		if d.IOMMUGroup != nil {
			groups[*d.IOMMUGroup] = true
		}
	}

	switch {
	case len(groups) == 0 && in.isRecord():
		return note("take a snapshot on the node", "the IOMMU groups are not in the snapshot")
	case len(groups) == 0:
		return fail(in.hostHint("enable VT-d, AMD-Vi or the SMMU in the firmware, and boot with "+
			"intel_iommu=on or amd_iommu=on", "a vIOMMU, as viommu=intel does"),
			"no PCI function is in an IOMMU group")
	}

	var found []Result
	for _, f := range in.functions() {
		if f.IOMMUGroup == nil {
			found = append(found,
				about(topology.PCIDevice(f.Address),
					fail("look in the host's kernel log for the IOMMU of its PCIe root: DMAR, "+
						"AMD-Vi or smmu",
						"%s is in no IOMMU group, and VFIO refuses it", f.Address))...)
		}
	}

	return orPass(found, "%s", words.Counted(len(groups), "IOMMU group"))
}

// isRecord reports whether the host is made of what was recorded of a machine, without its IOMMU groups:
// functions have a driver of VFIO, which binds none without a group (Linux drivers/vfio/vfio_main.c).
func (in Inputs) isRecord() bool {
	isVFIO := func(f topology.Function) bool { return f.IsVFIO() }
	return slices.ContainsFunc(in.Host.Functions, isVFIO)
}

// hostNUMA checks whether the firmware reports the NUMA nodes: with node interleaving, or
// NPS0 on AMD, two packages become one node.
func hostNUMA(in Inputs) []Result {
	nodes, packages := len(in.Host.Nodes), in.Host.Packages
	switch {
	case nodes == 0:
		return warn("the kernel has no NUMA support, or its nodes are hidden here",
			"sysfs shows no NUMA nodes")

	case packages > nodes:
		return warn(in.hostHint("disable node interleaving in the firmware (on AMD: NPS1 or "+
			"more), so that it reports each package's memory", "NUMA cells"),
			"%s but %s", words.Counted(packages, "CPU package"), words.Counted(nodes,
				"NUMA node"))

	case packages == 0 && nodes == 1:
		return note("on a machine with two sockets disable node interleaving",
			"1 NUMA node; sysfs does not show the CPU packages")

	case packages == 0:
		return pass("%s", words.Counted(nodes, "NUMA node"))
	}

	return pass("%s on %s", words.Counted(nodes, "NUMA node"),
		words.Counted(packages, "CPU package"))
}

// sharedDevice checks whether each device is in one domain of the node: VFIO gives it to the
// first that starts.
func sharedDevice(in Inputs) []Result {
	domains := map[topology.DeviceID][]string{}
	for _, vm := range in.vms() {
		if vm.Plan == nil {
			continue
		}
		for _, h := range vm.Plan.Domain().Hostdevs {
			domains[h.ID] = append(domains[h.ID], vm.Name)
		}
	}

	var found []Result
	for _, id := range slices.SortedFunc(maps.Keys(domains), topology.DeviceID.Compare) {
		if names := domains[id]; len(names) > 1 {
			found = append(found,
				about(id,
					fail("give each VM devices of its own",
						"%s is in the domains %s: one of them starts", id, strings.Join(names,
							" and ")))...)
		}
	}

	return orPass(found, "%s, each in one domain", words.Counted(len(domains), "device"))
}

// driverBound checks whether each function is bound to a driver for guests.
func driverBound(in Inputs) []Result {
	functions := in.functions()
	var found []Result
	for _, f := range functions {
		if f.IsAssignable() {
			continue
		}
		found = append(found,
			about(topology.PCIDevice(f.Address),
				fail(findings.BindRemedy(f),
					"%s is bound to %s", f.Address, cmp.Or(f.Driver, "no driver")))...)
	}

	switch {
	case len(functions) > 0:
		return orPass(found, "%s bound to a passthrough driver",
			words.Counted(len(functions), "function"))
	case in.Plan == nil && len(in.Host.MDEVs) == 0 && len(in.Host.Functions) > 0:
		return note("bind the devices for guests, and none that the node uses, to vfio-pci, or "+
			"create mediated devices",
			"no function is bound to a VFIO driver")
	}

	return nil
}

// groupViable checks whether a host driver holds another member of an IOMMU group. driver-bound is
// about the function itself.
func groupViable(in Inputs) []Result {
	var found []Result
	groups := map[int]bool{}
	for _, f := range in.functions() {
		if f.IOMMUGroup == nil {
			continue
		}

		groups[*f.IOMMUGroup] = true
		found = append(found, resultsOf(findings.OfGroup(in.Host, f))...)
	}

	if len(groups) == 0 {
		return nil
	}

	return orPass(found, "%s without a host driver", words.Counted(len(groups), "IOMMU group"))
}

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

	found = append(found, in.reportedOnNode0()...)
	if i := slices.IndexFunc(known, func(id topology.DeviceID) bool {
		return in.Host.Function(id).Node == topology.Affinity{}
	}); i >= 0 {
		found = append(found,
			note("", "the firmware reports no NUMA node for %s; the host's only node is used",
				known[i])...)
	}

	return orPass(found, "%s with a NUMA node", words.Counted(len(known), "device"))
}

// reportedOnNode0 reports the devices without a NUMA node that the kubelet assigns to node
// 0: NVIDIA's device plugin reports -1 as 0 (kubevirt-gpu-device-plugin,
// pkg/device_plugin/device_plugin.go), KubeVirt's own reports no node
// (pkg/virt-handler/device-manager/pci_device.go).
func (in Inputs) reportedOnNode0() []Result {
	var reported []topology.Address
	for _, f := range in.functions() {
		if f.Vendor == topology.VendorNVIDIA && f.Node == (topology.Affinity{}) &&
			len(in.Host.Nodes) > 1 {
			reported = append(reported, f.Address)
		}
	}

	if len(reported) == 0 {
		return nil
	}

	return note("the Topology Manager then aligns CPUs and memory with node 0, wherever the "+
		"device is: set the node in the firmware, or in numa_node before the plugin starts",
		"NVIDIA's device plugin reports %s to the kubelet as on node 0", list(reported))
}

func resetMethod(in Inputs) []Result {
	var found []Result
	var unknown []topology.Address

	// A function without a method has no file: one file anywhere shows a kernel that has them.
	hasFiles := slices.ContainsFunc(in.Host.Functions, func(d topology.Function) bool {
		return d.Details != nil && d.Details.ResetKnown
	})

	functions := in.functions()
	for _, f := range functions {
		switch {
		case f.Details == nil, !f.Details.ResetKnown && !hasFiles:
			unknown = append(unknown, f.Address)
		case len(f.Details.ResetMethods) == 0:
			found = append(found,
				about(topology.PCIDevice(f.Address),
					warn("the next guest may get it as the last one left it: drain and reboot the "+
						"host between guests, or pass it to one guest only",
						"the kernel has no method to reset %s", f.Address))...)
		}
	}

	if len(unknown) > 0 {
		found = append(found,
			note("kernels since 5.15 have reset_method", "sysfs does not show how to reset %s",
				list(unknown))...)
	}

	return orPass(found, "%s can be reset", words.Counted(len(functions), "function"))
}
