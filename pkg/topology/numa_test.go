package topology_test

import (
	"testing"

	"hook-sidecar/pkg/topology"
)

func TestAffinity(t *testing.T) {
	var none topology.Affinity
	if node, known := none.Node(); known || none.String() != "none" {
		t.Errorf("the zero Affinity is node %d, %v, %q", node, known, none)
	}

	zero := topology.OnNode(0)
	if node, known := zero.Node(); !known || node != 0 || zero.String() != "0" || zero == none {
		t.Errorf("OnNode(0) is node %d, %v, %q", node, known, zero)
	}
}

func TestHostAffinity(t *testing.T) {
	parent, gone := address(t, "0000:18:00.0"), address(t, "0000:19:00.0")
	const onGPU, onGone, virtual = topology.UUID("a"), topology.UUID("b"), topology.UUID("c")
	host := func(node topology.Affinity, nodes ...topology.NodeID) *topology.Host {
		h := &topology.Host{
			Functions: []topology.Function{{Address: parent, Node: node}},
			MDEVs: []topology.MDEV{
				{UUID: onGPU, Parent: &parent}, {UUID: onGone, Parent: &gone}, {UUID: virtual},
			},
		}

		for _, n := range nodes {
			h.Nodes = append(h.Nodes, topology.NUMANode{ID: n})
		}

		return h
	}

	pci, none := topology.PCIDevice(parent), topology.Affinity{}
	for _, tc := range []struct {
		name string
		host *topology.Host
		id   topology.DeviceID
		want topology.Affinity
	}{
		{"as the kernel says", host(topology.OnNode(1), 0, 1), pci, topology.OnNode(1)},
		{"no affinity with two nodes", host(none, 0, 1), pci, none},
		{"no affinity with one node", host(none, 0), pci, topology.OnNode(0)},
		{"the only node need not be 0", host(none, 8), pci, topology.OnNode(8)},
		{"no nodes known", host(none), pci, none},
		{"mediated device as its parent", host(topology.OnNode(1), 0, 1),
			topology.MediatedDevice(onGPU), topology.OnNode(1)},
		{"virtual parent", host(none, 0), topology.MediatedDevice(virtual), none},
		{"parent not shown", host(none, 0), topology.MediatedDevice(onGone), none},
		{"device not shown", host(none, 0), topology.PCIDevice(gone), none},
		{"mediated device not shown", host(none, 0), topology.MediatedDevice("d"), none},
	} {
		if got := tc.host.Affinity(tc.id); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestAsShown: a device without a node is on the only node of its host, and to a program on none. A
// tree that programs find the same is not made again.
func TestAsShown(t *testing.T) {
	without, on := address(t, "0000:18:00.0"), address(t, "0000:19:00.0")
	host := &topology.Host{Nodes: []topology.NUMANode{{ID: 0}}, Functions: []topology.Function{
		{Address: without, Root: "pci0000:17"},
		{Address: on, Root: "pci0000:17", Node: topology.OnNode(0)},
	}}

	both := []topology.DeviceID{topology.PCIDevice(without), topology.PCIDevice(on)}
	tree := host.Tree(both)
	shown := host.AsShown(tree, both)
	for i, n := range shown.Devices(both) {
		if isOn := n.NUMANode() != nil; isOn != (i == 1) || tree.Node(n.ID).NUMANode() == nil {
			t.Errorf("%v: programs find a node: %t, placement: %v", n.ID, isOn,
				tree.Node(n.ID).NUMANode())
		}
	}

	if same := host.Tree(both[1:]); host.AsShown(same, both[1:]) != same {
		t.Error("a tree that is the same is made again")
	}
}
