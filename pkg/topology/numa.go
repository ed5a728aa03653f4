package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// NodeID is a NUMA node of the host.
type NodeID int

// CellID is a NUMA cell of the guest. It has its own type so that a host node
// cannot be mistaken for a guest cell.
type CellID int

// Affinity is the host NUMA node of a device, or none. The kernel writes -1 for
// none, which must not become node 0.
type Affinity struct {
	node  NodeID
	known bool
}

// OnNode returns the affinity to node n. The zero Affinity is no affinity.
func OnNode(n NodeID) Affinity { return Affinity{node: n, known: true} }

// Node returns the node, or false when there is no affinity.
func (a Affinity) Node() (NodeID, bool) { return a.node, a.known }

// String returns the node's number, or "none".
func (a Affinity) String() string {
	if !a.known {
		return "none"
	}
	return strconv.Itoa(int(a.node))
}

// NUMANode is one online NUMA node of the host.
type NUMANode struct {
	ID   NodeID
	CPUs cpuset.CPUSet // devices/system/node/node<ID>/cpulist
}

// maxListedID bounds what ParseIDs expands. Linux supports at most 8192 CPUs
// (arch/x86/Kconfig, NR_CPUS_RANGE_END) and 1024 nodes.
const maxListedID = 1 << 16

// ParseIDs reads a list of CPU or node numbers as the kernel and libvirt write
// it: "0-3,8", and with libvirt's exclusions "0-7,^3". An empty list is valid.
func ParseIDs(s string) (cpuset.CPUSet, error) {
	if strings.TrimSpace(s) == "" {
		return cpuset.New(), nil
	}
	var with, without []span
	for part := range strings.SplitSeq(s, ",") {
		digits, excluded := strings.CutPrefix(strings.TrimSpace(part), "^")
		ids, err := parseSpan(digits)
		switch {
		case err != nil:
			return cpuset.New(), fmt.Errorf("invalid list of numbers %q: %w", Abridge(s), err)
		case excluded:
			without = append(without, ids)
		default:
			with = append(with, ids)
		}
	}
	return expand(with).Difference(expand(without)), nil
}

// span is the range of numbers from low to high, both included.
type span struct{ low, high int }

func parseSpan(s string) (span, error) {
	low, high, isRange := strings.Cut(s, "-")
	if !isRange {
		high = low
	}
	var bounds [2]int
	for i, bound := range []string{low, high} {
		n, err := strconv.ParseUint(bound, 10, 32)
		if err != nil || n > maxListedID {
			return span{}, fmt.Errorf("%q must be a number between 0 and %d", Abridge(bound), maxListedID)
		}
		bounds[i] = int(n)
	}
	if bounds[0] > bounds[1] {
		return span{}, fmt.Errorf("range %q is reversed", Abridge(s))
	}
	return span{bounds[0], bounds[1]}, nil
}

// expand collects the numbers of all spans. It visits each number once, however
// often a list repeats it: adding spans to a set one by one would copy the set
// each time.
func expand(spans []span) cpuset.CPUSet {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.low, b.low) })
	var ids []int
	next := 0
	for _, s := range spans {
		for id := max(s.low, next); id <= s.high; id++ {
			ids = append(ids, id)
		}
		next = max(next, s.high+1)
	}
	return cpuset.New(ids...)
}
