package placement

import (
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// Choice is the layout of a plan.
type Choice struct {
	Layout policy.Layout // never LayoutAuto
	// the end of a sentence that begins with "since"; "" where the policy names the layout
	Why string
}

// proposal has the decisions of a layout, and the tree that it wants.
type proposal struct {
	Choice
	decisions []Decision
	managed   bus.Devices // that are placed
	wanted    *topology.Tree
	// of the devices in wanted; nil for those that the layout does not place
	places []*topology.Node
}

func propose(s start, layout policy.Layout, why string) proposal {
	return proposalOf(s, decide(s, layout), layout, why)
}

func proposalOf(s start, decisions []Decision, layout policy.Layout, why string) proposal {
	wanted := layOut(decisions, s.hostTree, layout)
	return proposal{
		Choice{layout, why}, decisions, managedOf(decisions), wanted, wanted.Devices(s.ids),
	}
}

// isAsNear reports whether p has every device in the cell that q has it in, and
// every pair that the host shows at least as near to its path type there.
func (p proposal) isAsNear(q proposal, s start) bool {
	for i := range p.decisions {
		if compareCells(p.decisions[i].Cell, q.decisions[i].Cell) != 0 {
			return false
		}
	}

	for i, x := range s.hostPlaces {
		for j, y := range s.hostPlaces[:i] {
			want := x.PathType(y)
			if s.devices[i].Function != nil && s.devices[j].Function != nil &&
				p.pathType(i, j).Steps(want) > q.pathType(i, j).Steps(want) {
				return false
			}
		}
	}

	return true
}

// pathType returns the path type that two devices get. Those that the layout does not place are on
// the root bus.
func (p proposal) pathType(i, j int) topology.PathType {
	if p.places[i] == nil && p.places[j] == nil {
		return topology.PHB
	}
	return p.places[i].PathType(p.places[j])
}
