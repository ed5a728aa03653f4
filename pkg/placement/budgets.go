package placement

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/topology"
)

// Budgets say how much of what is scarce the domain takes after the plan.
type Budgets struct {
	BusNumbers        Budget           // of the main bus, what libvirt and KubeVirt still add included
	Expanders         []ExpanderBudget // by index
	ControllerIndexes Budget
	BARBytes64        uint64 // sum of the 64-bit BARs of the devices
}

// Budget is what is used of a limit.
type Budget struct{ Used, Limit int }

// ExpanderBudget is the budget of bus numbers of an expander bus.
type ExpanderBudget struct {
	Index int
	BusNr int
	Budget
}

func (b *builder) budgets(t *tree) Budgets {
	var budgets Budgets
	next := busNumberCount
	for _, e := range t.numbered() {
		budgets.Expanders = append(budgets.Expanders, ExpanderBudget{
			Index: e.Index, BusNr: *e.BusNr,
			Budget: Budget{Used: 1 + len(t.subtree(e.Index)), Limit: next - *e.BusNr},
		})
		next = *e.BusNr
	}
	slices.SortFunc(budgets.Expanders, func(x, y ExpanderBudget) int { return cmp.Compare(x.Index, y.Index) })
	main := b.mainBus(t, highestIndex(t.domain))
	budgets.BusNumbers = Budget{Used: main.buses(), Limit: next - t.automaticBuses()}
	budgets.ControllerIndexes = Budget{Used: highestIndex(t.domain) + 1 + main.coming, Limit: maxIndex + 1}
	for _, d := range b.devices {
		if d.ID.Kind() == topology.KindPCI && d.Function != nil {
			for _, bar := range d.Function.BARs {
				if bar.Is64 && !bar.IO {
					budgets.BARBytes64 += bar.Bytes
				}
			}
		}
	}
	return budgets
}
