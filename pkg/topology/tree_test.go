package topology_test

import (
	"testing"

	"hook-sidecar/pkg/topology"
)

// treeOf is a tree of the devices in the words of add, named a, b, c and so on.
func treeOf(t *testing.T, places ...string) *topology.Tree {
	tree := topology.NewTree()
	for i, place := range places {
		add(t, tree, name(rune('a'+i)), place)
	}
	return tree
}

func TestEqual(t *testing.T) {
	const a, b = "- r1 rp/up/dn1 gpu", "- r1 rp/up/dn2 nic"
	want := treeOf(t, a, b)
	for text, tc := range map[string]struct {
		places []string
		equal  bool
	}{
		"other names":              {[]string{"- x y/z/1 gpu", "- x y/z/2 nic"}, true},
		"a device less":            {[]string{a}, false},
		"a device more":            {[]string{a, b, "- r1 rp2 nic"}, false},
		"no switch":                {[]string{"- r1 rp1 gpu", "- r1 rp2 nic"}, false},
		"one port for both":        {[]string{"- r1 rp/up/dn1 gpu", "- r1 rp/up/dn1 nic"}, false},
		"two switches":             {[]string{"- r1 rp1/up1/dn1 gpu", "- r1 rp2/up2/dn2 nic"}, false},
		"one switch under another": {[]string{"- r1 rp/up/dn1 gpu", "- r1 rp/up/dn2/up2/dn3 nic"}, false},
	} {
		got := treeOf(t, tc.places...)
		if equal := topology.Equal(want.Roots, got.Roots); equal != tc.equal {
			t.Errorf("%s: equal is %v", text, equal)
		}
		if equal := topology.Equal(got.Roots, want.Roots); equal != tc.equal {
			t.Errorf("%s, the other way: equal is %v", text, equal)
		}
	}
	// The order of roots, ports and devices does not count.
	backwards := topology.NewTree()
	add(t, backwards, "b", b)
	add(t, backwards, "a", a)
	if !topology.Equal(want.Roots, backwards.Roots) {
		t.Error("another order of devices: not equal")
	}
}

func TestEqualComparesNUMANodes(t *testing.T) {
	root := func(node *int) []*topology.Node {
		tree := topology.NewTree()
		at := tree.Add(nil, topology.Node{Kind: topology.Root, ID: name("root"), NUMA: node})
		tree.Add(at, topology.Node{Kind: topology.Endpoint, ID: name("device")})
		return tree.Roots
	}
	for _, tc := range []struct {
		a, b  *int
		equal bool
	}{
		{nil, nil, true}, {new(0), new(0), true}, {new(0), new(1), false}, {nil, new(0), false},
	} {
		if equal := topology.Equal(root(tc.a), root(tc.b)); equal != tc.equal {
			t.Errorf("nodes %v and %v: equal is %v", tc.a, tc.b, equal)
		}
	}
}

func TestHostTree(t *testing.T) {
	gpu, nic, direct := address(t, "0000:18:00.0"), address(t, "0000:19:00.0"), address(t, "0000:17:1f.0")
	port, up, dn1, dn2 := address(t, "0000:15:01.0"), address(t, "0000:16:00.0"), address(t, "0000:17:00.0"), address(t, "0000:17:01.0")
	const uuid = topology.UUID("4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01")
	host := &topology.Host{
		Devices: []topology.Device{
			{Address: direct, Root: "pci0000:15", Bridges: []topology.Address{port, up}},
			{Address: gpu, Root: "pci0000:15", Bridges: []topology.Address{port, up, dn1}, Node: topology.OnNode(1)},
			{Address: nic, Root: "pci0000:15", Bridges: []topology.Address{port, up, dn2}},
		},
		MDEVs: []topology.MDEV{{UUID: uuid, Parent: &gpu}},
	}
	missing := topology.PCIDevice(address(t, "0000:aa:00.0"))
	vgpu := topology.MediatedDevice(uuid)
	tree := host.Tree([]topology.DeviceID{topology.PCIDevice(direct), topology.PCIDevice(gpu), topology.PCIDevice(nic), vgpu, missing})
	if got := tree.PathType(topology.PCIDevice(gpu), topology.PCIDevice(nic)); got != topology.PIX {
		t.Errorf("GPU and NIC under one switch: %s", got)
	}
	if got := tree.PathType(topology.PCIDevice(gpu), vgpu); got != topology.PIX {
		t.Errorf("a GPU and a part of it: %s", got)
	}
	if node := tree.Node(missing); node == nil || node.Parent != nil || tree.PathType(missing, vgpu) != topology.SYS {
		t.Errorf("a device that the host does not show: %+v", node)
	}
	for id, want := range map[topology.ID]topology.NodeKind{
		topology.PCIeRoot("pci0000:15"): topology.Root, port: topology.RootPort, up: topology.UpstreamPort,
		dn1: topology.DownstreamPort, gpu: topology.MDEVParent, vgpu: topology.Endpoint,
	} {
		if got := tree.Node(id); got == nil || got.Kind != want {
			t.Errorf("%s: %+v, want kind %d", id, got, want)
		}
	}
	if numa := tree.Node(vgpu).NUMANode(); numa == nil || *numa != 1 {
		t.Errorf("the node of a part of the GPU: %v, want 1", numa)
	}
	if switches := tree.Node(vgpu).Switches(); len(switches) != 1 || switches[0].ID != topology.ID(up) {
		t.Errorf("switches above: %v", switches)
	}
	part := tree.Only([]topology.DeviceID{topology.PCIDevice(nic)})
	if part.Node(dn1) != nil || part.Node(topology.PCIDevice(nic)).Path()[0].ID != topology.ID(topology.PCIeRoot("pci0000:15")) {
		t.Error("the part that leads to the NIC has another device's port, or not its root")
	}
}
