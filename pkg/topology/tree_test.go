package topology_test

import (
	"testing"

	"hook-sidecar/pkg/topology"
)

func TestHostTree(t *testing.T) {
	gpu, nic, direct := address(t, "0000:18:00.0"), address(t, "0000:19:00.0"), address(t,
		"0000:17:1f.0")
	port, up, dn1, dn2 := address(t, "0000:15:01.0"), address(t, "0000:16:00.0"), address(t,
		"0000:17:00.0"), address(t, "0000:17:01.0")
	const uuid = topology.UUID("4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01")
	host := &topology.Host{
		Functions: []topology.Function{
			{Address: direct, Root: "pci0000:15", Bridges: []topology.Address{port, up}},
			{Address: gpu, Root: "pci0000:15", Bridges: []topology.Address{
				port, up, dn1,
			}, Node: topology.OnNode(1)},
			{Address: nic, Root: "pci0000:15", Bridges: []topology.Address{port, up, dn2}},
		},
		MDEVs: []topology.MDEV{{UUID: uuid, Parent: &gpu}},
	}

	missing := topology.PCIDevice(address(t, "0000:aa:00.0"))
	vgpu := topology.MediatedDevice(uuid)
	tree := host.Tree([]topology.DeviceID{
		topology.PCIDevice(direct), topology.PCIDevice(gpu), topology.PCIDevice(nic), vgpu, missing,
	})

	if got := tree.PathType(topology.PCIDevice(gpu), topology.PCIDevice(nic)); got != topology.PIX {
		t.Errorf("GPU and NIC under one switch: %s", got)
	}

	if got := tree.PathType(topology.PCIDevice(gpu), vgpu); got != topology.PIX {
		t.Errorf("a GPU and a part of it: %s", got)
	}

	if node := tree.Node(missing); node == nil || node.Parent != nil ||
		tree.PathType(missing, vgpu) != topology.SYS {
		t.Errorf("a device that the host does not show: %+v", node)
	}

	for id, want := range map[topology.ID]topology.NodeKind{
		topology.PCIeRoot("pci0000:15"): topology.Root, port: topology.RootPort,
		up:  topology.UpstreamPort,
		dn1: topology.DownstreamPort, gpu: topology.MDEVParent, vgpu: topology.Endpoint,
	} {
		if got := tree.Node(id); got == nil || got.Kind != want {
			t.Errorf("%s: %+v, want kind %d", id, got, want)
		}
	}

	if numa := tree.Node(vgpu).NUMANode(); numa == nil || *numa != 1 {
		t.Errorf("the node of a part of the GPU: %v, want 1", numa)
	}

	if switches := tree.Node(vgpu).Switches(); len(switches) != 1 ||
		switches[0].ID != topology.ID(up) {
		t.Errorf("switches above: %v", switches)
	}

	part := tree.Only([]topology.DeviceID{topology.PCIDevice(nic)})
	if part.Node(dn1) != nil ||
		part.Node(topology.PCIDevice(nic)).Path()[0].ID != topology.ID(
			topology.PCIeRoot("pci0000:15")) {
		t.Error("the part that leads to the NIC has another device's port, or not its root")
	}
}
