package bus

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
)

// Span is a range of bus numbers.
type Span struct{ First, End int } // to before End

// ArgumentSpans returns the bus numbers of the expander buses in qemu:commandline, the highest
// first.
func (g Guest) ArgumentSpans() (spans []Span) {
	for i, d := range g.CommandLine.Devices {
		if d.BusNr != nil {
			spans = append(spans, Span{*d.BusNr, *d.BusNr + g.CommandLine.BusNumbers(i)})
		}
	}

	slices.SortFunc(spans, func(x, y Span) int { return cmp.Compare(y.First, x.First) })
	return spans
}

// ArgumentAt returns the device of qemu:commandline in a slot of the root bus, nil without one.
// QEMU puts no other device into a slot whose function 0 is not multifunction, so all of a slot is
// taken.
func (g Guest) ArgumentAt(slot int) *domain.ArgumentDevice {
	for i, d := range g.CommandLine.Devices {
		if d.IsOnRootBus() && d.Slot == slot {
			return &g.CommandLine.Devices[i]
		}
	}
	return nil
}

// argumentPlaces returns devices in place of those of qemu:commandline with a slot of the root bus.
func (g Guest) argumentPlaces() (places []libvirt.Endpoint) {
	for _, d := range g.CommandLine.Devices {
		if d.IsOnRootBus() && d.Slot != topology.NoSlot {
			places = append(places, reserved(&domain.GuestAddress{Slot: d.Slot}))
		}
	}
	return places
}

// argumentBeside returns the device of qemu:commandline in the slot of an expander bus, or nil.
func (g Guest) argumentBeside(expander domain.Controller) *domain.ArgumentDevice {
	if a := expander.Address; a != nil && a.Bus == 0 {
		return g.ArgumentAt(a.Slot)
	}
	return nil
}

// lowestFrom returns the lowest number of the spans from a number to before end, else end.
func lowestFrom(spans []Span, from, end int) int {
	for _, s := range spans {
		if s.End > from {
			end = min(end, max(s.First, from))
		}
	}
	return end
}

// Coming returns the indexes of the root ports that libvirt, KubeVirt and the hook will add.
func (g Guest) Coming(ports Ports) (indexes []int) {
	highest := g.HighestIndex()
	root := g.RootBus(ports, highest)
	for index := highest + 1; index <= highest+root.Added; index++ {
		indexes = append(indexes, index)
	}

	for _, c := range g.Controllers[len(g.Given.Controllers):] {
		indexes = append(indexes, c.Index)
	}

	return indexes
}
