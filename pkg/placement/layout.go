package placement

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// layOut is the tree that a layout wants for the placed devices: expander buses
// in the order of cells and PCIe roots, those without a cell last.
func layOut(decisions []Decision, host *topology.Tree, layout policy.Layout) *topology.Tree {
	groups := groupSlots(decisions, layout)
	b := wantedTree{tree: topology.NewTree(len(decisions), 0)}
	for _, group := range groups {
		expander := b.expander(group.cell)
		if layout == policy.LayoutMirror {
			b.mirror(expander, host, group.slots)
			continue
		}
		for _, s := range group.slots {
			b.port(expander, topology.RootPort, s)
		}
	}
	return b.tree
}

// slotGroup is the slots under one expander bus, in the order of ids.
type slotGroup struct {
	cell  *topology.CellID
	root  topology.PCIeRoot // "" with numa
	slots []slot
}

// groupSlots groups the placed devices by the expander bus that they belong to.
func groupSlots(decisions []Decision, layout policy.Layout) []slotGroup {
	var groups []slotGroup
	for _, s := range slotsOf(decisions) {
		root := s[0].PCIeRoot
		if layout == policy.LayoutNUMA {
			root = ""
		}
		at := slices.IndexFunc(groups, func(g slotGroup) bool { return g.root == root && compareCells(g.cell, s[0].Cell) == 0 })
		if at < 0 {
			at = len(groups)
			groups = append(groups, slotGroup{cell: s[0].Cell, root: root})
		}
		groups[at].slots = append(groups[at].slots, s)
	}
	slices.SortStableFunc(groups, func(x, y slotGroup) int {
		return cmp.Or(compareCells(x.cell, y.cell), cmp.Compare(x.root, y.root))
	})
	return groups
}

// slotsOf are the slots of the placed devices. Companions join that of their
// function 0, which comes before them.
func slotsOf(decisions []Decision) []slot {
	var slots []slot
	at := map[topology.DeviceID]int{}
	for _, d := range decisions {
		pci, _ := d.ID.PCI()
		switch {
		case d.Outcome != Placed:
		case d.Reason == reasons.Companion:
			lead := at[topology.PCIDevice(functionZero(pci))]
			slots[lead] = append(slots[lead], d)
		default:
			at[d.ID] = len(slots)
			slots = append(slots, slot{d})
		}
	}
	return slots
}
