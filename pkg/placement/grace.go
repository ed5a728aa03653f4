package placement

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// graceFaults collects faults of the elements for NVIDIA Grace that libvirt 12.8 accepts.
// KubeVirt writes them (pkg/virt-launcher/virtwrap/converter/grace.go). Each has the words of
// QEMU 11.1, if any, with their source: those about accel, which needs KVM, were read there, the
// others it printed.
type graceFaults struct {
	*Plan
	warnings []reasons.Warning
}

func (g *graceFaults) add(remedy, format string, args ...any) {
	g.warnings = append(g.warnings, reasons.Warning{
		Code: reasons.CodeGrace, Text: fmt.Sprintf(format, args...), Remedy: remedy,
	})
}

// graceConcerns warns of the faults.
func graceConcerns(p *Plan) []reasons.Warning {
	g := &graceFaults{Plan: p}
	g.cells()
	for _, iommu := range p.result.IOMMUs() {
		index, err := strconv.Atoi(iommu.PCIBus)
		switch n := p.GuestTree.Node(topology.Index(index)); {
		case err != nil:
		case n == nil || n.Kind != topology.Root: // hw/arm/smmu-common.c
			g.add("set pciBus to the index of the expander bus above the GPU",
				"pciBus %d of an SMMUv3 is not the index of an expander bus: QEMU: SMMU should be "+
					"attached to a default PCIe root complex(pcie.0) or a pxb-pcie based root "+
					"complex", index)

		case iommu.Accel:
			g.accelerated(n)
		}
	}

	const remedy = "set pcihole64 to a power of two from 512 GiB on that holds the BARs"
	switch hole := p.result.PCIHole64; { // hw/arm/virt.c
	case hole == nil, *hole == 0, p.result.Arch != "aarch64":
	case bits.OnesCount64(*hole) > 1:
		g.add(remedy, "pcihole64 is %d KiB: QEMU: highmem-mmio-size is not a power of 2", *hole>>10)
	case *hole < 512<<30:
		g.add(remedy,
			"pcihole64 is %d KiB: QEMU: highmem-mmio-size cannot be set to a lower value than the "+
				"default (512 GiB)", *hole>>10)
	}

	return g.warnings
}

// cells looks for the first fault of the cells that each device names.
func (g *graceFaults) cells() {
	// Linux drivers/vfio/pci/nvgrace-gpu/main.c; 3041 is KubeVirt's
	coherent := []uint16{0x2342, 0x2345, 0x2348, 0x2941, 0x3041, 0x31c2}
	const own = "give each GPU eight cells of its own without memory and CPUs, after all others"
	cells, owners := map[int]domain.Cell{}, map[int]topology.DeviceID{}
	for _, c := range g.result.Cells {
		cells[int(c.ID)] = c
	}

devices:
	for _, d := range g.Devices {
		nodeset, _ := topology.ParseIDs(g.result.Hostdevs[d.position].Nodeset)
		if f := d.Function; f != nil && f.Vendor == 0x10de && slices.Contains(coherent, f.Device) &&
			nodeset.IsEmpty() {
			g.add("enable KubeVirt's gate GraceIOVirtualization; 1.9 knows 10de:2342, 2348 and "+
				"2941, and no version 2345 or GB300's 31c2",
				"%s (10de:%04x) names no cells for its memory: its driver has no node to add "+
					"memory to", d.ID, f.Device)
		}

		for id := range nodeset.All() {
			cell, exists := cells[id]
			owner, isShared := owners[id]
			switch {
			case !exists: // hw/acpi/pci.c
				g.add("correct the nodeset, or add the cell",
					"%s names cell %d, which does not exist in the guest: QEMU: "+
						"acpi-generic-initiator: Specified node %[2]d is invalid.", d.ID, id)
				continue devices

			case !d.Function.IsGPU(): // the nodeset of a NIC is a cell of CPUs
			case !cell.IsBare():
				g.add(own,
					"%s names cell %d for its memory, which has memory or CPUs: its driver has no "+
						"node to add memory to", d.ID, id)
				continue devices

			case isShared:
				g.add(own,
					"%s names cell %d for its memory, as %s does: both add memory to one node", d.ID, id, owner)
				continue devices
			}

			owners[id] = d.ID
		}
	}
}

// accelerated looks at what is under an expander bus whose SMMUv3 is accelerated. It serves devices
// of one SMMUv3 of the host, and on Grace each PCIe root has its own.
func (g *graceFaults) accelerated(expander *topology.Node) {
	others := libvirt.Devices(g.input)
	var first *Decision
	for n := range expander.Endpoints() { // hw/arm/smmuv3-accel.c
		switch id := n.ID.(type) {
		case libvirt.Other: // after others come those that the hook reserves room for
			if int(id) < len(others) &&
				(others[id].Element != "interface" || others[id].Type != "hostdev") {
				g.add("give it an address on the root bus",
					"<%s> is under the accelerated SMMUv3 of %s: QEMU: Emulated endpoint devices "+
						"are not allowed when using arm-smmuv3,accel=on", topology.Abridge(others[id].Element), expander.ID)
			}
		case topology.DeviceID:
			d := &g.Devices[slices.IndexFunc(g.Devices, func(d Decision) bool {
				return d.ID == id
			})]

			if !g.result.Hostdevs[d.position].IOMMUFD {
				g.add("add <driver iommufd='yes'/> to the hostdev",
					"%s is under the accelerated SMMUv3 of %s and has no iommufd: QEMU: vfio-pci "+
						"endpoint devices without an iommufd backend not allowed when using "+
						"arm-smmuv3,accel=on", id, expander.ID)
			}

			// backends/iommufd.c; Linux drivers/iommu/iommufd/viommu.c
			if first = cmp.Or(first, d); cmp.Or(d.PCIeRoot,
				first.PCIeRoot) != cmp.Or(first.PCIeRoot, d.PCIeRoot) {
				g.add("give each GPU, and each NIC that needs one, an expander bus with an SMMUv3 "+
					"of its own",
					"%s is under the accelerated SMMUv3 of %s with %s of another PCIe root: QEMU: "+
						"IOMMU_VDEVICE_ALLOC failed: Invalid argument", id, expander.ID, first.ID)
			}
		}
	}
}
