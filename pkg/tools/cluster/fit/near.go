package fit

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// near returns the answer with how near the devices of the next VM are.
func (n *node) near(out Node, first map[deviceID]string) (Node, error) {
	var ids []topology.DeviceID
	var chosen []OfferedDevice
	for _, d := range n.devices {
		if _, isGiven := first[d.id]; !isGiven {
			continue
		}

		chosen = append(chosen, d)
		if d.Address != "" && !slices.Contains(ids, d.pci) {
			ids = append(ids, d.pci)
		}
	}

	host := n.host
	if n.Hosts[n.Name] == nil {
		host = hostOf(chosen) // among these a device of several places is settled
	}

	return out.near(host, ids)
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
