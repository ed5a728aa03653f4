package tree

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// OutOfOrder returns where a guest does not have devices in a given order, each bridge by the first
// of them under it: expander buses by number, and what is on a bus by slot and function. Other
// devices do not count.
func (t *Tree) OutOfOrder(devices []string) (wrong []string) {
	parts := map[int][]part{} // by bus
	var expanders []part
	first := map[int]int{} // the lowest rank under a controller
	for _, d := range t.Devices {
		rank := slices.Index(devices, d.ID)
		if rank < 0 || d.At == nil {
			continue
		}

		parts[d.At.Bus] = append(parts[d.At.Bus], part{d.ID, rank, *d.At})

		for _, c := range t.Above(d.At) {
			if known, found := first[c.Index]; !found || rank < known {
				first[c.Index] = rank
			}
		}
	}

	for index, rank := range first {
		switch c := t.Controllers[index]; {
		case c.Model == ExpanderBus:
			expanders = append(expanders, part{
				fmt.Sprintf("expander bus %d", index), rank, Address{Bus: c.BusNr},
			})
		case c.At != nil:
			parts[c.At.Bus] = append(parts[c.At.Bus], part{
				fmt.Sprintf("controller %d", index), rank, *c.At,
			})
		}
	}

	for _, bus := range slices.Sorted(maps.Keys(parts)) {
		if t.RootBus(&Address{Bus: bus}) != 0 {
			wrong = append(wrong, outOfOrder(parts[bus], devices)...)
		}
	}

	return append(wrong, outOfOrder(expanders, devices)...)
}

// part is something on a bus, with the rank of the first device under it.
type part struct {
	name string
	rank int
	at   Address
}

func (p part) compare(q part) int {
	return cmp.Or(cmp.Compare(p.at.Bus, q.at.Bus), cmp.Compare(p.at.Slot, q.at.Slot),
		cmp.Compare(p.at.Function, q.at.Function))
}

// outOfOrder sorts parts by address and returns neighbours that are not in the order of their
// ranks.
func outOfOrder(parts []part, devices []string) (wrong []string) {
	slices.SortFunc(parts, part.compare)
	for i := range max(0, len(parts)-1) {
		if a, b := parts[i], parts[i+1]; a.rank >= b.rank {
			wrong = append(wrong,
				fmt.Sprintf("%s with %s comes before %s with %s", a.name, devices[a.rank], b.name,
					devices[b.rank]))
		}
	}

	return wrong
}
