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
)

// Number is the position of a device in Devices, by which text and pictures name it;
// -1 for any other ID.
func (r Report) Number(id topology.ID) int {
	return slices.IndexFunc(r.Devices, func(d Device) bool { return id == d.ID })
}

// IsShown reports whether the host shows a device. Where it does not, the path types on
// the host are SYS because nothing else is known, and nothing is compared.
func (d Device) IsShown() bool { return d.function != nil }

// IsElsewhere reports whether the host shows none of the devices: it is not the node
// of this VM.
func (r Report) IsElsewhere() bool {
	missing := 0
	for _, warning := range r.Warnings {
		if isMissing(warning) {
			missing++
		}
	}
	return missing > 0 && missing == len(r.Devices)
}

// isMissing reports whether a warning is about a device that the host does not show.
func isMissing(w reasons.Warning) bool { return w.Code == reasons.CodeNoSysfs && w.Device != nil }

// Title is the alias of a device.
func (d Device) Title() string { return title(d.Alias) }

func title(alias *string) string { return topology.Printable(or(alias, "(no alias)")) }

// Family is a group of PCI classes that a picture distinguishes by tint and shape.
type Family string

// The families.
const (
	GPU   Family = "gpu" // or another accelerator
	NIC   Family = "nic"
	Other Family = "other"
)

// Family is the family of a device, or of a mediated device's parent.
func (d Device) Family() Family {
	return cmp.Or(map[string]Family{"GPU": GPU, "accel": GPU, "NIC": NIC}[d.class()], Other)
}

// Noun is the name of a kind of device in a sentence.
func (d Device) Noun() string {
	if d.Kind == topology.KindMDEV {
		return "mediated device"
	}
	nouns := map[string]string{
		"accel": "accelerator", "NVMe": "NVMe drive", "audio": "audio function", "USB": "USB controller",
		"disk": "disk controller", "PCI": "PCI device",
	}
	return cmp.Or(nouns[d.class()], d.class())
}

// class is the name of the PCI class of a device, or of a mediated device's parent
// (PCI Code and ID Assignment Specification 1.14, section 1).
func (d Device) class() string {
	if d.function == nil {
		return "PCI"
	}
	subclasses := map[uint32]string{0x0108: "NVMe", 0x0403: "audio", 0x0c03: "USB"}
	classes := map[uint32]string{0x01: "disk", 0x02: "NIC", 0x03: "GPU", 0x12: "accel"}
	return cmp.Or(subclasses[d.function.Class>>8], classes[d.function.Class>>16], "PCI")
}

// Inventory counts the devices that are passed through: "8 GPUs and 8 NICs".
func (r Report) Inventory() string {
	var all []string
	named, others := 0, 0
	for _, family := range []Family{GPU, NIC, Other} {
		counts := map[string]int{}
		named, others = len(all), 0
		for _, d := range r.Devices {
			if d.Family() == family {
				counts[d.Noun()]++
				others++
			}
		}
		for _, noun := range slices.Sorted(maps.Keys(counts)) {
			all = append(all, topology.Counted(counts[noun], noun))
		}
	}
	if len(all) > 3 && others > 0 {
		all = append(all[:named], topology.Counted(others, "other device"))
	}
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

// Counts are the numbers of devices by outcome, and of those that are added.
type Counts struct{ Placed, Kept, Unplaced, Added int }

// Count counts the devices.
func (r Report) Count() Counts {
	var c Counts
	for _, d := range r.Devices {
		switch d.Outcome {
		case placement.Placed:
			c.Placed++
		case placement.Kept:
			c.Kept++
		case placement.Unplaced:
			c.Unplaced++
		}
		if d.Added {
			c.Added++
		}
	}
	return c
}

// ReasonsOf are the reasons of the devices with an outcome, each once.
func (r Report) ReasonsOf(outcome placement.Outcome) []reasons.Reason {
	var all []reasons.Reason
	for _, d := range r.Devices {
		if d.Outcome == outcome && !slices.Contains(all, d.Reason) {
			all = append(all, d.Reason)
		}
	}
	return all
}

// WithReason are the devices with a reason.
func (r Report) WithReason(reason reasons.Reason) []Device {
	return slices.DeleteFunc(slices.Clone(r.Devices), func(d Device) bool { return d.Reason != reason })
}

// controller is the controller with an index; nil where libvirt has yet to add it.
func (r Report) controller(index topology.Index) *Controller {
	i := slices.IndexFunc(r.Controllers, func(c Controller) bool { return topology.Index(c.Index) == index })
	if i < 0 {
		return nil
	}
	return &r.Controllers[i]
}

// short leaves out the PCI domain where all devices of the host have domain 0.
func (r Report) short(a topology.Address) string {
	for _, d := range r.Devices {
		if pci, ok := d.ID.PCI(); a.Domain != 0 || ok && pci.Domain != 0 {
			return a.String()
		}
	}
	return shortOr(&a, "")
}

// shortOr is an address without its PCI domain, or another text where it is not known.
func shortOr(a *topology.Address, unknown string) string {
	if a == nil {
		return unknown
	}
	return fmt.Sprintf("%02x:%02x.%x", a.Bus, a.Device, a.Function)
}

// shortID is an address as short leaves it, or the part of a UUID that shortID leaves.
func (r Report) shortID(id topology.DeviceID) string {
	if pci, isPCI := id.PCI(); isPCI {
		return r.short(pci)
	}
	return shortID(id)
}

// shortID is an id, of a mediated device the part of its UUID that differs from most
// others.
func shortID(id topology.DeviceID) string {
	if uuid, isMDEV := id.MDEV(); isMDEV {
		return string(uuid[:len("4a1f0b5c")]) + "-.."
	}
	return id.String()
}

// or formats a value that is known, or returns another text.
func or[T any](v *T, unknown string) string {
	if v == nil {
		return unknown
	}
	return fmt.Sprint(*v)
}
