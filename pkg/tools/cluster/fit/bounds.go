package fit

import (
	"maps"
	"slices"

	"hook-sidecar/pkg/topology"
)

// Bounds are the nearest and the farthest devices that a VM may be given.
type Bounds struct {
	Best  PathCounts `json:"best"`  // pairs of the nearest devices, by path type
	Worst PathCounts `json:"worst"` // of the farthest
	// of the farthest with topology manager policy single-numa-node; null where it refuses the VM
	OneNode *PathCounts `json:"oneNode"`
}

// bounds returns the nearest and the farthest selection of counts[driver] free devices, where a
// driver is also the resource of a device plugin. It is nil if there are not so many, if path types
// do not nest, or if a selection has more than maxMixes mixes of drivers.
//
// Path types nest: devices under one switch are equally far from every other device. So the
// nearest selections within a group are made of the nearest within its parts, and of a part only
// the mix matters: how many devices of each driver it gives.
func (n *node) bounds(counts map[string]int) *Bounds {
	var ids []topology.DeviceID
	m := newMixes(counts)
	for _, d := range n.devices {
		kind := slices.Index(m.drivers, d.Driver)

		// a device may be in a slice several times
		isNew := d.Address != "" && !slices.Contains(ids, d.pci)
		if kind >= 0 && d.State == free && isNew {
			ids, m.driverOf = append(ids, d.pci), append(m.driverOf, kind)
		}
	}

	if len(ids) == 0 || m.all == nil || !nest(n.host, ids) {
		return nil
	}

	m.types = typesBetween(n.host.Tree(ids), ids)
	devices := make([]int, len(ids))
	for i := range devices {
		devices[i] = i
	}

	complete := len(m.all) - 1
	best := m.choose(devices, topology.SYS, tally.isNearer)[complete]
	worst := m.choose(devices, topology.SYS, tally.isFarther)[complete]
	if best == nil {
		return nil
	}

	b := &Bounds{Best: best.pairs(), Worst: worst.pairs()}
	var oneNode *tally
	for _, onNode := range m.split(devices, topology.SYS) {
		farthest := m.choose(onNode, topology.NODE, tally.isFarther)[complete]
		if farthest != nil && (oneNode == nil || farthest.isFarther(*oneNode)) {
			oneNode = farthest
		}
	}

	if oneNode != nil {
		b.OneNode = new(oneNode.pairs())
	}

	return b
}

// nest reports whether path types nest: the devices of each PCIe root are of one NUMA node. Some
// firmware has it otherwise.
func nest(host *topology.Host, ids []topology.DeviceID) bool {
	nodes := map[topology.PCIeRoot]topology.Affinity{}
	for _, id := range ids {
		f := host.Function(id)
		if f == nil || f.Root == "" {
			continue
		}

		node, isKnown := nodes[f.Root]
		if isKnown && node != host.Affinity(id) {
			return false
		}

		nodes[f.Root] = host.Affinity(id)
	}

	return true
}

// typesBetween returns the path type between each two devices.
func typesBetween(tree *topology.Tree, ids []topology.DeviceID) [][]topology.PathType {
	nodes := tree.Devices(ids)
	types := make([][]topology.PathType, len(ids))
	for i := range types {
		types[i] = make([]topology.PathType, len(ids))
		for j := range ids {
			types[i][j] = nodes[i].PathType(nodes[j])
		}
	}

	return types
}

// tally counts pairs of devices by their path type.
type tally [topology.SYS + 1]int

func (t tally) pairs() PathCounts {
	p := PathCounts{}
	for between, count := range t {
		if count > 0 {
			p[topology.PathType(between)] = count
		}
	}

	return p
}

func (t tally) isNearer(u tally) bool  { return t.compare(u) < 0 }
func (t tally) isFarther(u tally) bool { return t.compare(u) > 0 }

// compare orders tallies by the sum of their path types; of two alike the one with fewer pairs of
// the farthest type is nearer.
func (t tally) compare(u tally) int {
	sum := 0
	for between := range t {
		sum += between * (t[between] - u[between])
	}

	for between := len(t) - 1; sum == 0 && between > 0; between-- {
		sum = t[between] - u[between]
	}

	return sum
}

// mixes are the mixes of devices that a selection may have, from no device to all that are wanted.
type mixes struct {
	drivers  []string
	all      [][]int // the number of devices per driver, by the number of the mix
	steps    []int   // by which the number of a mix rises with a device of a driver
	driverOf []int   // driver per device
	types    [][]topology.PathType
}

// maxMixes is far above 16 GPUs and 16 NICs, and bounds the time of joining two groups to its
// square.
const maxMixes = 1024

func newMixes(counts map[string]int) *mixes {
	m := &mixes{}
	for _, driver := range slices.Sorted(maps.Keys(counts)) {
		if counts[driver] > 0 {
			m.drivers = append(m.drivers, driver)
		}
	}

	size := 1
	for _, driver := range m.drivers {
		m.steps = append(m.steps, size)
		if size *= counts[driver] + 1; size > maxMixes {
			return m
		}
	}

	for number := range size {
		mix := make([]int, len(m.drivers))
		for k, driver := range m.drivers {
			mix[k] = number / m.steps[k] % (counts[driver] + 1)
		}
		m.all = append(m.all, mix)
	}

	return m
}

// choose returns, per mix, the pairs of the best selection of devices, of which no two are farther
// than t; nil for a mix that they cannot give.
func (m *mixes) choose(
	devices []int, t topology.PathType, isBetter func(tally, tally) bool,
) []*tally {
	found := make([]*tally, len(m.all))
	found[0] = &tally{}
	if len(devices) == 1 {
		if step := m.steps[m.driverOf[devices[0]]]; step < len(found) {
			found[step] = &tally{}
		}
		return found
	}

	for _, group := range m.split(devices, t) {
		found = m.join(found, m.choose(group, t-1, isBetter), t, isBetter)
	}

	return found
}

// split divides devices into groups: two are of one group if their path type is nearer than t.
func (m *mixes) split(devices []int, t topology.PathType) (groups [][]int) {
	for _, d := range devices {
		i := slices.IndexFunc(groups, func(group []int) bool { return m.types[group[0]][d] < t })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], d)
	}

	return groups
}

// join returns the best selections of two groups whose devices are as far from each other as t.
func (m *mixes) join(
	as, bs []*tally, t topology.PathType, isBetter func(tally, tally) bool,
) []*tally {
	found := make([]*tally, len(m.all))
	for a, pairsA := range as {
		for b, pairsB := range bs {
			sum, isWanted := m.sum(a, b)
			if pairsA == nil || pairsB == nil || !isWanted {
				continue
			}

			both := *pairsA
			for between, count := range pairsB {
				both[between] += count
			}

			both[t] += m.size(a) * m.size(b)
			if found[sum] == nil || isBetter(both, *found[sum]) {
				found[sum] = &both
			}
		}
	}

	return found
}

// size returns the number of devices of a mix.
func (m *mixes) size(number int) int {
	size := 0
	for _, count := range m.all[number] {
		size += count
	}
	return size
}

// sum returns the number of the mix of two together; false if that is more than is wanted.
func (m *mixes) sum(a, b int) (int, bool) {
	wanted := m.all[len(m.all)-1]
	for k := range wanted {
		if m.all[a][k]+m.all[b][k] > wanted[k] {
			return 0, false
		}
	}

	return a + b, true
}
