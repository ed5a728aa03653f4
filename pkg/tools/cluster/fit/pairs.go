package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// PathCounts are numbers of pairs of devices by path type.
type PathCounts map[topology.PathType]int

// String lists the pairs, the nearest first.
func (p PathCounts) String() string {
	var parts []string
	for t := topology.PIX; t <= topology.SYS; t++ {
		if p[t] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p[t], t))
		}
	}

	return cmp.Or(strings.Join(parts, ", "), "-")
}

// distance returns the sum of the path types.
func (p PathCounts) distance() int {
	sum := 0
	for t, count := range p {
		sum += int(t) * count
	}
	return sum
}

// near returns the answer with the pairs of devices, on the node and in a guest with the hook, and
// its layout: what the planner makes of a VM with a guest NUMA cell per NUMA node.
func (out Node) near(host *topology.Host, ids []topology.DeviceID) (Node, error) {
	d := &domain.Domain{Arch: "x86_64", Machine: "q35"}
	var nodes []topology.NodeID
	for _, id := range ids {
		d.Hostdevs = append(d.Hostdevs, domain.Hostdev{ID: id})
		if node, isKnown := host.Affinity(id).Node(); isKnown {
			nodes = append(nodes, node)
		}
	}

	slices.Sort(nodes)

	for i, node := range slices.Compact(nodes) {
		cell := topology.CellID(i)
		d.Cells = append(d.Cells, domain.Cell{ID: cell})
		d.Memnodes = append(d.Memnodes, domain.Memnode{Cell: cell, Nodeset: fmt.Sprint(node)})
	}

	wanted, _, err := policy.Resolve(policy.Source{}) // the defaults
	if err != nil || len(ids) == 0 {
		return out, err
	}

	plan, err := placement.New(placement.Input{Domain: d, Host: host, Policy: wanted})
	if err == nil {
		out.Layout, out.Pairs, out.Guest = plan.Layout, pairs(plan.HostTree,
			ids), pairs(plan.GuestTree, ids)
	}

	return out, err
}

func pairs(tree *topology.Tree, ids []topology.DeviceID) PathCounts {
	p := PathCounts{}
	for i, a := range ids {
		for _, b := range ids[:i] {
			p[tree.PathType(a, b)]++
		}
	}

	return p
}
