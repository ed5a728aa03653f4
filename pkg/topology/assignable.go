package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// IsVFIO reports whether a function is bound to vfio-pci or a variant, whose names have vfio in
// them (mlx5_vfio_pci, nvgrace_gpu_vfio_pci, nvidia_vgpu_vfio).
func (d *Function) IsVFIO() bool { return strings.Contains(d.Driver, "vfio") }

// IsAssignable reports whether a function's driver passes it to guests: a VFIO driver, or NVIDIA's
// own for a virtual function that is a vGPU (KubeVirt
// pkg/virt-handler/device-manager/nvidia.go, shouldPermitNvidia).
func (d *Function) IsAssignable() bool {
	return d.IsVFIO() || d.PhysFn != nil && d.Driver == "nvidia"
}

// IDs returns the vendor and device ids of a function as lspci -nn writes them: "10de:2330".
func (d *Function) IDs() string { return fmt.Sprintf("%04x:%04x", d.Vendor, d.Device) }

// IsGPU reports whether NCCL or RCCL takes a function for a GPU: a display controller, or for RCCL
// an accelerator such as AMD's MI300X (src/graph/topo.cc of both, kvDictPciClass).
func (d *Function) IsGPU() bool {
	return d != nil && (d.Class>>16 == Class3D>>16 || d.Class == ClassAccelerator)
}

// IsAccelerator reports whether a function is a processing accelerator.
func (f *Function) IsAccelerator() bool {
	return f != nil && f.Class>>16 == ClassAccelerator>>16
}

// IsAMDGPU reports whether a function is a GPU or an accelerator of AMD, whole or virtual.
func (f *Function) IsAMDGPU() bool {
	return f != nil && f.Vendor == VendorAMDGPU && (f.IsGPU() || f.IsAccelerator())
}

// NeedsAtomics reports whether a function is a whole AMD GPU: its driver asks the PCI Express tree
// whether the root port completes AtomicOps, and without them HIP refuses kernels that print or
// assert, and RCCL's collectives fail (kernel drivers/gpu/drm/amd/amdgpu/amdgpu_device.c,
// pci_enable_atomic_ops_to_root; ROCm/legacy-rocm-build 6520). The host's driver tells a virtual
// function, whatever the guest's tree is, and an APU such as MI300A has them always.
func (f *Function) NeedsAtomics() bool {
	model := f.GPUModel()
	return f.IsAMDGPU() && f.PhysFn == nil && !model.APU && !model.Virtual
}

// IsNVSwitch reports whether a function is an NVSwitch of a board before B200: a bridge that is
// none of PCI's (open-gpu-kernel-modules, kernel-open/nvidia/linux_nvswitch.c, nvswitch_pci_table).
func (f *Function) IsNVSwitch() bool {
	return f != nil && f.Vendor == VendorNVIDIA && f.Class == ClassOtherBridge
}

// IsNIC reports whether NCCL and RCCL take a function for a NIC.
func (d *Function) IsNIC() bool {
	const network = 0x02
	return d != nil && d.Class>>16 == network
}

// IsGPUOrNIC reports whether NCCL and RCCL look for the paths from a function, which may be nil, to
// others.
func (d *Function) IsGPUOrNIC() bool { return d.IsGPU() || d.IsNIC() }

// HasPair reports whether NCCL or RCCL moves data between two of the functions. One has to be a
// GPU.
func HasPair(functions []*Function) bool {
	paired := slices.DeleteFunc(slices.Clone(functions), func(f *Function) bool {
		return !f.IsGPUOrNIC()
	})
	return len(paired) > 1 && slices.ContainsFunc(paired, (*Function).IsGPU)
}

// BlocksGroup reports whether a driver of the host holds a function of an IOMMU group: VFIO then
// refuses the group (kernel Documentation/driver-api/vfio.rst, "group viability"). Bridges do not
// count, nor do functions without a driver or with pci-stub.
func (d *Function) BlocksGroup() bool {
	return d.IOMMUGroup != nil && !d.IsBridge && d.Driver != "" && d.Driver != "pci-stub" &&
		!d.IsAssignable()
}

// ServesNode reports whether a function that a driver of the host has is one that the host may
// run on, whatever card it is of: a disk controller or a NIC.
func (d *Function) ServesNode() bool {
	const storage, network = 0x01, 0x02
	return d.BlocksGroup() && (d.Class>>16 == storage || d.Class>>16 == network)
}

// Noun returns the name of a kind of function in a sentence (PCI Code and ID Assignment
// Specification 1.14, section 1). The function may be nil.
func (d *Function) Noun() string {
	const unknown = "PCI device"
	if d == nil {
		return unknown
	}
	return cmp.Or(subclassNouns[d.Class>>8], classNouns[d.Class>>16], unknown)
}

// The nouns by PCI's subclass, else by its base class.
var (
	subclassNouns = map[uint32]string{
		0x0108: "NVMe drive", 0x0403: "audio function", 0x0c03: "USB controller",
	}
	classNouns = map[uint32]string{
		0x01: "disk controller", 0x02: "NIC", 0x03: "GPU", 0x12: "accelerator",
	}
)

// LargeBARs returns the BARs that firmware puts into its 64-bit window.
func (d Function) LargeBARs() []BAR {
	return slices.DeleteFunc(slices.Clone(d.BARs), func(b BAR) bool { return !b.Is64 || b.IO })
}

// HasIO reports whether one of the BARs is in I/O space.
func (d Function) HasIO() bool {
	return slices.ContainsFunc(d.BARs, func(b BAR) bool { return b.IO })
}

// Shows reports whether the host shows a device.
func (h *Host) Shows(id DeviceID) bool {
	if uuid, isMDEV := id.MDEV(); isMDEV {
		return h.MDEV(uuid) != nil
	}
	return h.Function(id) != nil
}
