package domain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	"hook-sidecar/pkg/domain/xmledit"
)

// IOMMU is an iommu device of the domain (libvirt docs/formatdomain.rst, "IOMMU
// devices"): existing, or to be added by Apply. A field is zero where the element
// does not have it.
type IOMMU struct {
	Model       string // @model
	IntRemap    string // driver/@intremap
	CachingMode string // driver/@caching_mode
	EIM         string // driver/@eim
	AddressBits uint   // driver/@aw_bits
	PCIBus      string // driver/@pciBus
	Alias       string // alias/@name

	// Emptied is true for a driver without attributes. KubeVirt leaves one: its
	// type for a driver has none of those that libvirt reads for model intel
	// (virtwrap/api/schema.go, IOMMUDriver).
	Emptied bool
}

func (r *reader) iommus(root *xmledit.Element) error {
	d := r.domain
	for e := range all(root, "devices", "iommu") {
		driver := e.Child("driver")
		bits, _ := strconv.ParseUint(driver.Value("aw_bits"), 10, 8)
		d.IOMMUs = append(d.IOMMUs, IOMMU{
			Model: e.Value("model"), IntRemap: driver.Value("intremap"), CachingMode: driver.Value("caching_mode"),
			EIM: driver.Value("eim"), PCIBus: driver.Value("pciBus"), AddressBits: uint(bits), Alias: alias(e),
			Emptied: driver != nil && len(driver.Attrs) == 0 && len(driver.Children) == 0,
		})
		d.doc.iommus = append(d.doc.iommus, e)
	}
	d.IOAPIC = first(root, "features", "ioapic").Value("driver")
	vcpus, _ := number(strings.TrimSpace(r.xml.Text(root.Child("vcpu"))), 10)
	d.VCPUs = int(min(vcpus, maxVCPUs))
	for e := range qemu(root, "commandline", "arg") {
		for _, word := range strings.FieldsFunc(e.Value("value"), isSeparator) {
			d.CommandLineIOMMU = d.CommandLineIOMMU || slices.Contains(iommuWords(), word)
		}
	}
	return nil
}

// maxVCPUs is more than any QEMU has.
const maxVCPUs = 1 << 16

// iommuWords are QEMU's names of IOMMUs (docs/system, "-device help"; the last is a
// value of the machine's property iommu).
func iommuWords() []string {
	return []string{"intel-iommu", "amd-iommu", "virtio-iommu-pci", "virtio-iommu-device", "arm-smmuv3", "smmuv3"}
}

// ioapic is the I/O APIC of QEMU instead of KVM's.
const ioapic = `<ioapic driver="qemu"></ioapic>`

func (r *renderer) iommu(i IOMMU) (string, error) {
	written := &libvirtxml.DomainIOMMU{Model: i.Model, Alias: newAlias(i.Alias)}
	driver := libvirtxml.DomainIOMMUDriver{IntRemap: i.IntRemap, CachingMode: i.CachingMode, EIM: i.EIM, AWBits: i.AddressBits}
	if driver != (libvirtxml.DomainIOMMUDriver{}) {
		written.Driver = &driver
	}
	return r.write("iommu", written)
}

// setIOMMU removes and adds iommu devices. One that replaces another takes its
// place; what has no place yet is returned, for the end of the devices.
func (e *editor) setIOMMU(c Changes) (last []string, err error) {
	for _, i := range c.RemoveIOMMUs {
		e.edit(e.xml.Remove(e.domain.doc.iommus[i]))
	}
	if c.AddIOMMU == nil {
		return nil, nil
	}
	text, err := e.iommu(*c.AddIOMMU)
	switch {
	case err != nil:
		return nil, err
	case len(c.RemoveIOMMUs) > 0:
		e.edit(e.xml.InsertBefore(e.domain.doc.iommus[slices.Min(c.RemoveIOMMUs)], text))
		return nil, nil
	}
	return []string{text}, nil
}

// setIOAPIC adds the I/O APIC of QEMU, or removes it.
func (e *editor) setIOAPIC(change IOAPICChange) {
	root := e.xml.Root()
	features := root.Child("features")
	now := features.Child("ioapic")
	switch {
	case change == RemoveIOAPIC && now != nil:
		e.edit(e.xml.Remove(now))
	case change != AddIOAPIC || now != nil:
	case features != nil:
		e.edit(e.xml.InsertLast(features, ioapic))
	default:
		written := wrapped("features", []string{ioapic})
		if before := cmp.Or(root.Child("cpu"), root.Child("devices")); before != nil {
			e.edit(e.xml.InsertBefore(before, written))
		} else {
			e.edit(e.xml.InsertLast(root, written))
		}
	}
}
