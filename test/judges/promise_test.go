//go:build lane

package judges_test

import (
	"slices"
	"testing"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/matrix"
)

// checkPromise checks the layout auto, with and without cells and port-speed, by what the programs
// answer in the guests of a VM, and by the models of those that are not asked here: no consumer decides
// more wrongly than in the flat guest, and none as no flat guest lets it, if there is a layout that has
// that and shows no two devices under one switch which are not on the host.
func checkPromise(t *testing.T, host *machine, guests []*machine) {
	t.Helper()
	for _, auto := range guests {
		if auto.guest.Flags[policy.KeyLayout] != string(policy.LayoutAuto) {
			continue
		}

		flat := guests[slices.IndexFunc(guests, func(m *machine) bool {
			return m.guest.Core == matrix.Flat && m.guest.HasCells == auto.guest.HasCells
		})]

		layout := slices.IndexFunc(guests, func(m *machine) bool {
			return auto.mayBe(m) && len(m.worse(flat)) == 0 && !m.claims(host)
		})
		if worse := auto.worse(flat); len(worse) > 0 && layout >= 0 {
			t.Errorf("%s: %v decide more wrongly than in %s, and in %s they do not", auto.title, worse,
				flat.title, guests[layout].title)
		}
	}
}

// mayBe reports whether auto could have taken the layout of another guest, which places something.
func (m *machine) mayBe(other *machine) bool {
	layout, speed := policy.Layout(other.guest.Flags[policy.KeyLayout]), policy.KeyPortSpeed
	isSpeed := other.guest.Flags[speed] == m.guest.Flags[speed] || !layout.HasSwitches()
	isPlaced := func(n *topology.Node) bool { return n.Top().ID != topology.PCIeRoot("pci0000:00") }
	return slices.Contains(policy.TreeLayouts(), layout) && isSpeed &&
		other.guest.HasCells == m.guest.HasCells && slices.ContainsFunc(other.places(), isPlaced)
}

func (m *machine) places() (all []*topology.Node) {
	for _, n := range m.nodes {
		all = append(all, n)
	}
	return all
}

// claims reports whether two devices are under one switch in a guest and not on the host.
func (m *machine) claims(host *machine) bool {
	isNear := func(nodes map[string]*topology.Node, x, y string) bool {
		return nodes[x].PathType(nodes[y]) <= topology.PXB
	}
	for x := range m.nodes {
		for y := range m.nodes {
			if x != y && isNear(m.nodes, x, y) && !isNear(host.nodes, x, y) {
				return true
			}
		}
	}
	return false
}

// worse returns the consumers that decide more wrongly in a guest than in another, or as they do in no
// flat guest: NCCL uses GPUDirect RDMA that it lacks on the host, or its ports slow it down.
func (m *machine) worse(other *machine) (names []string) {
	for _, c := range consumers.All {
		if m.wrong(c.Name, consumers.Wrong) > other.wrong(c.Name, consumers.Wrong) ||
			m.wrong(c.Name, consumers.Harmful) > 0 {
			names = append(names, c.Name)
		}
	}
	return names
}

// wrong counts a consumer's verdicts from one on.
func (m *machine) wrong(consumer string, from consumers.Verdict) (count int) {
	for _, v := range m.verdict[consumer] {
		if v >= from {
			count++
		}
	}
	return count
}
