package bus

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/libvirt"
)

// NumberCount is how many bus numbers a PCI domain has.
const NumberCount = 256

// Budgets say how much of what is scarce a guest takes.
type Budgets struct {
	BusNumbers        Budget           // of the root bus, what libvirt and KubeVirt still add included
	Expanders         []ExpanderBudget // by index
	ControllerIndexes Budget
}

// Budget is what is used of a limit.
type Budget struct{ Used, Limit int }

// ExpanderBudget is the budget of bus numbers of an expander bus.
type ExpanderBudget struct {
	Index int
	BusNr int
	Budget
}

// Budgets are those of the guest with a number of root ports reserved for hotplug.
func (g Guest) Budgets(ports Ports) Budgets {
	expanders, end := g.expanderBudgets()
	slices.SortFunc(expanders, func(x, y ExpanderBudget) int { return cmp.Compare(x.Index, y.Index) })
	highest := g.HighestIndex()
	root := g.RootBus(ports, highest)
	return Budgets{
		BusNumbers: Budget{Used: root.BusNumbers(), Limit: end}, Expanders: expanders,
		ControllerIndexes: Budget{Used: highest + 1 + root.Added, Limit: libvirt.MaxIndex + 1},
	}
}

// expanderBudgets are those of the numbered expander buses, the highest number
// first, and the lowest bus number that they leave to the root bus.
func (g Guest) expanderBudgets() (budgets []ExpanderBudget, end int) {
	end = NumberCount
	for _, e := range g.Numbered() {
		budgets = append(budgets, ExpanderBudget{
			Index: e.Index, BusNr: *e.BusNr,
			Budget: Budget{Used: g.Node(e.Index).Bridges(), Limit: end - *e.BusNr},
		})
		end = *e.BusNr
	}
	return budgets, end - libvirt.AutomaticBusNumbers(g.Domain)
}
