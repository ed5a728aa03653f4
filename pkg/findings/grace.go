package findings

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// faults collects faults of the elements for NVIDIA Grace that libvirt 12.8 accepts. KubeVirt
// writes them (pkg/virt-launcher/virtwrap/converter/grace.go). Each has the words of QEMU 11.1, if
// any, with their source: those about accel, which needs KVM, were read there, the others it
// printed.
type faults struct {
	*placement.Plan
	found []reasons.Finding
}

func (f *faults) add(remedy, format string, args ...any) {
	f.found = append(f.found, withRemedy(remedy, format, args...)...)
}

// grace finds the faults.
func grace(plan *placement.Plan) []reasons.Finding {
	f := &faults{Plan: plan}
	f.cells()
	for _, iommu := range plan.Domain().IOMMUs() {
		f.iommu(iommu)
	}

	f.window()

	return f.found
}

// iommu looks at an SMMUv3 and at what is under its expander bus.
func (f *faults) iommu(iommu domain.IOMMU) {
	index, err := strconv.Atoi(iommu.PCIBus)
	if err != nil {
		return
	}

	switch n := f.GuestTree.Node(topology.Index(index)); {
	case n == nil || n.Kind != topology.Root: // hw/arm/smmu-common.c
		f.add("set pciBus to the index of the expander bus above the GPU",
			"pciBus %d of an SMMUv3 is not the index of an expander bus: QEMU: SMMU should be "+
				"attached to a default PCIe root complex(pcie.0) or a pxb-pcie based root "+
				"complex", index)
	case iommu.Accel:
		f.accelerated(n)
	}
}

// window looks at the size of the window above the memory.
func (f *faults) window() {
	const remedy = "set pcihole64 to a power of two from 512 GiB on that holds the BARs"
	switch hole := f.Domain().PCIHole64; { // hw/arm/virt.c
	case hole == nil, *hole == 0, f.Domain().Arch != "aarch64":
	case bits.OnesCount64(*hole) > 1:
		f.add(remedy, "pcihole64 is %d KiB: QEMU: highmem-mmio-size is not a power of 2", *hole>>10)
	case *hole < 512<<30:
		f.add(remedy, "pcihole64 is %d KiB: QEMU: highmem-mmio-size cannot be set to a lower "+
			"value than the default (512 GiB)", *hole>>10)
	}
}

// cells looks for the first fault of the cells that each device names.
func (f *faults) cells() {
	owners := map[int]topology.DeviceID{}
	for _, d := range f.Devices {
		nodeset, _ := topology.ParseIDs(hostdevOf(f.Domain(), d.ID).Nodeset)
		if d.Function.GPUModel().Coherent && nodeset.IsEmpty() {
			f.add("enable KubeVirt's gate GraceIOVirtualization; 1.9 knows 10de:2342, 2348 and "+
				"2941, and no version 2345 or GB300's 31c2",
				"%s (10de:%04x) names no cells for its memory: its driver has no node to add "+
					"memory to", d.ID, d.Function.Device)
		}

		for id := range nodeset.All() {
			if !f.owns(d, id, owners) {
				break
			}
			owners[id] = d.ID
		}
	}
}

// owns reports whether a cell that a device names can be the device's own, and adds the fault
// where it cannot. The nodeset of a NIC is a cell of CPUs.
func (f *faults) owns(d placement.Decision, id int, owners map[int]topology.DeviceID) bool {
	const own = "give each GPU eight cells of its own without memory and CPUs, after all others"
	cells := f.Domain().Cells
	at := slices.IndexFunc(cells, func(c domain.Cell) bool { return int(c.ID) == id })
	owner, isShared := owners[id]
	switch {
	case at < 0: // hw/acpi/pci.c
		f.add("correct the nodeset, or add the cell",
			"%s names cell %d, which does not exist in the guest: QEMU: "+
				"acpi-generic-initiator: Specified node %[2]d is invalid.", d.ID, id)
		return false

	case !d.Function.IsGPU():
	case !cells[at].IsBare():
		f.add(own, "%s names cell %d for its memory, which has memory or CPUs: its driver has no "+
			"node to add memory to", d.ID, id)
		return false

	case isShared:
		f.add(own, "%s names cell %d for its memory, as %s does: both add memory to one node",
			d.ID, id, owner)
		return false
	}

	return true
}

// accelerated looks at what is under an expander bus whose SMMUv3 is accelerated. It serves devices
// of one SMMUv3 of the host, and on Grace each PCIe root has its own.
func (f *faults) accelerated(expander *topology.Node) {
	others := libvirt.Endpoints(f.Before())
	var first *placement.Decision
	for n := range expander.Endpoints() { // hw/arm/smmuv3-accel.c
		switch id := n.ID.(type) {
		case libvirt.Other:
			if int(id) < len(others) { // after these come those that the hook reserves room for
				f.emulated(others[id], expander)
			}
		case topology.DeviceID:
			d := &f.Devices[slices.IndexFunc(f.Devices, func(d placement.Decision) bool {
				return d.ID == id
			})]
			first = cmp.Or(first, d)
			f.passedThrough(d, first, expander)
		}
	}
}

// emulated looks at a device of QEMU under an accelerated SMMUv3.
func (f *faults) emulated(other libvirt.Endpoint, expander *topology.Node) {
	if other.Element == "interface" && other.Type == "hostdev" {
		return
	}
	f.add("give it an address on the root bus",
		"<%s> is under the accelerated SMMUv3 of %s: QEMU: Emulated endpoint devices are not "+
			"allowed when using arm-smmuv3,accel=on", words.Abridge(other.Element), expander.ID)
}

// passedThrough looks at a device under an accelerated SMMUv3, and at the first one there.
func (f *faults) passedThrough(d, first *placement.Decision, expander *topology.Node) {
	if !f.Domain().UsesIOMMUFD(d.ID) {
		f.add("add <driver iommufd='yes'/> to the hostdev",
			"%s is under the accelerated SMMUv3 of %s and has no iommufd: QEMU: vfio-pci "+
				"endpoint devices without an iommufd backend not allowed when using "+
				"arm-smmuv3,accel=on", d.ID, expander.ID)
	}

	// backends/iommufd.c; Linux drivers/iommu/iommufd/viommu.c
	isKnown := d.PCIeRoot != "" && first.PCIeRoot != ""
	if isKnown && d.PCIeRoot != first.PCIeRoot {
		f.add("give each GPU, and each NIC that needs one, an expander bus with an SMMUv3 of its own",
			"%s is under the accelerated SMMUv3 of %s with %s of another PCIe root: QEMU: "+
				"IOMMU_VDEVICE_ALLOC failed: Invalid argument", d.ID, expander.ID, first.ID)
	}
}

// hostdevOf returns the hostdev of a device.
func hostdevOf(d *domain.Domain, id topology.DeviceID) domain.Hostdev {
	i := slices.IndexFunc(d.Hostdevs, func(h domain.Hostdev) bool { return h.ID == id })
	if i < 0 {
		return domain.Hostdev{}
	}
	return d.Hostdevs[i]
}
