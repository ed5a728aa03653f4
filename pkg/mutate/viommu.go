package mutate

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
)

// iommuAlias marks the iommu device that the hook gives; libvirt 9 to 12 keep it.
// With the suffix the hook has given the I/O APIC, too, which can have no mark.
// KubeVirt's types lose both and the driver's attributes between two calls
// (virtwrap/api/schema.go, IOMMUDevice and Features), so that they are written in
// every call.
const (
	iommuAlias   = "ua-hook-sidecar-viommu"
	ioapicSuffix = "-ioapic"
)

// withVIOMMU is the plan with an IOMMU for the guest, where the policy asks for it,
// and without the hook's own where it does not.
func withVIOMMU(plan *placement.Plan) *placement.Plan {
	d, wanted := plan.Domain(), plan.Policy.VIOMMU
	changes := plan.Changes
	changes.RemoveIOMMUs = positionsOf(d.IOMMUs, isOwnIOMMU)
	hasOwnIOAPIC := slices.ContainsFunc(d.IOMMUs, func(i domain.IOMMU) bool { return i.Alias == iommuAlias+ioapicSuffix })
	if hasOwnIOAPIC {
		changes.IOAPIC = domain.RemoveIOAPIC
	}
	switch {
	case wanted == policy.VIOMMUNone && len(changes.RemoveIOMMUs) == 0:
		return plan
	case wanted == policy.VIOMMUNone:
		return plan.With(changes, nil, nil)
	}
	if why := noVIOMMU(d, wanted); why != "" {
		text := fmt.Sprintf("no vIOMMU of model %s: %s", wanted, why)
		return plan.With(changes, nil, []reasons.Warning{reasons.NewWarning(reasons.CodeVIOMMURefused, nil, text)})
	}
	for _, i := range d.IOMMUs {
		switch {
		case isOwnIOMMU(i), isEmptied(i, wanted):
		case i == domain.IOMMU{Model: string(policy.VIOMMUSMMUv3)}: // also what KubeVirt leaves of the hook's
			return plan.With(changes, extra(policy.KeyVIOMMU, saysVIOMMU(plan, i)), nil)
		default:
			return plan.With(changes, extra(policy.KeyVIOMMU, "the domain has its own, which stays as it is"), nil)
		}
	}
	iommu := newIOMMU(d, wanted)
	changes.IOAPIC = domain.KeepIOAPIC
	if wanted == policy.VIOMMUIntel && d.IOAPIC == "" {
		changes.IOAPIC = domain.AddIOAPIC
	}
	if hasOwnIOAPIC || changes.IOAPIC == domain.AddIOAPIC {
		iommu.Alias += ioapicSuffix
	}
	changes.RemoveIOMMUs = positionsOf(d.IOMMUs, func(i domain.IOMMU) bool { return isOwnIOMMU(i) || isEmptied(i, wanted) })
	if slices.Equal(d.IOMMUs, []domain.IOMMU{iommu}) {
		changes.RemoveIOMMUs = nil // it is as it should be
	} else {
		changes.AddIOMMU = &iommu
	}
	return plan.With(changes, extra(policy.KeyVIOMMU, saysVIOMMU(plan, iommu)), nil)
}

func isOwnIOMMU(i domain.IOMMU) bool { return strings.TrimSuffix(i.Alias, ioapicSuffix) == iommuAlias }

// isEmptied reports whether an iommu is what KubeVirt leaves of the hook's own of
// model intel.
func isEmptied(i domain.IOMMU, wanted policy.VIOMMU) bool {
	return wanted == policy.VIOMMUIntel && i == domain.IOMMU{Model: string(wanted), Emptied: true}
}

// Limits of libvirt and QEMU.
const (
	// addressBits are those of four levels of the guest's page tables. With less, a
	// guest of a host with more memory cannot map it all (QEMU
	// hw/i386/intel_iommu.c, aw-bits: 39 or 48).
	addressBits = 48
	// xAPICs is how many vCPUs there can be without extended interrupt mode (libvirt
	// src/qemu/qemu_validate.c, QEMU_MAX_VCPUS_WITHOUT_EIM).
	xAPICs = 255
)

// newIOMMU is the device for a domain. VFIO needs the caching mode (QEMU
// hw/i386/intel_iommu.c, vtd_iommu_notify_flag_changed), and the guest's own VFIO
// the remapping of interrupts (kernel drivers/vfio/vfio_iommu_type1.c,
// allow_unsafe_interrupts).
func newIOMMU(d *domain.Domain, wanted policy.VIOMMU) domain.IOMMU {
	iommu := domain.IOMMU{Model: string(wanted), Alias: iommuAlias}
	if wanted == policy.VIOMMUSMMUv3 {
		return iommu
	}
	iommu.IntRemap, iommu.CachingMode, iommu.AddressBits = "on", "on", addressBits
	if d.VCPUs > xAPICs {
		iommu.EIM = "on"
	}
	return iommu
}

func hasModel(wanted policy.VIOMMU) func(domain.IOMMU) bool {
	return func(i domain.IOMMU) bool { return !isOwnIOMMU(i) && i.Model == string(wanted) }
}

// noVIOMMU says why a domain cannot have an IOMMU of the hook, "" when it can. VFIO
// has to hear of what the guest maps, and QEMU's SMMUv3 does not say it (hw/arm/smmuv3.c,
// smmuv3_notify_flag_changed: "requires iommu MAP notifier which is not currently
// supported", 7.2 to 11.1). The host's SMMUv3 can do without (accel), which KubeVirt
// gives to devices that need it (pkg/virt-launcher/virtwrap/converter/grace.go).
func noVIOMMU(d *domain.Domain, wanted policy.VIOMMU) string {
	isARM := d.Arch == "aarch64"
	switch {
	case !libvirt.HasExpanderBuses(d) || isARM != (wanted == policy.VIOMMUSMMUv3):
		return fmt.Sprintf("machine %q of architecture %q cannot have it", d.Machine, d.Arch)
	case d.CommandLineIOMMU:
		return "qemu:commandline has one already"
	case wanted == policy.VIOMMUIntel && d.IOAPIC != "" && d.IOAPIC != "qemu":
		return fmt.Sprintf("it needs QEMU's I/O APIC, and the domain wants that of %q", d.IOAPIC)
	case wanted == policy.VIOMMUSMMUv3 && len(d.Hostdevs) > 0 && !slices.ContainsFunc(d.IOMMUs, hasModel(wanted)):
		return "with it QEMU does not start with a passthrough device"
	}
	for _, i := range d.IOMMUs {
		if !isOwnIOMMU(i) && i.Model != string(wanted) {
			return fmt.Sprintf("the domain has one of model %q", i.Model)
		}
	}
	return ""
}

// saysVIOMMU is what the plan says of the IOMMU, and of the memory that it lets QEMU
// lock.
func saysVIOMMU(plan *placement.Plan, iommu domain.IOMMU) string {
	text := "SMMUv3 for all devices"
	if iommu.Model == string(policy.VIOMMUIntel) {
		text = fmt.Sprintf("VT-d with interrupt remapping, caching mode and %d address bits", iommu.AddressBits)
	}
	if iommu.EIM != "" {
		text += fmt.Sprintf(", and extended interrupt mode for %d vCPUs", plan.Domain().VCPUs)
	}
	if n := len(plan.Domain().Hostdevs); n > 1 {
		text += fmt.Sprintf("; each of the %d devices locks the guest's memory once", n)
	}
	return text
}
