package doctor

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

func vmiOfDomain(in Inputs) []Result {
	const hint = "pass the VMI of the domain: its resource names, annotations and NUMA settings " +
		"count"
	d, vmi := in.Plan.Domain(), in.VMI
	if d.Name == "" || vmi.Name == "" {
		return nil
	}

	if doubt := vmi.Doubt(d.Name, d.UID); doubt != "" {
		return warn(hint, "%s", words.OneLine(doubt))
	}

	return pass("%s", words.OneLine(d.Name))
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
		if reason == reasons.NoGuestNUMA && in.isOneNode() {
			results = note("", "%s not placed: %s; a place would tell the guest nothing, for the host has one NUMA node",
				areOrIs(ids), reason)
		}

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
			words.OneLine(in.Err.Error()))
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
		words.Counted(pairs.Known, "pair"))
	if outcome.GPUs > 0 {
		found = fmt.Sprintf("layout %s: %d of %s with GPUDirect RDMA, %d of %s as on the host",
			in.Plan.Layout,
			outcome.Guest, words.Counted(outcome.GPUs,
				"GPU"), pairs.Alike, words.Counted(pairs.Known, "pair"))
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
	all := in.PolicyWarnings
	if in.Plan != nil {
		all = findings.OfCheck(in.Plan, "")
	}

	results := resultsOf(all)
	for i, f := range all {
		results[i].Found = fmt.Sprintf("%s: %s", f.Code, words.OneLine(f.Text))
	}

	return orPass(results, "none besides what other checks say")
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
	return orPass(found, "model %s", words.OneLine(models[0].Model))
}

// lockedMemory counts the memory that QEMU locks: once for all VFIO devices of a VM, or with a
// vIOMMU once for each, since each has its own address space. libvirt asks for as much and 1 GiB
// unless there is a hard_limit (src/qemu/qemu_domain.c, qemuDomainGetMemLockLimitBytes); KubeVirt
// allows the memory once per device of the VMI (pkg/hypervisor/kvm/runtime.go,
// CalculateMemlockSize; PR 17805).
func lockedMemory(in Inputs) []Result {
	d := in.Plan.Domain()
	devices, memory := len(d.Hostdevs), words.BytesNeeded(d.MemoryBytes)
	all := words.BytesNeeded(uint64(devices) * d.MemoryBytes)
	needed := d.MemoryBytes
	if d.HasIOMMU() {
		needed *= uint64(devices)
	}

	switch {
	// With a hard_limit libvirt counts nothing itself, and has no need to know the vIOMMU.
	case d.HardLimitBytes > 0 && d.HardLimitBytes < needed:
		return fail("remove the hard_limit: libvirt then allows what the devices need",
			"QEMU locks %s, and memtune/hard_limit allows %s", words.BytesNeeded(needed),
			words.BytesThere(d.HardLimitBytes))

	case !d.HasIOMMU() || devices < 2:
		return pass("once %s", memory)
	case len(d.IOMMUs()) == 0 && d.HardLimitBytes == 0:
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

// counted returns how many devices KubeVirt counts in the VMI, with those of SR-IOV networks
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
	return orPass(found, "%s in a clique", words.Counted(len(all), "GPU"))
}

// ncclTopology reports for which library the topology file is, NCCL or RCCL.
func ncclTopology(in Inputs) []Result {
	if in.Plan.Policy.NCCLTopology == policy.NCCLTopologyNone {
		return nil
	}

	var texts []string
	for _, e := range in.Plan.Extras {
		if e.Key == policy.KeyNCCLTopology {
			texts = append(texts, e.Text)
		}
	}

	if len(texts) == 0 {
		return note("", "no file: no GPU or NIC has a guest address that is known")
	}
	return pass("%s", strings.Join(texts, "; "))
}

func launchSecurity(in Inputs) []Result {
	if in.Plan.Domain().LaunchSecurity {
		return orPass(in.found("launch-security"), "no device is in the tree of a layout")
	}
	return pass("the domain has none")
}
