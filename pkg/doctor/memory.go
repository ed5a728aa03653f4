package doctor

import (
	"strings"

	"hook-sidecar/pkg/topology"
)

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
