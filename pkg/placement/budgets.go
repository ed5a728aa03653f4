package placement

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
)

// Budgets say how much of what is scarce the domain takes after the plan.
type Budgets struct {
	BusNumbers        Budget           // of the root bus, what libvirt and KubeVirt still add included
	Expanders         []ExpanderBudget // by index
	ControllerIndexes Budget
	BARBytes64        uint64 // sum of the 64-bit BARs of the devices; 0 before Diagnosed
}

// Budget is what is used of a limit.
type Budget struct{ Used, Limit int }

// ExpanderBudget is the budget of bus numbers of an expander bus.
type ExpanderBudget struct {
	Index int
	BusNr int
	Budget
}

// expanderBudgets are those of the numbered expander buses, the highest number
// first, and the lowest bus number that they leave to the root bus.
func expanderBudgets(g guest) (budgets []ExpanderBudget, end int) {
	end = busNumberCount
	for _, e := range g.numbered() {
		budgets = append(budgets, ExpanderBudget{
			Index: e.Index, BusNr: *e.BusNr,
			Budget: Budget{Used: g.node(e.Index).Bridges(), Limit: end - *e.BusNr},
		})
		end = *e.BusNr
	}
	return budgets, end - libvirt.AutomaticBusNumbers(g.Domain)
}

func budgetsOf(g guest, placed placing) Budgets {
	expanders, end := expanderBudgets(g)
	slices.SortFunc(expanders, func(x, y ExpanderBudget) int { return cmp.Compare(x.Index, y.Index) })
	budgets := Budgets{Expanders: expanders}
	highest := libvirt.HighestIndex(g.Domain, g.others)
	root := rootBusOf(g, placed.ports, highest)
	budgets.BusNumbers = Budget{Used: root.busNumbers(), Limit: end}
	budgets.ControllerIndexes = Budget{Used: highest + 1 + root.added, Limit: libvirt.MaxIndex + 1}
	return budgets
}

// barBytes64 is the sum of the 64-bit BARs of devices.
func barBytes64(devices []Decision) (sum uint64) {
	for _, d := range devices {
		if d.ID.Kind() == topology.KindPCI && d.Function != nil {
			for _, bar := range d.Function.LargeBARs() {
				sum += bar.Bytes
			}
		}
	}
	return sum
}
