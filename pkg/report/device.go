package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Number returns the position of a device in Devices, by which text and pictures name it, or -1.
func (r Report) Number(id topology.ID) int {
	return slices.IndexFunc(r.Devices, func(d DeviceReport) bool { return id == d.ID })
}

// IsShown reports whether the host shows a device. If not, the path types on the host are
// SYS for want of knowledge, and are not compared.
func (d DeviceReport) IsShown() bool { return d.function != nil }

// IsElsewhere reports whether the host shows none of the devices: it is not the VM's node.
func (r Report) IsElsewhere() bool {
	missing := topology.CountFunc(r.Warnings, isMissing)
	return missing > 0 && missing == len(r.Devices)
}

// OtherWarnings returns the warnings without the per-device "not on this host" ones, which the
// headline sums up.
func (r Report) OtherWarnings() []reasons.Finding {
	return slices.DeleteFunc(slices.Clone(r.Warnings), isMissing)
}

// isMissing reports whether a warning is about a device that the host does not show.
func isMissing(f reasons.Finding) bool { return f.Code == reasons.CodeNoSysfs && f.Device != nil }

// Title returns the alias of a device.
func (d DeviceReport) Title() string { return title(d.Alias) }

// Function returns the device on the host, the parent of a mediated device; nil if the host does
// not show it.
func (d DeviceReport) Function() *topology.Function { return d.function }

func title(alias *string) string { return words.Printable(or(alias, "(no alias)")) }

// Family is a group of PCI classes with one tint and shape in pictures.
type Family string

// The families.
const (
	GPU   Family = "gpu" // or another accelerator
	NIC   Family = "nic"
	Other Family = "other"
)

// Family returns the family of a device, or of a mediated device's parent.
func (d DeviceReport) Family() Family { return d.class().family }

// Noun returns the name of a kind of device in a sentence.
func (d DeviceReport) Noun() string {
	if d.Kind == topology.KindMDEV {
		return "mediated device"
	}
	return d.function.Noun()
}

// class is how devices of a PCI class are named.
type class struct {
	name   string // in a tree; see Noun for a sentence
	family Family
}

// class returns the class of a device, or of a mediated device's parent (PCI Code and ID Assignment
// Specification 1.14, section 1).
func (d DeviceReport) class() class {
	pci := class{"PCI", Other}
	if d.function == nil {
		return pci
	}

	return cmp.Or(subclasses[d.function.Class>>8], classes[d.function.Class>>16], pci)
}

// subclasses and classes have what class knows, by PCI's subclass, else by its base class.
var (
	subclasses = map[uint32]class{
		0x0108: {"NVMe", Other}, 0x0403: {"audio", Other},
		0x0c03: {"USB", Other},
	}

	classes = map[uint32]class{
		0x01: {"disk", Other}, 0x02: {"NIC", NIC},
		0x03: {"GPU", GPU}, 0x12: {"accel", GPU},
	}
)

// Inventory counts the devices: "8 GPUs, 8 NICs".
func (r Report) Inventory() string {
	counts := map[string]int{}
	for _, d := range r.Devices {
		counts[d.Noun()]++
	}

	all := topology.Map(slices.Sorted(maps.Keys(counts)), func(noun string) string {
		return words.Counted(counts[noun], noun)
	})

	return strings.Join(all, ", ")
}

// Count returns how many devices have an outcome.
func (r Report) Count(outcome placement.Outcome) int {
	return topology.CountFunc(r.Devices, func(d DeviceReport) bool { return d.Outcome == outcome })
}

// Added returns how many devices are added.
func (r Report) Added() int {
	return topology.CountFunc(r.Devices, func(d DeviceReport) bool { return d.Added })
}

// ReasonsOf returns the reasons of the devices with an outcome, each once.
func (r Report) ReasonsOf(outcome placement.Outcome) []reasons.Reason {
	var all []reasons.Reason
	for _, d := range r.Devices {
		if d.Outcome == outcome && !slices.Contains(all, d.Reason) {
			all = append(all, d.Reason)
		}
	}

	return all
}

// WithReason returns the devices with a reason.
func (r Report) WithReason(reason reasons.Reason) []DeviceReport {
	return slices.DeleteFunc(slices.Clone(r.Devices), func(d DeviceReport) bool {
		return d.Reason != reason
	})
}

// controller returns the controller with an index, nil if libvirt has yet to add it.
func (r Report) controller(index topology.Index) *Controller {
	i := slices.IndexFunc(r.Controllers, func(c Controller) bool {
		return topology.Index(c.Index) == index
	})
	if i < 0 {
		return nil
	}
	return &r.Controllers[i]
}

// short leaves out the PCI domain if all devices of the host have domain 0.
func (r Report) short(a topology.Address) string {
	for _, d := range r.Devices {
		if pci, ok := d.ID.PCI(); a.Domain != 0 || ok && pci.Domain != 0 {
			return a.String()
		}
	}
	return shortOr(&a, "")
}

// shortOr returns an address without its PCI domain, or another text if it is not known.
func shortOr(a *topology.Address, unknown string) string {
	if a == nil {
		return unknown
	}
	return fmt.Sprintf("%02x:%02x.%x", a.Bus, a.Device, a.Function)
}

// shortID shortens an id: an address by short, a UUID to its first part.
func (r Report) shortID(id topology.DeviceID) string {
	if pci, isPCI := id.PCI(); isPCI {
		return r.short(pci)
	}
	return id.String()[:len("4a1f0b5c")]
}

func or[T any](v *T, unknown string) string {
	if v == nil {
		return unknown
	}
	return fmt.Sprint(*v)
}
