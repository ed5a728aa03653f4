package doctor

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// vmiOfDomain checks whether the domain is that of the VMI.
func vmiOfDomain(in Inputs) []Result {
	const hint = "pass the VMI of the domain: its resource names, annotations and NUMA settings count"
	d, vmi := in.Plan.Domain(), in.VMI
	if d.Name == "" || vmi.Name == "" {
		return nil
	}
	switch vmi.RelationOf(d.Name, d.UID) {
	case env.OtherVM:
		return warn(hint, "the domain is %q, the VMI %q", topology.Abridge(d.Name), topology.Abridge(vmi.String()))
	case env.OtherRun:
		return warn(hint, "the domain and the VMI %q are of two runs: their uids differ", topology.Abridge(vmi.String()))
	}
	return pass("%s", oneLine(d.Name))
}

func machineType(in Inputs) []Result {
	d := in.Plan.Domain()
	switch {
	case !libvirt.HasExpanderBuses(d) && !in.hasDevices():
		return note("", "machine %q has no expander buses; without devices it needs none", d.Machine)
	case !libvirt.HasExpanderBuses(d):
		return fail(reasons.Machine.Remedy(), "machine %q has no expander buses", d.Machine)
	}
	return pass("%s", d.Machine)
}

// guestNUMA checks whether the guest has NUMA cells on known host nodes.
func guestNUMA(in Inputs) []Result {
	switch {
	case in.Plan == nil && in.VMI == nil, in.Plan != nil && !in.hasDevices():
		return nil
	case in.Plan == nil && len(in.missingForNUMA()) > 0:
		return in.noCells("the guest will have no NUMA cells")
	case in.Plan == nil:
		return pass("the VMI asks for guest NUMA cells")
	}
	d := in.Plan.Domain()
	cells := topology.Counted(len(d.Cells), "guest NUMA cell")
	switch {
	case len(d.Cells) == 0:
		return in.noCells("the guest has no NUMA cells")
	case len(d.Memnodes) == 0 && len(d.Pins) == 0:
		return warn("bind cells to nodes with numatune/memnode, or pin the vCPUs", "%s, on unknown host nodes", cells)
	}
	return pass("%s", cells)
}

// vcpuNodes checks whether each device's NUMA node is one that vCPUs are pinned
// to. Without pins the vCPUs have no node.
func vcpuNodes(in Inputs) []Result {
	pinned := in.pinnedNodes()
	if len(pinned) == 0 {
		return nil
	}
	nodes := joined(slices.Sorted(maps.Keys(pinned)))
	far := map[topology.NodeID][]topology.DeviceID{}
	for _, d := range in.Plan.Devices {
		if node, known := d.HostNode.Node(); known && !pinned[node] && in.hasCPUs(node) {
			far[node] = append(far[node], d.ID)
		}
	}
	var found []Result
	for _, node := range slices.Sorted(maps.Keys(far)) {
		found = append(found, warn(reasons.NoGuestCell.Remedy(), "%s on node %d, the vCPUs are pinned to %s", areOrIs(far[node]), node, nodes)...)
	}
	return orPass(found, "pinned to %s, as the devices are", nodes)
}

// pinnedNodes returns the nodes of the host with CPUs that vCPUs are pinned to.
// Lists that cannot be read have a warning of the plan.
func (in Inputs) pinnedNodes() map[topology.NodeID]bool {
	nodes := map[topology.NodeID]bool{}
	for _, pin := range in.Plan.Domain().Pins {
		cpus, err := topology.ParseIDs(pin.CPUSet)
		if err != nil {
			continue
		}
		for _, node := range in.Host.Nodes {
			for cpu := range node.CPUs.All() {
				if cpus.Contains(cpu) {
					nodes[node.ID] = true
					break
				}
			}
		}
	}
	return nodes
}

// hasCPUs reports whether a vCPU could be pinned to the node.
func (in Inputs) hasCPUs(node topology.NodeID) bool {
	return slices.ContainsFunc(in.Host.Nodes, func(n topology.NUMANode) bool { return n.ID == node && !n.CPUs.IsEmpty() })
}

// joined formats numbers of nodes: "node 0", "nodes 0, 1".
func joined(nodes []topology.NodeID) string {
	var texts []string
	for _, n := range nodes {
		texts = append(texts, strconv.Itoa(int(n)))
	}
	if len(texts) == 1 {
		return "node " + texts[0]
	}
	return "nodes " + strings.Join(texts, ", ")
}

// areOrIs formats devices as the subject of a sentence.
func areOrIs(ids []topology.DeviceID) string {
	if len(ids) == 1 {
		return ids[0].String() + " is"
	}
	return list(ids) + " are"
}

// noCells is a FAIL with layout numa, which then places no device. The other
// layouts still place devices that share a PCIe root together.
func (in Inputs) noCells(found string) []Result {
	hint := reasons.NoGuestNUMA.Remedy()
	if missing := in.missingForNUMA(); len(missing) > 0 {
		hint = "set " + strings.Join(missing, " and ") + " in the VMI"
	}
	if in.layout() == policy.LayoutNUMA {
		return fail(hint, "%s, so layout numa cannot place a device", found)
	}
	hint, _, _ = strings.Cut(hint, ";") // the rest recommends this layout
	return warn(hint, "%s, so it sees no NUMA node of a device", found)
}

// missingForNUMA returns the fields that the VMI lacks for NUMA cells (KubeVirt
// pkg/virt-launcher/virtwrap/converter/vcpu, guestMappingPassthrough).
func (in Inputs) missingForNUMA() []string {
	if in.VMI == nil {
		return nil
	}
	var missing []string
	if !in.VMI.DedicatedCPU {
		missing = append(missing, "spec.domain.cpu.dedicatedCpuPlacement")
	}
	if !in.VMI.Hugepages {
		missing = append(missing, "spec.domain.memory.hugepages")
	}
	if !in.VMI.GuestMappingPassthrough {
		missing = append(missing, "spec.domain.cpu.numa.guestMappingPassthrough")
	}
	return missing
}

// placed checks whether each device has a place. It reports devices with the
// same reason together.
func placed(in Inputs) []Result {
	placed, kept := 0, 0
	unplaced := map[reasons.Reason][]topology.DeviceID{}
	for _, d := range in.Plan.Devices {
		switch d.Outcome {
		case placement.Placed:
			placed++
		case placement.Kept:
			kept++
		case placement.Unplaced:
			unplaced[d.Reason] = append(unplaced[d.Reason], d.ID)
		}
	}
	var found []Result
	for _, reason := range reasons.Reasons() {
		if reason == reasons.NoSysfs && in.isElsewhere() {
			continue // the check sysfs reports it
		}
		ids := unplaced[reason]
		if len(ids) == 0 {
			continue
		}
		results := fail(reason.Remedy(), "%s not placed: %s", areOrIs(ids), reason)
		if len(ids) == 1 {
			results = about(ids[0], results)
		}
		found = append(found, results...)
	}
	if placed+kept > 0 {
		return orPass(found, "layout %s: %d placed, %d kept", in.Plan.Layout, placed, kept)
	}
	return found
}

// requested checks whether the domain has each device that the VMI asks for.
func requested(in Inputs) []Result {
	if in.VMI == nil || len(in.VMI.GPUs)+len(in.VMI.HostDevices) == 0 {
		return nil
	}
	return orPass(in.warnings(Warn, reasons.CodeNotAllocated), "%s of the VMI, all in the domain",
		topology.Counted(len(in.VMI.GPUs)+len(in.VMI.HostDevices), "device"))
}

// variables checks whether the environment variables of the device plugins and
// the domain name the same devices. A hook sidecar has no such variables.
func variables(in Inputs) []Result {
	var found []Result
	for _, p := range in.Problems {
		if p.Code == reasons.CodeBadVariable || p.Code == reasons.CodeVariableConflict {
			found = append(found, warn(p.Code.Remedy(), "%s: %s", p.Source, p.Text)...)
		}
	}
	switch {
	case len(in.Variables) == 0 && (in.Plan == nil || in.Node): // they are of one VM
		return found
	case len(in.Variables) == 0:
		return append(found, note("the kubelet sets them in the compute container only; pass them with --env", "no environment variables PCI_RESOURCE_* or MDEV_PCI_RESOURCE_*")...)
	case in.Plan == nil:
		return orPass(found, "%s", topology.Counted(len(in.Variables), "environment variable"))
	}
	named := map[topology.DeviceID]bool{}
	for _, v := range in.Variables {
		var unused []topology.DeviceID
		for _, id := range v.IDs {
			named[id] = true
			if !in.isUsed(id) {
				unused = append(unused, id)
			}
		}
		if len(unused) > 0 {
			found = append(found, warn("the pod holds devices that the VM does not use: check the count in the VMI", "%s names devices that are not in the domain: %s", v.Name, list(unused))...)
		}
	}
	var missing []topology.DeviceID
	for _, d := range in.Plan.Devices {
		if !named[d.ID] && in.hasVariableFor(d.Resource, d.ID.Kind()) {
			missing = append(missing, d.ID)
		}
	}
	if len(missing) > 0 {
		found = append(found, warn("check that the environment variables are those of this VM's compute container", "the environment variable of the resource does not name %s", list(missing))...)
	}
	return orPass(found, "the domain has the devices of %s", topology.Counted(len(in.Variables), "environment variable"))
}

// isUsed reports whether a device of a variable is in the plan, or is another
// function of one that is: plugins name a whole IOMMU group.
func (in Inputs) isUsed(id topology.DeviceID) bool {
	return slices.ContainsFunc(in.Plan.Devices, func(d placement.Decision) bool {
		a, isPCI := id.PCI()
		b, otherIsPCI := d.ID.PCI()
		return d.ID == id || isPCI && otherIsPCI && a.SameDevice(b)
	})
}

func (in Inputs) hasVariableFor(resource string, kind topology.Kind) bool {
	return resource != "" && slices.ContainsFunc(in.Variables, func(v env.Variable) bool {
		return v.Kind == kind && v.IsFor(resource)
	})
}

func rootComplex(in Inputs) []Result {
	if in.VMI.Annotations[placement.RootComplexAnnotation] == "true" {
		return warn("remove the annotation: with it the hook moves no device", "the VMI has the annotation %s", placement.RootComplexAnnotation)
	}
	return pass("not set")
}

func vIOMMU(in Inputs) []Result {
	found := slices.Concat(in.warnings(Warn, reasons.CodeVIOMMU), in.warnings(Warn, reasons.CodeVIOMMURefused), in.warnings(Warn, reasons.CodeVIOMMUGroup))
	models := in.Plan.Domain().IOMMUs()
	if len(models) == 0 {
		return orPass(found, "the domain has none")
	}
	return orPass(found, "model %s", oneLine(models[0].Model))
}

// lockedMemory counts the memory that QEMU locks. Without a vIOMMU all VFIO devices of
// a VM share one address space, and the guest's memory is locked once. With one, each
// device has an address space of its own, and each counts: libvirt asks for so many
// times the memory and 1 GiB (src/qemu/qemu_domain.c, qemuDomainGetMemLockLimitBytes),
// and KubeVirt allows so many times as the VMI has devices (pkg/hypervisor/kvm/runtime.go,
// CalculateMemlockSize; kubevirt PR 17805).
func lockedMemory(in Inputs) []Result {
	d := in.Plan.Domain()
	devices, memory := len(d.Hostdevs), topology.BytesNeeded(d.MemoryBytes)
	all := topology.BytesNeeded(uint64(devices) * d.MemoryBytes)
	switch {
	case !in.Plan.HasIOMMU() || devices < 2:
		return pass("once %s", memory)
	case len(in.Plan.Domain().IOMMUs()) == 0:
		return fail("remove the vIOMMU from qemu:commandline and set viommu=intel: libvirt then counts every device",
			"the vIOMMU in qemu:commandline makes QEMU lock %s for %d devices, and libvirt, which does not know it, allows %s once", all, devices, memory)
	case in.VMI != nil && in.counted() < devices:
		return fail("set viommu=none, or pass only devices that the VMI names",
			"with a vIOMMU QEMU locks %s for %d devices; the VMI names %d, and KubeVirt allows that many times %s", all, devices, in.counted(), memory)
	}
	return note("KubeVirt allows it from 1.9.0 on; before, the VM may not start (cannot limit locked memory)",
		"with a vIOMMU QEMU locks %s: %s once for each of %d devices", all, memory, devices)
}

// counted is how many devices KubeVirt counts in the VMI (pkg/util/util.go,
// CountVFIODevices). Those of SR-IOV networks have an alias of their own.
func (in Inputs) counted() int {
	count := len(in.VMI.GPUs) + len(in.VMI.HostDevices)
	for _, h := range in.Plan.Domain().Hostdevs {
		if strings.HasPrefix(h.Alias, "ua-sriov-") {
			count++
		}
	}
	return count
}

func launchSecurity(in Inputs) []Result {
	if in.Plan.Domain().LaunchSecurity {
		return warn(reasons.CodeLaunchSecurity.Remedy(), "the domain has launchSecurity")
	}
	return pass("the domain has none")
}
