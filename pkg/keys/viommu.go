package keys

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
)

// writeVIOMMU gives the guest an IOMMU. KubeVirt's types lose its alias, its driver's attributes
// and the I/O APIC between two calls (virtwrap/api/schema.go, IOMMUDevice and Features), so that
// every call writes them.
func writeVIOMMU(vm Planned) Writing {
	d, wanted := vm.Domain(), vm.Policy.VIOMMU
	if why := conflict(d, wanted); why != "" {
		return refused(reasons.CodeVIOMMURefused,
			fmt.Sprintf("no vIOMMU of model %s: %s", wanted, why))
	}

	var instead []domain.Fragment
	for _, i := range d.IOMMUs() {
		switch {
		case i.Mark() != "":
		case isEmptied(i, wanted):
			instead = append(instead, i)
		case i == domain.IOMMU{Model: policy.VIOMMUSMMUv3}:
			// KubeVirt reduces the hook's own to this
			return Writing{Line: describeVIOMMU(d, i)}

		default:
			return Writing{Line: "the domain has its own, which stays as it is"}
		}
	}

	iommu := newIOMMU(d, wanted)
	w := one(iommu, describeVIOMMU(d, iommu))
	w.Instead = instead
	return w
}

// isEmptied reports whether an iommu is the hook's own of model intel after KubeVirt has
// dropped what its types do not have.
func isEmptied(i domain.IOMMU, wanted string) bool {
	return wanted == policy.VIOMMUIntel && i == domain.IOMMU{Model: wanted, Emptied: true}
}

// Limits of libvirt and QEMU.
const (
	// addressBits is for four levels of page tables. With 39, the alternative, a large guest
	// cannot map all of its memory (QEMU hw/i386/intel_iommu.c, aw-bits).
	addressBits = 48
	// xAPICs is the maximum of vCPUs without extended interrupt mode (libvirt
	// src/qemu/qemu_validate.c, QEMU_MAX_VCPUS_WITHOUT_EIM).
	xAPICs = 255
)

// newIOMMU returns the device for a domain. VFIO needs the caching mode (QEMU
// hw/i386/intel_iommu.c, vtd_iommu_notify_flag_changed), and the guest's own VFIO the remapping of
// interrupts (kernel drivers/vfio/vfio_iommu_type1.c, allow_unsafe_interrupts).
func newIOMMU(d *domain.Domain, wanted string) domain.IOMMU {
	iommu := domain.IOMMU{Model: wanted, Alias: string(domain.IOMMUMark)}
	if wanted == policy.VIOMMUSMMUv3 {
		return iommu
	}

	iommu.IntRemap, iommu.CachingMode, iommu.AddressBits = "on", "on", addressBits
	iommu.IOAPIC = d.IOAPIC == nil
	if d.VCPUs > xAPICs {
		iommu.EIM = "on"
	}

	return iommu
}

// conflict returns why a domain cannot have an IOMMU of the hook, "" when it can. QEMU's SMMUv3
// does not notify VFIO of the guest's mappings (hw/arm/smmuv3.c, smmuv3_notify_flag_changed, 7.2
// to 11.1). The host's SMMUv3 does without (accel), which KubeVirt gives to devices that need it
// (pkg/virt-launcher/virtwrap/converter/grace.go).
func conflict(d *domain.Domain, wanted string) string {
	// What the machine cannot have comes before what the domain has already, since the user has to change
	// the machine first.
	isARM := d.Arch == "aarch64"
	isUsers := func(i domain.IOMMU) bool { return i.Mark() == "" && i.Model == string(wanted) }
	switch {
	case !libvirt.HasExpanderBuses(d) || isARM != (wanted == policy.VIOMMUSMMUv3):
		return fmt.Sprintf("machine %q of architecture %q cannot have it", d.Machine, d.Arch)
	case d.CommandLineIOMMU():
		return "qemu:commandline has one already"
	case wanted == policy.VIOMMUIntel && d.IOAPIC != nil && *d.IOAPIC == "":
		return "it needs QEMU's I/O APIC, and the domain's <ioapic> has no driver"
	case wanted == policy.VIOMMUIntel && d.IOAPIC != nil && *d.IOAPIC != "qemu":
		return fmt.Sprintf("it needs QEMU's I/O APIC, and the domain wants that of %q", *d.IOAPIC)
	case wanted == policy.VIOMMUSMMUv3 && len(d.Hostdevs) > 0 &&
		!slices.ContainsFunc(d.IOMMUs(), isUsers):
		return "with it QEMU does not start with a passthrough device"
	}

	for _, i := range d.IOMMUs() {
		if i.Mark() == "" && i.Model != string(wanted) {
			return fmt.Sprintf("the domain has one of model %q", i.Model)
		}
	}

	return ""
}

// describeVIOMMU describes the IOMMU, and the memory that it lets QEMU lock.
func describeVIOMMU(d *domain.Domain, iommu domain.IOMMU) string {
	text := "SMMUv3 for all devices"
	if iommu.Model == policy.VIOMMUIntel {
		text = fmt.Sprintf("VT-d with interrupt remapping, caching mode and %d address bits",
			iommu.AddressBits)
	}

	if iommu.EIM != "" {
		text += fmt.Sprintf(", and extended interrupt mode for %d vCPUs", d.VCPUs)
	}

	if n := len(d.Hostdevs); n > 1 {
		text += fmt.Sprintf("; each of the %d devices locks the guest's memory once", n)
	}

	return text
}
