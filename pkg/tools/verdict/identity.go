package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
)

// pairing is a device of the guest with the one of the host that it is.
type pairing struct{ guest, host *topology.Function }

// pairs returns the GPUs and NICs of the guest with those of the host that they are. It is false
// where that is not shown of each: by numbers that both sides have, or by the order that the hook
// gives a guest. Order alone shows nothing: a guest without the hook has the order of its VMI.
func (v *Verdict) pairs() (gpus, nics []pairing, isShown bool) {
	hostGPUs, hostNICs := gpusOf(v.host), nicsOf(v.host)
	gpus, knowsGPUs := v.identified(v.gpus, hostGPUs)
	nics, knowsNICs := v.identified(v.nics, hostNICs)
	if knowsGPUs && knowsNICs {
		return gpus, nics, len(gpus) > 0
	}

	// What is left is the order, and that says something only of all devices of the host.
	if len(v.gpus) != len(hostGPUs) || len(v.nics) != len(hostNICs) {
		return nil, nil, false
	}

	gpus, nics = inOrder(v.gpus, hostGPUs), inOrder(v.nics, hostNICs)
	if !v.hasHooksBuses() && !v.isAsHost(slices.Concat(gpus, nics)) {
		return nil, nil, false
	}

	return gpus, nics, len(gpus) > 0
}

func inOrder(guest, host []*topology.Function) (pairs []pairing) {
	for i := range guest {
		pairs = append(pairs, pairing{guest[i], host[i]})
	}
	return pairs
}

// identified pairs devices by what only one of each side has. It is false unless all of the guest
// have a counterpart of their own.
func (v *Verdict) identified(guest, host []*topology.Function) (pairs []pairing, all bool) {
	// A number tells a device only if no other device of its side has the same: eight GPUs share
	// their ids.
	inGuest, onHost := unique(&v.guest, guest), unique(v.host, host)
	taken := map[*topology.Function]bool{}
	for _, d := range guest {
		var of *topology.Function
		for _, number := range identities(&v.guest, d) {
			other := onHost[number]
			if inGuest[number] == nil || other == nil {
				continue
			}
			if of != nil && of != other {
				return nil, false // the texts contradict each other
			}
			of = other
		}

		if of == nil || taken[of] {
			return nil, false
		}

		taken[of] = true
		pairs = append(pairs, pairing{d, of})
	}

	return pairs, true
}

// unique returns devices by those of their identities that no other of them has.
func unique(m *paste.Machine, devices []*topology.Function) map[string]*topology.Function {
	found, count := map[string]*topology.Function{}, map[string]int{}
	for _, d := range devices {
		for _, number := range identities(m, d) {
			found[number] = d
			count[number]++
		}
	}

	maps.DeleteFunc(found, func(number string, _ *topology.Function) bool {
		return count[number] > 1
	})
	return found
}

// identities returns what a device has on the host and in a guest alike: its numbers, and its ids
// and the sizes of its BARs, where the text shows all devices of its kind.
func identities(m *paste.Machine, d *topology.Function) []string {
	all := slices.Clone(m.Identities[d.Address])
	if d.Device == 0 || !m.ShowsAll(d) {
		return all
	}

	all = append(all, "ids "+d.IDs())
	if len(d.BARs) > 0 {
		sizes := topology.Map(d.BARs, func(b topology.BAR) string { return fmt.Sprint(b.Bytes) })
		all = append(all, "BARs "+d.IDs()+" "+strings.Join(sizes, " "))
	}

	return all
}

// isAsHost reports whether all pairs that are known are as far from each other as on the host,
// and some are nearer than others. Then the order may be wrong only among devices whose paths are
// equal, and for these it makes no difference.
func (v *Verdict) isAsHost(pairs []pairing) bool {
	nearest, farthest := topology.SYS, topology.Self
	for i, a := range pairs {
		for _, b := range pairs[i+1:] {
			guest, isKnown := v.guest.PathType(a.guest.Address, b.guest.Address)
			host, isKnownToo := v.host.PathType(a.host.Address, b.host.Address)
			most := min(v.guest.Farthest, v.host.Farthest)
			switch {
			case isKnown != isKnownToo, isKnown && min(guest, most) != min(host, most):
				return false
			case isKnown:
				nearest, farthest = min(nearest, guest), max(farthest, guest)
			}
		}
	}

	return nearest < farthest
}

// hasHooksBuses reports whether all devices are under expander buses that have the bus numbers of
// the hook's: ranges of one size from the top down, in the host's order (pkg/placement/number).
func (v *Verdict) hasHooksBuses() bool {
	var numbers []int
	for _, d := range slices.Concat(v.gpus, v.nics) {
		digits, isRoot := strings.CutPrefix(string(d.Root), "pci0000:")
		n, err := strconv.ParseUint(digits, 16, 8)
		if !isRoot || err != nil || n == 0 {
			return false
		}

		if !slices.Contains(numbers, int(n)) {
			numbers = append(numbers, int(n))
		}
	}

	// If even ranges of 8 do not fit, the hook gives each bus as much as it needs. Such numbers
	// have no pattern and are not recognised.
	slices.Sort(numbers)
	slices.Reverse(numbers)
	return slices.ContainsFunc([]int{32, 16, 8}, func(size int) bool {
		for i, n := range numbers {
			if n != 256-size*(i+1) {
				return false
			}
		}
		return len(numbers) > 0
	})
}
