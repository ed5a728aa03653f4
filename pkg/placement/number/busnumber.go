package number

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// busNumbersOf returns the first bus numbers of expander buses beside the rest of the guest, from
// the top down. The range of each has room for all bridges under it: firmware numbers on into the
// next root bus and then loses devices (QEMU docs/pcie.txt; measured with SeaBIOS and OVMF).
// Ranges are of one size as long as that fits, so that one more device moves no other.
func busNumbersOf(
	expanders []*topology.Node, beside bus.Guest, root bus.RootBus,
) ([]int, []reasons.Finding) {
	needs := make([]int, len(expanders))
	for i, expander := range expanders {
		needs[i] = expander.Bridges()
	}

	taken := beside.ArgumentSpans() // and by the expander buses that stay, the highest first
	for _, e := range beside.Numbered() {
		taken = append(taken, bus.Span{
			First: *e.BusNr, End: *e.BusNr + root.Expander(e.Index),
		})
	}

	slices.SortStableFunc(taken, func(x, y bus.Span) int { return cmp.Compare(y.First, x.First) })

	// Below the floor firmware numbers the root bus and the expander buses without a number. Where
	// ranges of one size do not fit, a smaller size is tried, and last each gets its exact need.
	floor := root.BusNumbers() + libvirt.AutomaticBusNumbers(beside.Domain)
	var firsts []int
	for _, size := range []int{32, 16, 8, 0} {
		var ok bool
		if firsts, ok = fitRanges(needs, size, taken, floor); ok {
			return firsts, nil
		}
	}

	return nil, []reasons.Finding{busNumbersExceeded(needs, firsts, taken, floor)}
}

// busNumbersExceeded names by how much needs do not fit: the numbers are too few
// in all, or those that are left are in pieces. firsts are the ranges that were
// found from the top down.
func busNumbersExceeded(needs, firsts []int, taken []bus.Span, floor int) reasons.Finding {
	need, free := 0, libvirt.BusNumberCount-floor
	for _, count := range needs {
		need += count
	}

	for _, s := range taken {
		free -= s.End - s.First
	}

	if free = max(0, free); need > free {
		return bus.Exceeded("bus numbers: the layout needs %d, %d are free beside the %d of the "+
			"root bus: %d too many",
			need, free, floor, need-free)
	}

	// There are enough, but not in one piece: the next range had to end below the last that fit.
	top := libvirt.BusNumberCount
	if len(firsts) > 0 {
		top = firsts[len(firsts)-1]
	}

	need, free = needs[len(firsts)], largestGap(taken, floor, top)
	return bus.Exceeded("bus numbers: an expander bus needs %d in one piece, the largest free "+
		"range has %d: %d too many", need, free, need-free)
}

// largestGap returns the most numbers in one piece from floor to before top.
func largestGap(taken []bus.Span, floor, top int) int {
	largest, next := 0, floor
	for _, s := range slices.Backward(taken) {
		largest = max(largest, min(s.First, top)-next)
		next = max(next, s.End)
	}

	return max(largest, top-next)
}

// fitRanges gives each need a range of size numbers, or of the exact need when
// size is 0, from the top down, beside the taken ones and not below floor. When
// one does not fit it returns those before.
func fitRanges(needs []int, size int, taken []bus.Span, floor int) (firsts []int, ok bool) {
	top := libvirt.BusNumberCount
	for _, need := range needs {
		length := cmp.Or(size, need)
		if need > length {
			return firsts, false
		}

		// Taken ranges come from the top down, so that one pass moves the range below all that overlap.
		for _, s := range taken {
			if top-length < s.End && s.First < top {
				top = s.First
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
