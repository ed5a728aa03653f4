package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

func vmiOfDomain(in Inputs) []Result {
	const hint = "pass the VMI of the domain: its resource names, annotations and NUMA settings " +
		"count"
	d, vmi := in.Plan.Domain(), in.VMI
	if d.Name == "" || vmi.Name == "" {
		return nil
	}

	if doubt := vmi.Doubt(d.Name, d.UID); doubt != "" {
		return warn(hint, "%s", topology.OneLine(doubt))
	}

	return pass("%s", topology.OneLine(d.Name))
}

func machineType(in Inputs) []Result {
	d := in.Plan.Domain()
	switch {
	case !libvirt.HasExpanderBuses(d) && !in.hasDevices():
		return note("", "machine %q has no expander buses; without devices it needs none",
			d.Machine)
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
	cells := topology.Counted(len(d.CPUCells()), "guest NUMA cell")
	switch {
	case len(d.Cells) == 0:
		return in.noCells("the guest has no NUMA cells")
	case len(d.Memnodes) == 0 && len(d.Pins) == 0:
		return warn("bind cells to nodes with numatune/memnode, or pin the vCPUs",
			"%s, on unknown host nodes", cells)
	}

	return pass("%s", cells)
}

// vcpuNodes checks whether the vCPUs of each device's cell are pinned to its NUMA node. Of a
// device without a cell, or in a cell without pins, it looks at all vCPUs.
func vcpuNodes(in Inputs) []Result {
	all := in.pinnedNodes(nil)
	if len(all) == 0 {
		return nil
	}

	far := map[string][]topology.DeviceID{}
	for _, d := range in.Plan.Devices {
		vcpus, pinned := "the vCPUs", all
		if of := in.pinnedNodes(d.Cell); d.Cell != nil && len(of) > 0 {
			vcpus, pinned = fmt.Sprintf("the vCPUs of cell %d", *d.Cell), of
		}

		if node, known := d.HostNode.Node(); known && !pinned[node] && in.hasCPUs(node) {
			text := fmt.Sprintf("on node %d, %s are pinned to %s", node, vcpus, joined(pinned))
			far[text] = append(far[text], d.ID)
		}
	}

	var found []Result
	for _, text := range slices.Sorted(maps.Keys(far)) {
		found = append(found,
			warn(reasons.NoGuestCell.Remedy(), "%s %s", areOrIs(far[text]), text)...)
	}

	return orPass(found, "pinned to %s, as the devices are", joined(all))
}

// pinnedNodes returns the nodes with CPUs that the vCPUs of a cell, or for nil all vCPUs, are
// pinned to. The plan warns of lists that cannot be read.
func (in Inputs) pinnedNodes(cell *topology.CellID) map[topology.NodeID]bool {
	nodes := map[topology.NodeID]bool{}
	d := in.Plan.Domain()
	var vcpus topology.IDs
	for _, c := range d.Cells {
		if cell != nil && c.ID == *cell {
			vcpus, _ = topology.ParseIDs(c.CPUs)
		}
	}

	for _, pin := range d.Pins {
		cpus, err := topology.ParseIDs(pin.CPUSet)
		if err != nil || cell != nil && !vcpus.Contains(pin.VCPU) {
			continue
		}

		for _, node := range in.Host.Nodes {
			if slices.ContainsFunc(slices.Collect(cpus.All()), node.CPUs.Contains) {
				nodes[node.ID] = true
			}
		}
	}

	return nodes
}

// hasCPUs reports whether a vCPU could be pinned to the node.
func (in Inputs) hasCPUs(node topology.NodeID) bool {
	return slices.ContainsFunc(in.Host.Nodes, func(n topology.NUMANode) bool {
		return n.ID == node && !n.CPUs.IsEmpty()
	})
}

// joined formats numbers of nodes: "node 0", "nodes 0, 1".
func joined(nodes map[topology.NodeID]bool) string {
	texts := topology.Map(slices.Sorted(maps.Keys(nodes)), func(n topology.NodeID) string {
		return strconv.Itoa(int(n))
	})
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

// noCells is a FAIL with layout numa, which then places no device. Other layouts still place
// devices of one PCIe root together.
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

// placed checks whether each device has a place, and reports those with one reason together.
func placed(in Inputs) []Result {
	counts := map[placement.Outcome]int{}
	unplaced := map[reasons.Reason][]topology.DeviceID{}
	for _, d := range in.Plan.Devices {
		counts[d.Outcome]++
		if d.Outcome == placement.Unplaced {
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

	if placed, kept := counts[placement.Placed], counts[placement.Kept]; placed+kept > 0 {
		return orPass(found, "layout %s: %d placed, %d kept", in.Plan.Layout, placed, kept)
	}

	return found
}

func strict(in Inputs) []Result {
	switch {
	case !in.Plan.Policy.Strict:
		return nil
	case in.Err != nil:
		return fail("remedy what the message names, or unset strict", "%s",
			topology.OneLine(in.Err.Error()))
	}

	return pass("the VM starts")
}

// layoutFit checks whether NCCL uses GPUDirect RDMA as on the host, and whether the pairs of
// devices are as far from each other as there.
func layoutFit(in Inputs) []Result {
	pairs, outcome, planned := in.Plan.Pairs(), in.Plan.GPUDirect(), plan.AlternativeOf(in.Plan)
	if pairs.Known == 0 {
		return nil
	}

	found := fmt.Sprintf("layout %s: %d of %s as on the host", in.Plan.Layout, pairs.Alike,
		topology.Counted(pairs.Known, "pair"))
	if outcome.GPUs > 0 {
		found = fmt.Sprintf("layout %s: %d of %s with GPUDirect RDMA, %d of %s as on the host",
			in.Plan.Layout,
			outcome.Guest, topology.Counted(outcome.GPUs,
				"GPU"), pairs.Alike, topology.Counted(pairs.Known, "pair"))
	}

	if pairs.Alike == pairs.Known && outcome.Guest >= outcome.Host {
		return pass("%s", found)
	}
	if in.Plan.Why != "" {
		return note("", "%s, since %s", found, in.Plan.Why)
	}

	var better []plan.Alternative
	if in.Alternatives != nil {
		better = slices.DeleteFunc(in.Alternatives(), func(a plan.Alternative) bool {
			return a.Compare(planned) <= 0
		})
	}

	if len(better) == 0 {
		return note("", "%s; no layout has more", found)
	}

	return warn("with layout "+plan.Listed(better), "%s", found)
}

// planWarnings reports the findings of the plan, or else the warnings of the policy, that no other
// check reports.
func planWarnings(in Inputs) []Result {
	all := findings.Given(in.PolicyWarnings)
	if in.Plan != nil {
		all = findings.OfCheck(in.Plan, "")
	}

	results := resultsOf(all)
	for i, f := range all {
		results[i].Found = fmt.Sprintf("%s: %s", f.Code, topology.OneLine(f.Text))
	}

	return orPass(results, "none besides what other checks say")
}

func requested(in Inputs) []Result {
	if in.VMI == nil || len(in.VMI.GPUs)+len(in.VMI.HostDevices) == 0 {
		return nil
	}
	return orPass(in.found("requested-devices"),
		"%s of the VMI, all in the domain",
		topology.Counted(len(in.VMI.GPUs)+len(in.VMI.HostDevices), "device"))
}

// variables checks whether the device plugins' environment variables and the domain name
// the same devices. A hook sidecar has no such variables.
func variables(in Inputs) []Result {
	found := in.problems("variables")
	switch {
	case len(in.Variables) == 0 && (in.Plan == nil || in.Node): // they are of one VM
		return found
	case len(in.Variables) == 0 && in.Variables != nil:
		return append(found,
			note("",
				"the compute container has no environment variables PCI_RESOURCE_* or "+
					"MDEV_PCI_RESOURCE_*")...)

	case len(in.Variables) == 0:
		return append(found,
			note("the kubelet sets them in the compute container only; hook-sidecar doctor takes "+
				"them with --env", "no environment variables PCI_RESOURCE_* or MDEV_PCI_RESOURCE_*")...)

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
			found = append(found,
				warn("the pod holds devices that the VM does not use: check the count in the VMI",
					"%s names devices that are not in the domain: %s", v.Name, list(unused))...)
		}
	}

	var missing []topology.DeviceID
	for _, d := range in.Plan.Devices {
		if !named[d.ID] && in.hasVariableFor(d.Resource, d.ID.Kind()) {
			missing = append(missing, d.ID)
		}
	}

	if len(missing) > 0 {
		found = append(found,
			warn("check that the environment variables are those of this VM's compute container",
				"the environment variable of the resource does not name %s", list(missing))...)
	}

	return orPass(found, "the domain has the devices of %s",
		topology.Counted(len(in.Variables), "environment variable"))
}

// isUsed reports whether a device of a variable, or another function of it, is in the plan:
// plugins name a whole IOMMU group.
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
		return warn("remove the annotation: with it the hook moves no device",
			"the VMI has the annotation %s", placement.RootComplexAnnotation)
	}
	return pass("not set")
}

func vIOMMU(in Inputs) []Result {
	found, models := in.found("viommu"), in.Plan.Domain().IOMMUs()
	if len(models) == 0 {
		return orPass(found, "the domain has none")
	}
	return orPass(found, "model %s", topology.OneLine(models[0].Model))
}

// lockedMemory counts the memory that QEMU locks: once for all VFIO devices of a VM, or with a
// vIOMMU once for each, since each has its own address space. libvirt asks for as much and 1 GiB
// unless there is a hard_limit (src/qemu/qemu_domain.c, qemuDomainGetMemLockLimitBytes); KubeVirt
// allows the memory once per device of the VMI (pkg/hypervisor/kvm/runtime.go,
// CalculateMemlockSize; PR 17805).
func lockedMemory(in Inputs) []Result {
	d := in.Plan.Domain()
	devices, memory := len(d.Hostdevs), topology.BytesNeeded(d.MemoryBytes)
	all := topology.BytesNeeded(uint64(devices) * d.MemoryBytes)
	needed := d.MemoryBytes
	if d.HasIOMMU() {
		needed *= uint64(devices)
	}

	switch {
	case d.HardLimitBytes > 0 && d.HardLimitBytes < needed:
		return fail("remove the hard_limit: libvirt then allows what the devices need",
			"QEMU locks %s, and memtune/hard_limit allows %s", topology.BytesNeeded(needed), topology.BytesThere(d.HardLimitBytes))

	case !d.HasIOMMU() || devices < 2:
		return pass("once %s", memory)
	case len(in.Plan.Domain().IOMMUs()) == 0:
		return fail("remove the vIOMMU from qemu:commandline and set viommu=intel: libvirt then "+
			"counts every device",
			"the vIOMMU in qemu:commandline makes QEMU lock %s for %d devices, and libvirt, which "+
				"does not know it, allows %s once", all, devices, memory)

	case in.VMI != nil && in.counted() < devices:
		return fail("set viommu=none, or pass only devices that the VMI names",
			"with a vIOMMU QEMU locks %s for %d devices; the VMI names %d, and KubeVirt allows "+
				"that many times %s", all, devices, in.counted(), memory)
	}

	return note("KubeVirt allows it from 1.9.0 on; before, the VM may not start (cannot limit "+
		"locked memory)",
		"with a vIOMMU QEMU locks %s: %s once for each of %d devices", all, memory, devices)
}

// counted is how many devices KubeVirt counts in the VMI, with those of SR-IOV networks
// (pkg/util/util.go, CountVFIODevices).
func (in Inputs) counted() int {
	count := len(in.VMI.GPUs) + len(in.VMI.HostDevices)
	for _, h := range in.Plan.Domain().Hostdevs {
		if strings.HasPrefix(h.Alias, "ua-sriov-") {
			count++
		}
	}

	return count
}

// cliques checks the GPUDirect cliques of the domain.
func cliques(in Inputs) []Result {
	found, all := in.found("gpudirect-clique"), in.Plan.Domain().Cliques()
	if len(found) == 0 && len(all) == 0 {
		return nil
	}
	return orPass(found, "%s in a clique", topology.Counted(len(all), "GPU"))
}

func launchSecurity(in Inputs) []Result {
	if in.Plan.Domain().LaunchSecurity {
		return orPass(in.found("launch-security"), "no device is in the tree of a layout")
	}
	return pass("the domain has none")
}
