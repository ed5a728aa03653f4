package domain

import (
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
)

// IOMMU is an iommu device (libvirt docs/formatdomain.rst, "IOMMU devices"): existing, or to be
// added by Apply. A field is zero where the element does not have it.
type IOMMU struct {
	Model       string // @model
	IntRemap    string // driver/@intremap
	CachingMode string // driver/@caching_mode
	EIM         string // driver/@eim
	AddressBits uint   // driver/@aw_bits
	PCIBus      string // driver/@pciBus
	Accel       bool   // driver/@accel is "on"
	Alias       string // alias/@name; of a marked one IOMMUMark
	IOAPIC      bool   // marked, and with it QEMU's I/O APIC, which can have no mark

	// Emptied is true for <driver></driver>. KubeVirt's Go types lack the attributes of model intel
	// (virtwrap/api/schema.go, IOMMUDriver), and write this for the hook's own. Any other driver
	// without attributes is the user's; one with the same bytes cannot be distinguished.
	Emptied bool
	HasMore bool // it has more than a driver and an alias

	// SSIDSize is true for a user's iommu with driver/@ssidSize and without driver/@ssidsize:
	// KubeVirt misspells the name.
	SSIDSize bool
}

var iommuKind = kind{read: readIOMMUs, place: placeIOMMUs}

// IOMMUs returns the iommu devices, in document order.
func (d *Domain) IOMMUs() []IOMMU { return fragmentsOf[IOMMU](d.Fragments) }

// HasIOMMU reports whether the guest has an IOMMU, be it in qemu:commandline.
func (d *Domain) HasIOMMU() bool { return len(d.IOMMUs()) > 0 || d.CommandLineIOMMU() }

// CommandLineIOMMU reports whether qemu:commandline names one of QEMU's IOMMUs.
func (d *Domain) CommandLineIOMMU() bool {
	for _, arg := range d.Args {
		if slices.ContainsFunc(strings.FieldsFunc(arg, isSeparator), isIOMMU) {
			return true
		}
	}
	return false
}

// SSIDSizes returns how many iommu devices have IOMMU.SSIDSize.
func (d *Domain) SSIDSizes() int {
	return len(slices.DeleteFunc(d.IOMMUs(), func(i IOMMU) bool { return !i.SSIDSize }))
}

// IOMMUMark is the alias of an iommu that Apply may add, replace and remove; libvirt 9 to 12
// keep it. In the XML a suffix follows it where Apply has added the I/O APIC too, and another
// where it has added <features> for that.
const IOMMUMark Mark = "ua-hook-sidecar-viommu"

const (
	ioapicSuffix   = "-ioapic"
	featuresSuffix = "-features"
)

// Mark returns IOMMUMark for an iommu with that alias.
func (i IOMMU) Mark() Mark {
	if i.Alias == string(IOMMUMark) {
		return IOMMUMark
	}
	return ""
}

func readIOMMUs(r *reader, root *xmledit.Element) {
	chip := first(root, "features", "ioapic")
	for e := range all(root, "devices", "iommu") {
		driver := e.Child("driver")
		bits, _ := strconv.ParseUint(driver.Value("aw_bits"), 10, 8)
		i := IOMMU{
			Model: e.Value("model"), IntRemap: driver.Value("intremap"),
			CachingMode: driver.Value("caching_mode"),
			EIM:         driver.Value("eim"), PCIBus: driver.Value("pciBus"),
			Accel: driver.Value("accel") == "on", AddressBits: uint(bits), Alias: alias(e),
			Emptied: driver != nil && len(driver.Attrs) == 0 && !driver.ClosesItself() &&
				driver.Open().End == driver.Close().Start,
			HasMore: slices.ContainsFunc(e.Children, func(c *xmledit.Element) bool {
				return c.Local != "driver" && c.Local != "alias"
			}),
		}

		// The I/O APIC cannot have a mark, so the alias of the iommu says that it is the hook's.
		// One that no iommu takes is the user's.
		at := []*xmledit.Element{e}
		if base, suffix := cutIOAPIC(i.Alias); base == string(IOMMUMark) {
			i.Alias = base
			i.IOAPIC = suffix != "" && chip.Value("driver") == ioapicDriver
			if i.IOAPIC {
				at, chip = append(at, chip), nil
			}
		}

		i.SSIDSize = i.Mark() == "" && misspelled(driver) != nil
		r.fragment(i, at...)
	}

	if chip != nil {
		r.domain.IOAPIC = new(chip.Value("driver"))
	}
}

// withoutSSIDSizes returns fragments after Changes.RenameSSIDSizes.
func withoutSSIDSizes(fragments []Fragment) []Fragment {
	renamed := slices.Clone(fragments)
	for n, f := range renamed {
		if i, is := f.(IOMMU); is {
			i.SSIDSize = false
			renamed[n] = i
		}
	}

	return renamed
}

// isIOMMU reports whether QEMU has an IOMMU of the name.
func isIOMMU(name string) bool { return slices.Contains(qemuIOMMUs, name) }

// qemuIOMMUs are the names of QEMU's IOMMUs ("-device help", and the machine's iommu=smmuv3).
var qemuIOMMUs = []string{
	"intel-iommu", "amd-iommu", "virtio-iommu-pci", "virtio-iommu-device", "arm-smmuv3", "smmuv3",
}

// ioapicDriver is the I/O APIC of QEMU instead of KVM's.
const ioapicDriver = "qemu"

// replace replaces an iommu, and keeps its I/O APIC if both have one.
func (i IOMMU) replace(e *editor, at []*xmledit.Element) {
	_, suffix := cutIOAPIC(alias(at[0]))
	switch {
	case i.IOAPIC && len(at) == 1:
		suffix = e.addIOAPIC()
	case !i.IOAPIC:
		e.removeIOAPIC(at)
		suffix = ""
	}

	e.edit(e.xml.Remove(at[0]))
	e.edit(e.xml.InsertBefore(at[0], i.printWith(suffix)))
}

// placeIOMMUs removes iommu devices with their I/O APIC, and adds some to the end of the devices.
func placeIOMMUs(e *editor) error {
	var parents []*xmledit.Element
	for _, f := range e.domain.doc.written {
		i, is := f.Fragment.(IOMMU)
		switch {
		case !is:
		case e.gone[f.at[0]]:
			e.removeIOAPIC(f.at)
			parents = append(parents, f.at[0].Parent)
		case i.SSIDSize && e.changes.RenameSSIDSizes:
			e.edit(e.xml.RenameAttr(misspelled(f.at[0].Child("driver")), "ssidsize"))
		}
	}

	// Now all that goes is known, and each parent is edited once. It is removed if it becomes empty,
	// but not if something is added to it or if the user wrote it.
	for n, devices := range parents {
		if slices.Contains(parents[:n], devices) {
			continue
		}

		var keep *xmledit.Element
		isMore := len(fragmentsOf[IOMMU](e.added))+len(e.changes.AddControllers)+
			len(e.changes.AddHostdevs) > 0
		if isMore || !e.xml.IsFilled(devices) {
			keep = devices
		}

		e.removeFrom([]*xmledit.Element{devices}, keep)
	}

	for _, i := range fragmentsOf[IOMMU](e.added) {
		suffix := ""
		if i.IOAPIC {
			suffix = e.addIOAPIC()
		}
		e.devices = append(e.devices, i.printWith(suffix))
	}

	return nil
}

// printWith prints an iommu with a suffix of its alias.
func (i IOMMU) printWith(suffix string) string {
	driver, bits := "", ""
	if i.AddressBits != 0 {
		bits = strconv.FormatUint(uint64(i.AddressBits), 10)
	}

	if i.IntRemap+i.CachingMode+i.EIM+bits != "" {
		driver = element("driver", []attribute{
			{"intremap", i.IntRemap}, {"caching_mode", i.CachingMode}, {"eim", i.EIM},
			{"aw_bits", bits},
		})
	}

	return element("iommu", []attribute{{"model", i.Model}}, driver, printAlias(i.Alias+suffix))
}

// misspelled returns the attribute ssidSize of a driver without ssidsize, or nil.
func misspelled(driver *xmledit.Element) *xmledit.Attr {
	if driver.Attr("ssidsize") != nil {
		return nil
	}
	return driver.Attr("ssidSize")
}

// removeIOAPIC removes the I/O APIC, the second of an iommu's elements if there is one, and the
// <features> that Apply has added for it.
func (e *editor) removeIOAPIC(at []*xmledit.Element) {
	if len(at) < 2 {
		return
	}

	_, suffix := cutIOAPIC(alias(at[0]))
	features := at[1].Parent
	var keep *xmledit.Element
	if suffix != featuresSuffix && !e.xml.IsFilled(features) {
		keep = features
	}

	e.gone[at[1]] = true
	e.removeFrom([]*xmledit.Element{features}, keep)
}

// cutIOAPIC separates the suffix from the alias of a marked iommu.
func cutIOAPIC(alias string) (base, suffix string) {
	for _, suffix := range []string{ioapicSuffix, featuresSuffix} {
		if base, found := strings.CutSuffix(alias, suffix); found {
			return base, suffix
		}
	}
	return alias, ""
}

// addIOAPIC adds the I/O APIC of QEMU, and returns the suffix of the alias for that.
func (e *editor) addIOAPIC() (suffix string) {
	root, ioapic := e.xml.Root(), element("ioapic", []attribute{{"driver", ioapicDriver}})
	if features := root.Child("features"); features != nil {
		e.edit(e.xml.Fill(features, ioapic))
		return ioapicSuffix
	}

	e.edit(e.insertBefore(element("features", nil, ioapic), "cpu", "devices"))
	return featuresSuffix
}
