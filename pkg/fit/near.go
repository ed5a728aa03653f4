package fit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// Pairs are numbers of pairs of devices by path type.
type Pairs map[topology.PathType]int

func pairs(tree *topology.Tree, ids []topology.DeviceID) Pairs {
	p := Pairs{}
	for i, a := range ids {
		for _, b := range ids[:i] {
			p[tree.PathType(a, b)]++
		}
	}
	return p
}

// String lists the pairs, the nearest first.
func (p Pairs) String() string {
	var parts []string
	for t := topology.PIX; t <= topology.SYS; t++ {
		if p[t] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p[t], t))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// distance is the sum of the path types.
func (p Pairs) distance() int {
	sum := 0
	for t, count := range p {
		sum += int(t) * count
	}
	return sum
}

// guest returns the layout and the pairs that a guest with these devices would show with the
// hook: what the planner makes of a VM with a guest NUMA cell per NUMA node.
func (n *node) guest(ids []topology.DeviceID) (policy.Layout, Pairs, error) {
	d, nodes := &domain.Domain{Arch: "x86_64", Machine: "q35"}, []topology.NodeID{}
	for _, id := range ids {
		d.Hostdevs = append(d.Hostdevs, domain.Hostdev{ID: id})
		if node, isKnown := n.host.Affinity(id).Node(); isKnown {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	for i, node := range slices.Compact(nodes) {
		d.Cells = append(d.Cells, domain.Cell{ID: topology.CellID(i)})
		d.Memnodes = append(d.Memnodes, domain.Memnode{Cell: topology.CellID(i), Nodeset: fmt.Sprint(node)})
	}
	wanted, _, err := policy.Resolve(policy.Source{}) // the defaults
	if err != nil || len(ids) == 0 {
		return "", Pairs{}, err
	}
	plan, err := placement.New(placement.Input{Domain: d, Host: n.host, Policy: wanted})
	if err != nil {
		return "", nil, err
	}
	return plan.Layout, pairs(plan.GuestTree, ids), nil
}

// Bounds are the nearest and the furthest devices that a VM may be given.
type Bounds struct {
	Best    Pairs  `json:"best"`    // pairs of the nearest devices, by path type
	Worst   Pairs  `json:"worst"`   // of the furthest
	OneNode *Pairs `json:"oneNode"` // of the furthest with topology manager policy single-numa-node; null where it refuses the VM
}

// mostDevices limits the search, which tries each set of devices.
const mostDevices = 20

// bounds returns the bounds of sets with so many devices of each driver, or of each resource of
// a device plugin, of those that are free or own; nil without any, with too many, or where there
// are not enough.
func (n *node) bounds(counts map[string]int, own map[topology.DeviceID]string) *Bounds {
	var ids []topology.DeviceID
	drivers := map[topology.DeviceID]string{}
	for _, d := range n.devices {
		isCandidate := counts[d.Driver] > 0 && d.Address != "" && (d.State == free || own[d.pci] != "")
		if isCandidate && drivers[d.pci] == "" { // which may have several devices of a slice
			ids, drivers[d.pci] = append(ids, d.pci), d.Driver
		}
	}
	if len(ids) == 0 || len(ids) > mostDevices {
		return nil
	}
	tree, all := n.host.Tree(ids), []Pairs{}
	for set := range 1 << len(ids) {
		chosen, given := []topology.DeviceID{}, map[string]int{}
		for i, id := range ids {
			if set>>i&1 == 1 {
				chosen = append(chosen, id)
				given[drivers[id]]++
			}
		}
		if maps.Equal(given, counts) {
			all = append(all, pairs(tree, chosen))
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(p, q Pairs) int { return cmp.Compare(p.distance(), q.distance()) })
	b := &Bounds{Best: all[0], Worst: all[len(all)-1]}
	for i, p := range all {
		if p[topology.SYS] == 0 {
			b.OneNode = &all[i]
		}
	}
	return b
}

// Given returns which claim, request and driver gave each device to a pod that runs on a node,
// and which pairs it could have with devices of these drivers that are free or its own; "" where
// none are nearer.
func (f *Fleet) Given(node, namespace, pod string) (given map[topology.DeviceID]string, nearer string) {
	n, given, counts, ids := f.node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}), map[topology.DeviceID]string{}, map[string]int{}, []topology.DeviceID{}
	isPod := func(r resourceapi.ResourceClaimConsumerReference) bool { return r.Resource == "pods" && r.Name == pod }
	for _, c := range f.Claims {
		if c.Namespace != namespace || !slices.ContainsFunc(c.Status.ReservedFor, isPod) {
			continue
		}
		of := requests(c.Status.Allocation)
		for _, d := range n.devices {
			if request, isGiven := of[d.id]; isGiven && d.Address != "" {
				given[d.pci] = fmt.Sprintf("claim %s, request %s, driver %s", cmp.Or(c.Annotations[resourceapi.PodResourceClaimAnnotation], c.Name), request, d.Driver)
				ids = append(ids, d.pci)
				counts[d.Driver]++
			}
		}
	}
	bounds, own := n.bounds(counts, given), pairs(n.host.Tree(ids), ids)
	if bounds != nil && bounds.Best.distance() < own.distance() {
		nearer = fmt.Sprintf("%s in place of %s", bounds.Best, own)
	}
	return given, nearer
}
