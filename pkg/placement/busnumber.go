package placement

import (
	"cmp"
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
)

// busNumberCount is how many bus numbers a PCI domain has.
const busNumberCount = 256

// span is a range of bus numbers, from first to before end.
type span struct{ first, end int }

// busNumbers are the first bus numbers of the expanders, from the top down. An
// expander's range has room for all bridges below it: firmware numbers on into
// the next root bus and then loses devices (QEMU docs/pcie.txt; measured with
// SeaBIOS and OVMF). Ranges are of one size as long as that fits, so that one
// more device moves no other.
func (n *numbering) busNumbers(wanted []expander) ([]int, error) {
	needs := make([]int, len(wanted))
	for i, e := range wanted {
		needs[i] = e.buses()
	}
	taken, automatic := takenBusNumbers(n.rest)
	// libvirt gives an expander bus without busNr the lowest number less two.
	floor := n.main.buses() + 2*automatic
	var firsts []int
	for _, size := range []int{32, 16, 8, 0} {
		var ok bool
		if firsts, ok = fitRanges(needs, size, taken, floor); ok {
			return firsts, nil
		}
	}
	return nil, busNumbersExceeded(needs, firsts, taken, floor)
}

// busNumbersExceeded says by how much needs do not fit: the numbers are too few
// in all, or those that are left are in pieces. firsts are the ranges that were
// found from the top down.
func busNumbersExceeded(needs, firsts []int, taken []span, floor int) error {
	need, free := 0, busNumberCount-floor
	for _, count := range needs {
		need += count
	}
	for _, s := range taken {
		free -= s.end - s.first
	}
	if free = max(0, free); need > free {
		return fmt.Errorf("bus numbers: the layout needs %d, %d are free beside the %d of the main bus: %d too many",
			need, free, floor, need-free)
	}
	top := busNumberCount
	if len(firsts) > 0 {
		top = firsts[len(firsts)-1]
	}
	need, free = needs[len(firsts)], largestGap(taken, floor, top)
	return fmt.Errorf("bus numbers: an expander bus needs %d in one piece, the largest free range has %d: %d too many", need, free, need-free)
}

// largestGap is the most numbers in one piece from floor to before top.
func largestGap(taken []span, floor, top int) int {
	largest, next := 0, floor
	for _, s := range slices.SortedFunc(slices.Values(taken), func(x, y span) int { return cmp.Compare(x.first, y.first) }) {
		largest = max(largest, min(s.first, top)-next)
		next = max(next, s.end)
	}
	return max(largest, top-next)
}

// takenBusNumbers are the ranges of the expander buses that stay, and the count
// of those that leave their number to libvirt.
func takenBusNumbers(t *tree) (taken []span, automatic int) {
	for _, e := range t.expanders() {
		if e.BusNr == nil {
			automatic++
			continue
		}
		taken = append(taken, span{*e.BusNr, *e.BusNr + 1 + len(t.subtree(e.Index))})
	}
	return taken, automatic
}

// fitRanges gives each need a range of size numbers, or of the exact need when
// size is 0, from the top down, beside the taken ones and not below floor. When
// one does not fit it returns those before.
func fitRanges(needs []int, size int, taken []span, floor int) (firsts []int, ok bool) {
	top := busNumberCount
	for _, need := range needs {
		length := cmp.Or(size, need)
		if need > length {
			return firsts, false
		}
		for blocked := true; blocked; {
			blocked = false
			for _, s := range taken {
				if top-length < s.end && s.first < top {
					top, blocked = s.first, true
				}
			}
		}
		top -= length
		if top < floor {
			return firsts, false
		}
		firsts = append(firsts, top)
	}
	return firsts, true
}

// mainBus is what stands on the main bus and what is still to come.
type mainBus struct {
	bridges   int // controllers of the main bus and below, expander buses left out
	unplugged int // of these, root ports without an address
	rootPorts int // of these, root ports
	free      int // of these, with nothing below
	hungry    int // devices without an address that will take a root port
	coming    int // bridges that libvirt and KubeVirt will add
}

// buses is how many bus numbers the main bus takes in the end, its own included.
func (m mainBus) buses() int { return 1 + m.bridges + m.coming }

func (b *builder) mainBus(t *tree) mainBus {
	var m mainBus
	occupied := t.occupants()
	for _, c := range t.domain.Controllers {
		if c.Index == 0 || c.Model == domain.ExpanderBus || t.expander(c.Index) != nil {
			continue
		}
		m.bridges++
		if c.Address == nil {
			m.unplugged++
		}
		if c.Model != domain.RootPort {
			continue
		}
		m.rootPorts++
		if occupied[c.Index] == 0 && len(t.below[c.Index]) == 0 {
			m.free++
		}
	}
	m.hungry = hungry(t.domain)
	wanted := b.hotplugPorts(t.domain)
	m.coming = max(0, m.hungry-m.free) + max(0, wanted-max(0, m.free-m.hungry))
	if lacksBridge(t.domain) {
		m.coming += 2 // a bridge to conventional PCI, and the root port above it
	}
	return m
}

// lacksBridge reports whether libvirt will add a bridge to conventional PCI.
func lacksBridge(d *domain.Domain) bool {
	return slices.ContainsFunc(d.Others, func(o domain.Device) bool { return o.NeedsBridge && o.Address == nil })
}

// hungry counts the devices without an address that libvirt plugs into a root
// port of the main bus; a bridge that it adds comes with its own.
func hungry(d *domain.Domain) int {
	count := 0
	for _, o := range d.Others {
		if o.NeedsPort && !o.NeedsBridge && o.Address == nil {
			count++
		}
	}
	for _, h := range d.Hostdevs {
		if h.Address == nil && !h.Unassigned {
			count++
		}
	}
	return count
}
