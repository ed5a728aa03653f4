package placement

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// tree is what the PCI controllers of a domain make: who is plugged into whom.
type tree struct {
	domain *domain.Domain
	at     map[int]*domain.Controller  // by index
	below  map[int][]domain.Controller // by the index of the parent, in order of slot and function; no expander buses
}

func newTree(d *domain.Domain) *tree {
	t := &tree{domain: d, at: map[int]*domain.Controller{}, below: map[int][]domain.Controller{}}
	for i, c := range d.Controllers {
		t.at[c.Index] = &d.Controllers[i]
		// An expander bus is a root of its own. One that claims to be plugged in
		// below itself must not make a loop.
		if c.Address != nil && c.Index != 0 && c.Model != domain.ExpanderBus {
			t.below[c.Address.Bus] = append(t.below[c.Address.Bus], c)
		}
	}
	for _, siblings := range t.below {
		slices.SortStableFunc(siblings, func(a, b domain.Controller) int {
			return cmp.Or(
				cmp.Compare(a.Address.Slot, b.Address.Slot),
				cmp.Compare(a.Address.Function, b.Address.Function),
				cmp.Compare(a.Index, b.Index),
			)
		})
	}
	return t
}

// path is the controllers from the root bus to the one with an index, both
// included but for the main bus itself: an expander bus comes first. It is nil
// for the main bus and where a controller of the path is missing.
func (t *tree) path(index int) []int {
	var path []int
	for index != 0 {
		c := t.at[index]
		if c == nil || slices.Contains(path, index) {
			return nil
		}
		path = append(path, index)
		if c.Model == domain.ExpanderBus || c.Address == nil {
			break
		}
		index = c.Address.Bus
	}
	slices.Reverse(path)
	return path
}

// expander is the expander bus above a bus, or nil on the main bus.
func (t *tree) expander(bus int) *domain.Controller {
	path := t.path(bus)
	if len(path) == 0 || t.at[path[0]].Model != domain.ExpanderBus {
		return nil
	}
	return t.at[path[0]]
}

// cellAbove is the cell of the expander bus above an address, nil without one.
func (t *tree) cellAbove(a *domain.GuestAddress) *topology.CellID {
	if a == nil {
		return nil
	}
	if e := t.expander(a.Bus); e != nil {
		return e.Cell
	}
	return nil
}

// expanders are the expander buses, by index.
func (t *tree) expanders() []domain.Controller {
	var all []domain.Controller
	for _, c := range t.domain.Controllers {
		if c.Model == domain.ExpanderBus {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b domain.Controller) int { return cmp.Compare(a.Index, b.Index) })
	return all
}

// numbered are the expander buses with an explicit bus number, the highest first.
func (t *tree) numbered() []domain.Controller {
	all := slices.DeleteFunc(t.expanders(), func(c domain.Controller) bool { return c.BusNr == nil })
	slices.SortFunc(all, func(a, b domain.Controller) int { return cmp.Compare(*b.BusNr, *a.BusNr) })
	return all
}

// subtree is the indexes of the controllers below a bus, at any depth, parents
// before children. Expander buses are roots of their own and left out.
func (t *tree) subtree(bus int) []int {
	var all []int
	seen := map[int]bool{bus: true}
	for queue := []int{bus}; len(queue) > 0; queue = queue[1:] {
		for _, c := range t.below[queue[0]] {
			if !seen[c.Index] {
				seen[c.Index] = true
				all = append(all, c.Index)
				queue = append(queue, c.Index)
			}
		}
	}
	return all
}

// isReferenced reports whether something else in the domain names the expander
// bus with this index, or a controller below it.
func (t *tree) isReferenced(expander int) bool {
	below := t.subtree(expander)
	return slices.ContainsFunc(t.domain.References, func(r domain.Reference) bool {
		return r.Index == expander || slices.Contains(below, r.Index)
	})
}

// occupants are the devices on each bus: hostdevs and all others that have an
// address, by the index of their bus.
func (t *tree) occupants() map[int]int {
	count := map[int]int{}
	for _, h := range t.domain.Hostdevs {
		if h.Address != nil {
			count[h.Address.Bus]++
		}
	}
	for _, o := range t.domain.Others {
		if o.Address != nil {
			count[o.Address.Bus]++
		}
	}
	return count
}
