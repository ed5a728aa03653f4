package placement

import (
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// TreeLayout is the layout whose tree the guest has, "" where no device is under an
// expander bus. Only mirror builds switches, only numa has devices of several PCIe
// roots under one expander bus, and it has neither several in a cell nor one without.
func (p *Plan) TreeLayout() policy.Layout {
	layout := policy.Layout("")
	rootOf, expanderOf := map[*topology.Node]topology.PCIeRoot{}, map[int]*topology.Node{}
	for _, d := range p.Devices {
		n := p.GuestTree.Node(d.ID)
		expander := n.Top()
		switch root, isKnown := rootOf[expander]; {
		case expander.ID == topology.Index(0) || d.Address == nil:
			continue
		case n.IsUnderSwitch():
			return policy.LayoutMirror
		case isKnown && d.PCIeRoot != "" && root != d.PCIeRoot:
			return policy.LayoutNUMA
		case layout == "":
			layout = policy.LayoutNUMA
		}
		cell := expander.NUMA
		if cell == nil || expanderOf[*cell] != nil && expanderOf[*cell] != expander {
			layout = policy.LayoutRoot
		}
		if cell != nil {
			expanderOf[*cell] = expander
		}
		if d.PCIeRoot != "" {
			rootOf[expander] = d.PCIeRoot
		}
	}
	return layout
}
