package report

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/topology"
)

// Change compares path types in the guest with the host's.
type Change string

// The changes.
const (
	Same     Change = "same"
	Nearer   Change = "nearer"  // in the guest than on the host
	Farther  Change = "farther" // in the guest than on the host
	Unknown  Change = "unknown" // the host does not show the device
	Unplaced Change = "unplaced"
)

// colour returns the colour of a change, none where nothing changes or is known.
func (c Change) colour() Colour {
	switch c {
	case Farther:
		return Yellow
	case Nearer:
		return Cyan
	case Unplaced:
		return Red
	}

	return plain
}

func compare(host, guest topology.PathType) Change {
	switch guest.Compare(host) {
	case -1:
		return Nearer
	case 1:
		return Farther
	}

	return Same
}

// PairChange compares the path type between the devices at two positions.
func (r Report) PairChange(i, j int) Change {
	if !r.Devices[i].IsShown() || !r.Devices[j].IsShown() {
		return Unknown
	}
	return compare(r.Paths.Host.Between(i, j), r.Paths.Guest.Between(i, j))
}

// Difference is how many pairs of devices have one path type on the host and another in
// the guest.
type Difference struct {
	Host, Guest topology.PathType
	Pairs       int
}

// Change returns Nearer or Farther.
func (d Difference) Change() Change { return compare(d.Host, d.Guest) }

func (d Difference) String() string {
	how := "nearer"
	if d.Change() == Farther {
		how = "further apart"
	}

	return fmt.Sprintf("%d %s on the host, %s in the guest (%s than on the host)", d.Pairs, d.Host,
		d.Guest, how)
}

// Tally counts pairs of devices by the change of their path type.
type Tally struct {
	All         int
	By          map[Change]int
	Differences []Difference // the worst first
}

// AllDevices makes Tally count the pairs of all devices.
const AllDevices = -1

// Tally counts the pairs of the device at a position, or of AllDevices.
func (r Report) Tally(device int) Tally {
	t := Tally{By: map[Change]int{}}
	for i, j := range r.pairs() {
		if device != AllDevices && device != i && device != j {
			continue
		}

		change := r.PairChange(i, j)
		t.All++
		t.By[change]++
		if change != Nearer && change != Farther {
			continue
		}

		host, guest := r.Paths.Host.Between(i, j), r.Paths.Guest.Between(i, j)
		at := slices.IndexFunc(t.Differences, func(d Difference) bool {
			return d.Host == host && d.Guest == guest
		})

		if at < 0 {
			at, t.Differences = len(t.Differences), append(t.Differences, Difference{
				Host: host, Guest: guest,
			})
		}

		t.Differences[at].Pairs++
	}

	// those that are further apart in the guest first: they lose bandwidth
	slices.SortFunc(t.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(b.Guest.Compare(b.Host), a.Guest.Compare(a.Host)),
			a.Host.Compare(b.Host), a.Guest.Compare(b.Guest))
	})

	return t
}

// pairs yields the positions of each two devices.
func (r Report) pairs() iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for i := range r.Devices {
			for j := range i {
				if !yield(i, j) {
					return
				}
			}
		}
	}
}

// DeviceChange returns the worst change of a device's pairs, or Unplaced.
func (r Report) DeviceChange(device int) Change {
	differences := r.Tally(device).Differences
	switch {
	case r.Devices[device].Outcome == placement.Unplaced:
		return Unplaced
	case !r.Devices[device].IsShown():
		return Unknown
	case len(differences) == 0:
		return Same
	}

	return differences[0].Change()
}

// UsedPathTypes returns the path types between the devices, with their meanings.
func (r Report) UsedPathTypes() []string {
	seen := map[topology.PathType]bool{}
	for i, j := range r.pairs() {
		if r.PairChange(i, j) != Unknown {
			seen[r.Paths.Host.Between(i, j)] = true
		}
		seen[r.Paths.Guest.Between(i, j)] = true
	}

	var used []string
	for t := topology.PIX; t <= topology.SYS; t++ {
		if seen[t] {
			used = append(used, describe(t))
		}
	}

	return used
}

// describe returns a path type with its meaning.
func describe(t topology.PathType) string {
	switch t {
	case topology.PIX:
		return "PIX: at most one PCIe switch between"
	case topology.PXB:
		return "PXB: several switches"
	case topology.PHB:
		return "PHB: a host bridge"
	case topology.NODE:
		return "NODE: host bridges of one NUMA node"
	default:
		return "SYS: across NUMA nodes, or not known"
	}
}
