package bus

import "hook-sidecar/pkg/libvirt"

// NumberCount is how many bus numbers a PCI domain has.
const NumberCount = 256

// Budgets are the bus numbers and controller indexes that a guest takes, and their limits.
type Budgets struct {
	BusNumbers        Budget           // of the root bus, with the bridges that libvirt and KubeVirt will add
	Expanders         []ExpanderBudget // the highest bus number first
	ControllerIndexes Budget
}

// Budget is a limit and how much of it is used.
type Budget struct {
	Used  int `json:"used"`  // how many are used
	Limit int `json:"limit"` // how many there are
}

// ExpanderBudget is the budget of bus numbers of an expander bus.
type ExpanderBudget struct {
	Index int `json:"index"` // of its controller
	BusNr int `json:"busNr"` // its first bus number
	Budget
}

// Budgets are those of the guest with a number of root ports reserved for hotplug.
func (g Guest) Budgets(ports Ports) Budgets {
	highest := g.HighestIndex()
	return g.budgets(g.RootBus(ports, highest), highest)
}

func (g Guest) budgets(root RootBus, highest int) Budgets {
	var expanders []ExpanderBudget
	end := NumberCount
	for _, e := range g.Numbered() {
		used := Budget{Used: g.Node(e.Index).Bridges(), Limit: end - *e.BusNr}
		expanders = append(expanders, ExpanderBudget{Index: e.Index, BusNr: *e.BusNr, Budget: used})
		end = *e.BusNr
	}
	return Budgets{
		BusNumbers:        Budget{Used: root.BusNumbers(), Limit: end - libvirt.AutomaticBusNumbers(g.Domain)},
		Expanders:         expanders,
		ControllerIndexes: Budget{Used: highest + 1 + root.Added, Limit: libvirt.MaxIndex + 1},
	}
}
