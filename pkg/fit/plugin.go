package fit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"hook-sidecar/pkg/topology"
)

// Bounds are the nearest and the furthest devices that kubelet may give a VM where device
// plugins have them. It takes any that are free, so all of the node count.
type Bounds struct {
	Best    map[string]int `json:"best"`    // pairs of the nearest devices, by path type
	Worst   map[string]int `json:"worst"`   // of the furthest
	OneNode map[string]int `json:"oneNode"` // of the furthest with topology manager policy single-numa-node; null where it refuses the VM
}

// mostSets limits the search, which tries each set of devices.
const mostSets = 1 << 20

// bounds returns what kubelet may give; nil where the node was not read, or the VM needs no
// device of a plugin.
func (n *node) bounds(s Shape) *Bounds {
	host := n.hosts[n.Name]
	if host == nil {
		return nil
	}
	var ids []topology.DeviceID
	var kinds []choice
	sets := 1.0
	for _, name := range slices.Sorted(maps.Keys(s.Needs)) {
		need := s.Needs[name]
		of := choice{first: len(ids), wanted: int(need.Value())}
		for _, d := range host.Devices {
			if n.permits(name, d) {
				ids = append(ids, topology.PCIDevice(d.Address))
			}
		}
		of.end = len(ids)
		if of.first < of.end {
			kinds = append(kinds, of)
			for i := range of.wanted {
				sets *= float64(of.end-of.first-i) / float64(i+1)
			}
		}
	}
	if len(kinds) == 0 || sets < 0.5 || sets > mostSets {
		return nil
	}
	var best, worst, oneNode extreme
	types := host.Tree(ids).PathTypes(ids)
	choose(kinds, nil, func(set []int) {
		total, pairs, isOneNode := 0, map[string]int{}, true
		for i, a := range set {
			for _, b := range set[:i] {
				total += int(types[a][b])
				pairs[types[a][b].String()]++
				isOneNode = isOneNode && types[a][b] < topology.SYS
			}
		}
		best.update(-total, pairs)
		worst.update(total, pairs)
		if isOneNode {
			oneNode.update(total, pairs)
		}
	})
	return &Bounds{best.pairs, worst.pairs, oneNode.pairs}
}

// permits reports whether KubeVirt gives devices like d out under the resource.
func (n *node) permits(name corev1.ResourceName, d topology.Device) bool {
	for _, p := range n.permitted {
		id := fmt.Sprintf("%04x:%04x", d.Vendor, d.Device)
		if p.ResourceName == string(name) && strings.EqualFold(p.PCIVendorSelector, id) {
			return true
		}
	}
	return false
}

// choice is a number of devices of one resource: their indexes, and how many are wanted.
type choice struct{ first, end, wanted int }

// choose yields each set of the choices.
func choose(from []choice, set []int, yield func([]int)) {
	if len(from) == 0 {
		yield(set)
		return
	}
	c := from[0]
	switch {
	case c.wanted == 0:
		choose(from[1:], set, yield)
	case c.end-c.first >= c.wanted:
		choose(slices.Concat([]choice{{c.first + 1, c.end, c.wanted - 1}}, from[1:]), append(set[:len(set):len(set)], c.first), yield)
		choose(slices.Concat([]choice{{c.first + 1, c.end, c.wanted}}, from[1:]), set, yield)
	}
}

// extreme is the set with the highest total so far.
type extreme struct {
	total int
	pairs map[string]int
}

func (e *extreme) update(total int, pairs map[string]int) {
	if e.pairs == nil || total > e.total {
		e.total, e.pairs = total, pairs
	}
}
