package topology

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/words"
)

// IDs is a set of CPU or node numbers. It has ranges, because a few bytes of text name tens of
// thousands of numbers. The zero IDs is empty.
type IDs struct{ ranges []idRange } // in order, with a gap between any two

// idRange is the numbers from low to high, both included.
type idRange struct{ low, high int32 }

// maxListedID is the highest number in IDs. Linux supports at most 8192 CPUs (arch/x86/Kconfig,
// NR_CPUS_RANGE_END) and 1024 nodes.
const maxListedID = 1 << 16

// ParseIDs reads a list of the kernel's or libvirt's form: "0-3,8", and with exclusions "0-7,^3".
// An empty list is valid.
func ParseIDs(s string) (IDs, error) {
	if strings.TrimSpace(s) == "" {
		return IDs{}, nil
	}

	var with, without []idRange
	for part := range strings.SplitSeq(s, ",") {
		digits, excluded := strings.CutPrefix(strings.TrimSpace(part), "^")
		r, err := parseIDRange(digits)
		switch {
		case err != nil:
			return IDs{}, fmt.Errorf("invalid list of numbers %q: %w", words.Abridge(s), err)
		case excluded:
			without = addRange(without, r)
		default:
			with = addRange(with, r)
		}
	}

	if len(without) == 0 {
		return IDs{merge(with)}, nil
	}

	return IDs{slices.Clone(subtract(merge(with), merge(without)))}, nil
}

func parseIDRange(s string) (idRange, error) {
	low, high, isRange := strings.Cut(s, "-")
	if !isRange {
		high = low
	}

	var bounds [2]int32
	for i, bound := range []string{low, high} {
		n, err := strconv.ParseUint(bound, 10, 31)
		if err != nil || n > maxListedID {
			return idRange{}, fmt.Errorf("%q must be a number between 0 and %d",
				words.Abridge(bound), maxListedID)
		}

		bounds[i] = int32(n)
	}

	if bounds[0] > bounds[1] {
		return idRange{}, fmt.Errorf("range %q is reversed", words.Abridge(s))
	}

	return idRange{bounds[0], bounds[1]}, nil
}

// addRange appends a range. A list with many duplicates stays short: merged, it has at most one
// range for every second number.
func addRange(ranges []idRange, r idRange) []idRange {
	if len(ranges) >= maxListedID {
		ranges = merge(ranges)
	}
	return append(ranges, r)
}

// merge sorts ranges and joins those that overlap or touch. It overwrites them.
func merge(ranges []idRange) []idRange {
	slices.SortFunc(ranges, func(a, b idRange) int { return cmp.Compare(a.low, b.low) })
	merged := ranges[:0]
	for _, r := range ranges {
		if last := len(merged) - 1; last >= 0 && r.low <= merged[last].high+1 {
			merged[last].high = max(merged[last].high, r.high)
		} else {
			merged = append(merged, r)
		}
	}

	return merged
}

// subtract returns the merged ranges of with less those of without.
func subtract(with, without []idRange) []idRange {
	var rest []idRange
	for _, r := range with {
		// Both lists are in order, so what ends before this range ends before all later ones,
		// too.
		for len(without) > 0 && without[0].high < r.low {
			without = without[1:]
		}

		for _, w := range without {
			if w.low > r.high {
				break
			}

			if r.low < w.low {
				rest = append(rest, idRange{r.low, w.low - 1})
			}

			// What is left of the range begins after the hole.
			r.low = w.high + 1
		}

		if r.low <= r.high {
			rest = append(rest, r)
		}
	}

	return rest
}

// IsEmpty reports whether the set has no number.
func (s IDs) IsEmpty() bool { return len(s.ranges) == 0 }

// Contains reports whether n is in the set.
func (s IDs) Contains(n int) bool {
	r, found := s.around(n)
	return found && int(r.low) <= n
}

// around returns the first range that ends at n or after it.
func (s IDs) around(n int) (idRange, bool) {
	at, _ := slices.BinarySearchFunc(s.ranges, n, func(r idRange, n int) int {
		return cmp.Compare(int(r.high), n)
	})
	if at == len(s.ranges) {
		return idRange{}, false
	}
	return s.ranges[at], true
}

// IsSubsetOf reports whether every number of the set is in other.
func (s IDs) IsSubsetOf(other IDs) bool {
	return !slices.ContainsFunc(s.ranges, func(r idRange) bool {
		around, found := other.around(int(r.high))
		return !found || around.low > r.low
	})
}

// Equal reports whether two sets have the same numbers.
func (s IDs) Equal(other IDs) bool { return slices.Equal(s.ranges, other.ranges) }

// Ranges yields the ranges of numbers without a gap, each with both its ends.
func (s IDs) Ranges() iter.Seq2[int, int] {
	return func(yield func(low, high int) bool) {
		for _, r := range s.ranges {
			if !yield(int(r.low), int(r.high)) {
				return
			}
		}
	}
}

// All yields the numbers in order.
func (s IDs) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for low, high := range s.Ranges() {
			for n := low; n <= high; n++ {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// String returns the kernel's form: "0-3,8".
func (s IDs) String() string {
	texts := make([]string, len(s.ranges))
	for i, r := range s.ranges {
		texts[i] = strconv.Itoa(int(r.low))
		if r.high > r.low {
			texts[i] += "-" + strconv.Itoa(int(r.high))
		}
	}

	return strings.Join(texts, ",")
}
