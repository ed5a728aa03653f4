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
	b := wantedTree{topology.NewTree(len(decisions), 0)}
	for _, group := range groupSlots(decisions, layout) {
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
	type key struct {
		cell topology.CellID // -1 for none
		root topology.PCIeRoot
	}
	var groups []slotGroup
	positions := map[key]int{}
	for _, s := range slotsOf(decisions) {
		k := key{-1, s[0].PCIeRoot}
		if s[0].Cell != nil {
			k.cell = *s[0].Cell
		}
		if layout == policy.LayoutNUMA {
			k.root = ""
		}
		at, known := positions[k]
		if !known {
			at, positions[k] = len(groups), len(groups)
			groups = append(groups, slotGroup{cell: s[0].Cell, root: k.root})
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
	lead := 0 // the position of the last function 0
	for i := range decisions {
		d := &decisions[i]
		pci, isPCI := d.ID.PCI()
		switch {
		case d.Outcome != Placed:
		case d.Reason == reasons.Companion:
			slots[lead] = append(slots[lead], d)
		default:
			if isPCI && pci.Function == 0 {
				lead = len(slots)
			}
			slots = append(slots, slot{d})
		}
	}
	return slots
}

// slot is the devices that share a slot of the guest: one, or functions of one
// device, function 0 first.
type slot []*Decision

// wantedTree is a tree while it is made. Its controllers have no index yet, so no ID.
type wantedTree struct{ tree *topology.Tree }

func (b wantedTree) controller(parent *topology.Node, kind topology.NodeKind) *topology.Node {
	return b.tree.Add(parent, topology.Node{Kind: kind, Slot: topology.NoSlot})
}

func (b wantedTree) expander(cell *topology.CellID) *topology.Node {
	n := topology.Node{Kind: topology.Root, Slot: topology.NoSlot}
	if cell != nil {
		n.NUMA = new(int(*cell))
	}
	return b.tree.Add(nil, n)
}

// port adds a port with the devices of a slot.
func (b wantedTree) port(parent *topology.Node, kind topology.NodeKind, s slot) {
	port := b.controller(parent, kind)
	for i, d := range s {
		n := topology.Node{Kind: topology.Endpoint, ID: d.ID}
		if i > 0 {
			pci, _ := d.ID.PCI()
			n.Function = int(pci.Function)
		}
		b.tree.Add(port, n)
	}
}
