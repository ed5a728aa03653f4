package report

import (
	"cmp"
	"fmt"
	"slices"

	"hook-sidecar/pkg/topology"
)

// trend says how a path type of the guest compares with the host's.
type trend int

const (
	same    trend = iota
	nearer        // the guest believes the devices nearer than they are
	farther       // the guest believes the devices farther than they are
)

// distance orders the path types.
func distance(c topology.PathType) int {
	return slices.Index([]topology.PathType{topology.Self, topology.PIX, topology.PXB, topology.PHB, topology.NODE, topology.SYS}, c)
}

func compareClasses(host, guest topology.PathType) trend {
	switch cmp.Compare(distance(guest), distance(host)) {
	case -1:
		return nearer
	case 1:
		return farther
	}
	return same
}

// difference is a path type that is another one in the guest.
type difference struct{ host, guest topology.PathType }

func (d difference) trend() trend { return compareClasses(d.host, d.guest) }

// weight orders differences: what was near on the host and is far now comes
// first, for that is where bandwidth is lost.
func (d difference) weight() int {
	weight := distance(d.host)
	if d.trend() == nearer {
		weight += distance(topology.SYS) + 1 // behind every one that became farther
	}
	return weight
}

// count is how many pairs of devices have a difference.
type count struct {
	difference
	pairs int
}

// isKnown reports whether the host shows where a device stands. Where it does
// not, its classes count as SYS for want of a better, and nothing is compared.
func (r Report) isKnown(device int) bool { return r.Devices[device].function != nil }

// differences counts the pairs whose class differs, of one device or, with -1,
// of all; the weightiest first.
func (r Report) differences(device int) []count {
	var all []count
	for i, row := range r.Paths.Host {
		for j := range i {
			d := difference{row[j], r.Paths.Guest[i][j]}
			if d.host == d.guest || !r.isKnown(i) || !r.isKnown(j) || device >= 0 && device != i && device != j {
				continue
			}
			at := slices.IndexFunc(all, func(c count) bool { return c.difference == d })
			if at < 0 {
				at, all = len(all), append(all, count{difference: d})
			}
			all[at].pairs++
		}
	}
	slices.SortFunc(all, func(a, b count) int {
		return cmp.Or(cmp.Compare(a.weight(), b.weight()), cmp.Compare(distance(a.guest), distance(b.guest)))
	})
	return all
}

// trendOf is the trend of a device: farther when a class of its became so.
func (r Report) trendOf(device int) trend {
	worst := same
	for _, c := range r.differences(device) {
		worst = max(worst, c.trend())
	}
	return worst
}

func (c count) String() string {
	word := "farther than on the host"
	if c.trend() == nearer {
		word = "nearer than on the host"
	}
	return fmt.Sprintf("%d %s on the host, %s in the guest (%s)", c.pairs, c.host, c.guest, word)
}

// pairs is the number of pairs of devices.
func (r Report) pairs() int { return pairsOf(len(r.Devices)) }

func pairsOf(n int) int { return n * (n - 1) / 2 }

// unknownPairs is the number of pairs whose class on the host is not known.
func (r Report) unknownPairs() int {
	known := 0
	for i := range r.Devices {
		if r.isKnown(i) {
			known++
		}
	}
	return r.pairs() - pairsOf(known)
}

// alikePairs is the number of pairs whose class the guest keeps.
func (r Report) alikePairs() int {
	alike := r.pairs() - r.unknownPairs()
	for _, c := range r.differences(-1) {
		alike -= c.pairs
	}
	return alike
}

// keeper is the layout that would keep what this one does not, "" when there is
// none or nothing to keep.
func (r Report) keeper() string {
	if r.Layout == "mirror" {
		return ""
	}
	near := []topology.PathType{topology.PIX, topology.PXB, topology.PHB}
	for _, c := range r.differences(-1) {
		if slices.Contains(near, c.host) || slices.Contains(near, c.guest) {
			return "mirror"
		}
	}
	return ""
}
