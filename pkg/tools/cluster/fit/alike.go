package fit

import (
	"encoding/json"
	"fmt"
	"strings"
)

// answered is the answer for a node, of which others are like that node.
type answered struct {
	node  *node
	first map[deviceID]string // the requests of the devices of the next VM
	out   Node
}

// of returns the answer for a node that is like the one that was counted: its devices have the same
// order.
func (a answered) of(n *node) Node {
	first := map[deviceID]string{}
	for i, d := range a.node.devices {
		if request, isGiven := a.first[d.id]; isGiven {
			first[n.devices[i].id] = request
		}
	}

	out := a.out
	out.Name, out.Devices, out.Partitions = n.Name, n.listed(first, out.Now > 0), n.shown(nil)
	return out
}

// likeness returns a text that nodes have in common on which a VM fits as often, with the same
// devices; "" of a node that may be like no other, because its host or its partitions are known.
func (n *node) likeness(s Shape) string {
	if n.Hosts[n.Name] != nil || n.problem != "" || len(n.partitions) > 0 || s.isOnce {
		return ""
	}

	var b strings.Builder
	for _, isEmpty := range []bool{false, true} {
		room, why := n.room(s, isEmpty)
		fmt.Fprintln(&b, room, why)
	}

	fmt.Fprintln(&b, n.Status.DeclaredFeatures)
	for _, p := range n.pools {
		fmt.Fprint(&b, p.driver, len(p.slices), p.missing() != "")
		if p.isShared() {
			fmt.Fprintf(&b, "%p", p)
		}

		for _, slice := range p.slices {
			counters, err := json.Marshal(slice.Spec.SharedCounters)
			if err != nil {
				return ""
			}
			b.Write(counters)
		}
	}

	for _, d := range n.devices {
		// Of slices with the same devices these are kept once, see addSlices.
		fmt.Fprintf(&b, "\n%p %s", d.published, d.State)
		if d.State == tainted || d.State == incomplete {
			b.WriteString(d.By)
		}

		for _, u := range d.uses {
			consumed, err := json.Marshal(u.result.ConsumedCapacity)
			if err != nil {
				return ""
			}
			fmt.Fprint(&b, u.result.ShareID != nil, string(consumed))
		}
	}

	return b.String()
}
