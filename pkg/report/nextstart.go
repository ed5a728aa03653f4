package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// nicName returns the name that systemd gives a NIC at an address of the guest, nil for other
// devices. In a slot with several functions it has the function's number. A driver that names its
// port adds that, such as np0 (systemd.net-naming-scheme(7), ID_NET_NAME_PATH; a name by slot there
// is not, since libvirt numbers no slots of ports).
func nicName(f *topology.Function, at *topology.Address, isShared bool) *string {
	if !f.IsNIC() || at == nil {
		return nil
	}

	prefix := "en"
	if f.Class>>8 == topology.ClassInfiniBand>>8 {
		prefix = "ib"
	}

	name := fmt.Sprintf("%sp%ds%d", prefix, at.Bus, at.Device)
	if isShared || at.Function > 0 {
		name += fmt.Sprintf("f%d", at.Function)
	}

	return &name
}

// nameOf returns the name that systemd gives a device of the report, nil if it has none.
func (r Report) nameOf(d DeviceReport) *string {
	isBeside := func(other DeviceReport) bool {
		return d.Predicted != nil && other.Predicted != nil && other.ID != d.ID &&
			other.Predicted.Bus == d.Predicted.Bus && other.Predicted.Device == d.Predicted.Device
	}
	return nicName(d.function, d.Predicted, slices.ContainsFunc(r.Devices, isBeside))
}

// Moved returns how many devices get another address in the guest at the next start, and how many
// NICs another name. A dry run changes nothing.
func (p Prospect) Moved() (addresses, names int) {
	if p.planned.DryRun || p.Error != nil {
		return 0, 0
	}

	// What is not known on one side may be the same, and is not counted.
	for _, m := range p.Devices {
		if m.Now != nil && m.Predicted != nil && *m.Now != *m.Predicted {
			addresses++
		}
		if m.NameNow != nil && m.Name != nil && *m.NameNow != *m.Name {
			names++
		}
	}

	return addresses, names
}

// nextStart says what the next start changes in the guest, and what keeps it; "" for nothing.
func (r Report) nextStart() string {
	would := r.WouldChange
	if would == nil {
		return ""
	}

	addresses, names := would.Moved()
	if addresses == 0 {
		return ""
	}

	text := "at the next start with the hook " + someOf(addresses, "device gets another address",
		"devices get other addresses") + " in the guest"
	if names > 0 {
		text += ", " + someOf(names, "NIC another name", "NICs other names")
	}

	// With a GPU more or less there is no order to compare.
	now, then := r.gpuOrder(), would.planned.gpuOrder()
	if !slices.Equal(now, then) && len(now) == len(then) {
		text += ", and the GPUs another order"
	}

	kept := policy.LayoutKeep
	if r.plan != nil {
		kept = cmp.Or(r.plan.TreeLayout(), kept)
	}

	return text + fmt.Sprintf("; %s=%s keeps them", policy.KeyLayout, kept)
}

func someOf(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// gpuOrder returns the GPUs in the order of their addresses in the guest, in which nvidia-smi numbers
// them.
func (r Report) gpuOrder() []topology.DeviceID {
	gpus := slices.DeleteFunc(slices.Clone(r.Devices), func(d DeviceReport) bool {
		return !d.function.IsGPU() || d.Predicted == nil
	})
	slices.SortFunc(gpus, func(a, b DeviceReport) int { return a.Predicted.Compare(*b.Predicted) })
	return topology.Map(gpus, func(d DeviceReport) topology.DeviceID { return d.ID })
}

// withName adds a NIC's name to its place, after the address.
func withName(place string, name *string) string {
	if name == nil {
		return place
	}
	address, cell, _ := strings.Cut(place, ", ")
	return address + " " + *name + ", " + cell
}
