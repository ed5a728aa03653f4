package bus

import "hook-sidecar/pkg/libvirt"

// NumberCount is how many bus numbers a PCI domain has.
const NumberCount = 256

// Budgets are how much of each scarce resource a guest uses.
type Budgets struct {
	BusNumbers struct {
		Budget
		Expanders []ExpanderBudget `json:"expanders"` // per expander bus
	} `json:"busNumbers"` // of the root bus, pending ports included; its limit is the first expander bus's number, less two per expander bus whose number libvirt chooses
	ControllerIndexes Budget `json:"controllerIndexes"` // of 256
	BARs              struct {
		Bytes64 uint64 `json:"bytes64"` // sum of the PCI devices' 64-bit memory BARs
	} `json:"bars"` // that the guest's 64-bit window has to hold
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

// Budgets are those of the guest with a number of root ports reserved for hotplug, without those
// of the BARs. The expander bus with the highest number is first.
func (g Guest) Budgets(ports Ports) Budgets {
	highest := g.HighestIndex()
	return g.budgets(g.RootBus(ports, highest), highest)
}

func (g Guest) budgets(root RootBus, highest int) Budgets {
	b := Budgets{ControllerIndexes: Budget{Used: highest + 1 + root.Added, Limit: libvirt.MaxIndex + 1}}
	end := NumberCount
	for _, e := range g.Numbered() {
		used := Budget{Used: g.Node(e.Index).Bridges(), Limit: end - *e.BusNr}
		b.BusNumbers.Expanders = append(b.BusNumbers.Expanders, ExpanderBudget{Index: e.Index, BusNr: *e.BusNr, Budget: used})
		end = *e.BusNr
	}
	b.BusNumbers.Budget = Budget{Used: root.BusNumbers(), Limit: end - libvirt.AutomaticBusNumbers(g.Domain)}
	return b
}
