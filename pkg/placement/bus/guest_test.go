package bus_test

import (
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// at is an address in a guest.
func at(bus, slot, function int) *domain.GuestAddress {
	return &domain.GuestAddress{Bus: bus, Slot: slot, Function: function}
}

// machine is q35 with a root port at 02.0 that holds a device, and an expander bus of cell 1 with
// busNr 0x80, whose port holds a switch with one device and one free port.
func machine() *domain.Domain {
	busNr, cell := 0x80, topology.CellID(1)
	gpu := func(bus uint8, address *domain.GuestAddress) domain.Hostdev {
		return domain.Hostdev{ID: topology.PCIDevice(topology.Address{Bus: bus}), Address: address}
	}

	return &domain.Domain{
		Arch: "x86_64", Machine: "q35",
		Controllers: []domain.Controller{
			{Index: 0, Model: domain.PCIeRoot},
			{Index: 1, Model: domain.RootPort, Address: at(0, 2, 0)},
			{
				Index: 2, Model: domain.ExpanderBus, BusNr: &busNr, Cell: &cell,
				Address: at(0, 0x1c, 0),
			},
			{Index: 3, Model: domain.RootPort, Address: at(2, 0, 0)},
			{Index: 4, Model: domain.UpstreamPort, Address: at(3, 0, 0)},
			{Index: 5, Model: domain.DownstreamPort, Address: at(4, 0, 0)},
			{Index: 6, Model: domain.DownstreamPort, Address: at(4, 1, 0)},
		},
		Hostdevs: []domain.Hostdev{gpu(1, at(1, 0, 0)), gpu(2, at(5, 0, 0))},
	}
}

// guest returns the guest of a domain without other devices.
func guest(d *domain.Domain) bus.Guest {
	return bus.New(libvirt.Guest{Domain: d}, alloc.Libvirt{})
}

// TestPredict: firmware numbers each root bus on its own and each bridge depth first, so the
// device under the switch is at 0x80 plus root port, upstream and downstream port.
func TestPredict(t *testing.T) {
	predict := guest(machine()).Predict()
	for want, a := range map[string]*domain.GuestAddress{
		"0000:01:00.0": at(1, 0, 0), // the first bridge of the root bus
		"0000:81:00.0": at(3, 0, 0), // the upstream port
		"0000:83:00.0": at(5, 0, 0),
		"0000:84:00.0": at(6, 0, 0), // after its sibling
	} {
		if got := predict(*a); got == nil || got.String() != want {
			t.Errorf("%v is seen at %v, want %s", *a, got, want)
		}
	}

	pending := machine()
	pending.Hostdevs[0].Address = nil
	predict = guest(pending).Predict()
	if got := predict(*at(1, 0, 0)); got != nil {
		t.Errorf("under the root bus %v, though libvirt has not placed a device there yet", got)
	}

	if got := predict(*at(5, 0, 0)); got == nil || got.String() != "0000:83:00.0" {
		t.Errorf("under the expander bus %v, which no pending device changes", got)
	}
}

// TestExpander: an address is under an expander bus, which has a cell, or on the root bus, which
// has none.
func TestExpander(t *testing.T) {
	g := guest(machine())
	if cell := bus.CellOf(g.Expander(at(6, 0, 0))); cell == nil || *cell != 1 {
		t.Errorf("cell %v, want 1", cell)
	}

	for _, a := range []*domain.GuestAddress{nil, at(0, 3, 0), at(1, 0, 0), at(99, 0, 0)} {
		if e := g.Expander(a); bus.CellOf(e) != nil {
			t.Errorf("%v is under the expander bus", a)
		}
	}

	expect.Same(t, []int{2, 3, 4, 6}, g.Path(6), "path (-want +got)")
	if free := bus.FreePorts(g.Expander(at(6, 0, 0))); len(free) != 1 || free[0] != g.Node(6) {
		t.Errorf("free ports %v, want that of index 6", free)
	}
}

// TestFreeSlots: 25 slots are open, since libvirt keeps 01 for VGA, 1a, 1b, 1d, 1e and 1f for what
// it adds. The root port has 02, the expander bus 1c.
func TestFreeSlots(t *testing.T) {
	g := guest(machine())
	slots := g.FreeSlots()
	if len(slots) != 25-2 || slots[0] != 0x19 || slots[len(slots)-1] != 0x03 {
		t.Errorf("free slots %x, want 23 from 19 to 03", slots)
	}

	for a, want := range map[domain.GuestAddress]bool{
		*at(0, 2, 0): false, *at(0, 2, 1): true, *at(0, 0x1c, 0): false, *at(0, 3, 0): true,
	} {
		if got := g.IsFree(a); got != want {
			t.Errorf("%v: free %v, want %v", a, got, want)
		}
	}
}

// TestRootBus: a device without an address takes the free port, and ports that are to stay free
// come after it.
func TestRootBus(t *testing.T) {
	d := machine()
	d.Hostdevs = append(d.Hostdevs, domain.Hostdev{
		ID: topology.PCIDevice(topology.Address{Bus: 3}), Address: at(6, 0, 0),
	})
	d.Controllers = append(d.Controllers, domain.Controller{
		Index: 7, Model: domain.RootPort, Address: at(0, 2, 1),
	})

	for name, test := range map[string]struct {
		pending, keepFree, wantAdded int
	}{
		"nothing pending":           {0, 0, 0},
		"one port is free anyway":   {0, 1, 0},
		"the free port is taken":    {1, 0, 0},
		"taken, and one to be free": {1, 1, 1},
		"two pending":               {2, 0, 1},
		"two pending, two free":     {2, 2, 3},
	} {
		with := *d
		with.Hostdevs = append([]domain.Hostdev{}, d.Hostdevs...)
		for i := range test.pending {
			with.Hostdevs = append(with.Hostdevs, domain.Hostdev{
				ID: topology.PCIDevice(topology.Address{Bus: uint8(16 + i)}),
			})
		}

		g := guest(&with)
		r := g.RootBus(bus.Ports{KubeVirt: test.keepFree}, g.HighestIndex())
		if r.RootPorts != 2 || r.Pending != test.pending || r.Added != test.wantAdded {
			t.Errorf("%s: %d root ports, %d pending, %d added; want 2, %d, %d", name, r.RootPorts,
				r.Pending, r.Added, test.pending, test.wantAdded)
		}
	}
}
