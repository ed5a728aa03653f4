package report

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// look is what became of a path type, or of those of a device. In a picture it
// is the class of the shapes.
type look string

const (
	same     look = "same"
	nearer   look = "nearer"  // in the guest than on the host
	farther  look = "farther" // in the guest than on the host
	unknown  look = "unknown" // the host does not show the device
	unplaced look = "unplaced"
)

func compare(host, guest topology.PathType) look {
	switch guest.Compare(host) {
	case -1:
		return nearer
	case 1:
		return farther
	}
	return same
}

// difference is how many pairs of devices have a path type on the host and
// another one in the guest.
type difference struct {
	host, guest topology.PathType
	pairs       int
}

func (d difference) look() look { return compare(d.host, d.guest) }

func (d difference) String() string {
	return fmt.Sprintf("%d %s on the host, %s in the guest (%s than on the host)", d.pairs, d.host, d.guest, d.look())
}

// sentence is the difference for readers of a picture.
func (d difference) sentence() string {
	are := "are"
	if d.pairs == 1 {
		are = "is"
	}
	return fmt.Sprintf("%s %s %s on the host and %s in the guest: %s", topology.Counted(d.pairs, "pair"), are, d.host, d.guest, d.look())
}

// compareDifferences puts first what is near on the host and farther in the
// guest: there bandwidth is lost.
func compareDifferences(a, b difference) int {
	switch {
	case a.look() == farther && b.look() == nearer:
		return -1
	case a.look() == nearer && b.look() == farther:
		return 1
	}
	return cmp.Or(a.host.Compare(b.host), a.guest.Compare(b.guest))
}

// isKnown reports whether the host shows a device. Where it does not, the path
// types are SYS because nothing else is known, and nothing is compared.
func (r Report) isKnown(device int) bool { return r.Devices[device].function != nil }

// allDevices asks differences for the pairs of all devices.
const allDevices = -1

// differences counts the pairs that differ, of one device or of allDevices.
func (r Report) differences(device int) []difference {
	var all []difference
	for i, j := range r.pairsOf(device) {
		host, guest := r.Paths.Host.Between(i, j), r.Paths.Guest.Between(i, j)
		if host == guest || !r.isKnown(i) || !r.isKnown(j) {
			continue
		}
		at := slices.IndexFunc(all, func(d difference) bool { return d.host == host && d.guest == guest })
		if at < 0 {
			at, all = len(all), append(all, difference{host: host, guest: guest})
		}
		all[at].pairs++
	}
	slices.SortFunc(all, compareDifferences)
	return all
}

// pairsOf yields the pairs of one device, or of allDevices.
func (r Report) pairsOf(device int) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		if device != allDevices {
			for j := range r.Devices {
				if j != device && !yield(device, j) {
					return
				}
			}
			return
		}
		for i := range r.Devices {
			for j := range i {
				if !yield(i, j) {
					return
				}
			}
		}
	}
}

// lookOf is what became of a device: farther where one of its path types is.
func (r Report) lookOf(device int) look {
	all := r.differences(device)
	switch {
	case r.Devices[device].Outcome == placement.Unplaced:
		return unplaced
	case !r.isKnown(device):
		return unknown
	case len(all) == 0:
		return same
	}
	return all[0].look()
}

// pairs are the numbers of pairs of devices: all, those that are not known on the
// host, and those that are as on the host.
func (r Report) pairs() (all, unknown, alike int) {
	if r.plan == nil {
		return 0, 0, 0
	}
	p := r.plan.Pairs()
	return p.All, p.All - p.Known, p.Alike
}

// share is how many pairs have a look.
type share struct {
	look
	pairs int
}

// shares are the pairs of one device, or of allDevices, by look: those as on the host
// first.
func (r Report) shares(device int) []share {
	all := []share{{same, 0}, {nearer, 0}, {farther, 0}, {unknown, 0}}
	for i, j := range r.pairsOf(device) {
		l := unknown
		if r.isKnown(i) && r.isKnown(j) {
			l = compare(r.Paths.Host.Between(i, j), r.Paths.Guest.Between(i, j))
		}
		all[slices.IndexFunc(all, func(s share) bool { return s.look == l })].pairs++
	}
	return all
}

// keepsMore reports whether layout mirror would keep path types that this layout
// does not.
func (r Report) keepsMore() bool {
	return r.Layout != policy.LayoutMirror && slices.ContainsFunc(r.differences(allDevices), func(d difference) bool {
		return d.host.Compare(topology.PHB) <= 0 || d.guest.Compare(topology.PHB) <= 0
	})
}

// aboutPathType is what a path type means.
type aboutPathType struct {
	topology.PathType
	meaning string
}

func (a aboutPathType) String() string { return a.PathType.String() + ": " + a.meaning }

func pathTypes() []aboutPathType {
	return []aboutPathType{
		{topology.PIX, "at most one PCIe switch between"},
		{topology.PXB, "several switches"},
		{topology.PHB, "a host bridge"},
		{topology.NODE, "host bridges of one NUMA node"},
		{topology.SYS, "across NUMA nodes, or not known"},
	}
}
