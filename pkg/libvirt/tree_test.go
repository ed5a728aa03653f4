package libvirt_test

import (
	"slices"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
)

func controller(index int, model domain.Model, address *domain.GuestAddress) domain.Controller {
	return domain.Controller{Index: index, Model: model, Address: address}
}

// path returns the indexes of the controllers above a device, the root bus or the expander bus
// first.
func path(t *testing.T, tree *topology.Tree, id topology.ID) []int {
	t.Helper()
	n := tree.Node(id)
	if n == nil {
		t.Fatalf("%s is not in the tree", id)
	}

	var indexes []int
	for _, above := range n.Parent.Path() {
		indexes = append(indexes, int(above.ID.(topology.Index)))
	}

	return indexes
}

func TestTree(t *testing.T) {
	cell := topology.CellID(1)
	gpu, nic := topology.PCIDevice(topology.Address{
		Bus: 1,
	}), topology.PCIDevice(topology.Address{Bus: 2})

	d := &domain.Domain{
		Controllers: []domain.Controller{
			// Children come before their parents in the document.
			controller(4, domain.DownstreamPort, &domain.GuestAddress{Bus: 3, Slot: 1}),
			controller(3, domain.UpstreamPort, &domain.GuestAddress{Bus: 2}),
			controller(2, domain.RootPort, &domain.GuestAddress{Bus: 1}),
			// An expander bus is a root, even one with an address on itself.
			{Index: 1, Model: domain.ExpanderBus, Cell: &cell, Address: &domain.GuestAddress{
				Bus: 1, Slot: 3,
			}},
			controller(5, domain.DownstreamPort, &domain.GuestAddress{Bus: 3}),
			// libvirt gives this one a place on the root bus.
			controller(6, domain.RootPort, nil),
			// These two are under each other.
			controller(7, "pci-bridge", &domain.GuestAddress{Bus: 8, Slot: 1}),
			controller(8, "pci-bridge", &domain.GuestAddress{Bus: 7, Slot: 1}),
		},
		Hostdevs: []domain.Hostdev{
			{ID: gpu, Address: &domain.GuestAddress{Bus: 4}},
			{ID: nic},
		},
	}

	missing := domain.Device{
		Element: "interface", Model: "virtio", Address: &domain.GuestAddress{Bus: 99},
	}

	tree := libvirt.Guest{Domain: d, Devices: []libvirt.Endpoint{{Device: missing}}}.Tree()
	for id, want := range map[topology.ID][]int{
		gpu:              {1, 2, 3, 4},
		nic:              {0}, // without an address
		libvirt.Other(0): {0}, // under a controller that does not exist
	} {
		if got := path(t, tree, id); !slices.Equal(got, want) {
			t.Errorf("%s is under %v, want %v", id, got, want)
		}
	}

	if numa := tree.Node(gpu).NUMANode(); numa == nil || *numa != 1 {
		t.Errorf("the GPU's cell: %v, want 1", numa)
	}

	var ports []int
	for _, port := range tree.Node(topology.Index(3)).Children {
		ports = append(ports, int(port.ID.(topology.Index)))
	}

	if want := []int{5, 4}; !slices.Equal(ports, want) { // in the order of slots
		t.Errorf("ports of the switch: %v, want %v", ports, want)
	}

	for _, index := range []topology.Index{6, 7, 8} {
		if top := tree.Node(index).Top(); top != tree.Roots[0] {
			t.Errorf("controller %d is under %v, want the root bus", index, top.ID)
		}
	}
}

func TestHoles(t *testing.T) {
	d := &domain.Domain{
		Controllers: []domain.Controller{
			controller(0, domain.PCIeRoot, nil), controller(2, domain.RootPort, nil),
		},
		Hostdevs: []domain.Hostdev{{Address: &domain.GuestAddress{Bus: 5}}},
	}

	g := libvirt.Guest{Domain: d, Devices: []libvirt.Endpoint{
		{Device: domain.Device{Address: &domain.GuestAddress{Bus: 4}}},
	}}
	if got, want := g.Holes(), []int{1, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("holes %v, want %v", got, want)
	}

	if left := g.WithRootPorts(g.Holes()).Holes(); len(left) > 0 || len(d.Controllers) != 2 {
		t.Errorf("holes %v are left, and the domain has %d controllers, want 2", left,
			len(d.Controllers))
	}
}
