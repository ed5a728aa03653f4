package number_test

import (
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/placement/number"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// gpu returns the n-th device of the host.
func gpu(n int) topology.DeviceID {
	return topology.PCIDevice(topology.Address{Bus: uint8(n >> 3), Device: uint8(n & 7)})
}

// wantedTree makes a tree, as a layout wants it, of expander buses with these numbers of devices.
// In a tree with switches the devices of an expander bus are under one switch.
func wantedTree(hasSwitches bool, counts ...int) (*topology.Tree, bus.Devices) {
	tree, managed := topology.NewTree(16, 0), bus.Devices{}
	add := func(parent *topology.Node, kind topology.NodeKind) *topology.Node {
		return tree.Add(parent, topology.Node{Kind: kind, Slot: topology.NoSlot})
	}

	for _, count := range counts {
		above, kind := add(nil, topology.Root), topology.RootPort
		if hasSwitches {
			above = add(add(above, topology.RootPort), topology.UpstreamPort)
			kind = topology.DownstreamPort
		}

		for range count {
			id := gpu(len(managed))
			managed[id] = true
			tree.Add(add(above, kind), topology.Node{Kind: topology.Endpoint, ID: id})
		}
	}

	return tree, managed
}

// flat is a domain in which libvirt has yet to place so many devices.
func flat(devices int) *domain.Domain {
	d := &domain.Domain{
		Arch: "x86_64", Machine: "q35",
		Controllers: []domain.Controller{{Index: 0, Model: domain.PCIeRoot}},
	}

	for n := range devices {
		d.Hostdevs = append(d.Hostdevs, domain.Hostdev{ID: gpu(n)})
	}

	return d
}

// replacement returns what a tree in place of a domain's controllers is numbered from.
func replacement(d *domain.Domain, wanted *topology.Tree, managed bus.Devices) number.Replacement {
	return number.Replacement{
		Current: bus.New(libvirt.NewGuest(d), alloc.Libvirt{}), Wanted: wanted, Managed: managed,
		Version: alloc.Libvirt11, HotplugOff: true,
	}
}

// TestAssign: each device has a port of its own. Parents have lower indexes than what is under
// them, ranges of bus numbers are of one size as long as that fits, from the top down, and expander
// buses have slots that libvirt keeps for nothing else.
func TestAssign(t *testing.T) {
	for name, test := range map[string]struct {
		hasSwitches bool
		counts      []int
		want        []int // bus numbers
	}{
		"one": {false, []int{1}, []int{256 - 32}},
		"two": {false, []int{4, 4}, []int{224, 192}},
		"seven ranges of 32": {
			false, slices.Repeat([]int{1}, 7), []int{224, 192, 160, 128, 96, 64, 32},
		},
		"eight ranges of 16": {
			false, slices.Repeat([]int{1}, 8), []int{240, 224, 208, 192, 176, 160, 144, 128},
		},
		"31 devices and a bus":  {false, []int{31}, []int{224}},
		"32 devices and a bus":  {false, []int{32}, []int{256 - 33}},
		"a switch":              {true, []int{8}, []int{224}},
		"29 devices at switch":  {true, []int{29}, []int{224}},
		"30 devices at switch":  {true, []int{30}, []int{256 - 33}},
		"33 ports, two to slot": {false, []int{33}, []int{256 - 34}},
	} {
		t.Run(name, func(t *testing.T) {
			wanted, managed := wantedTree(test.hasSwitches, test.counts...)
			rep := replacement(flat(len(managed)), wanted, managed)
			n, violations := number.Assign(rep)
			if len(violations) > 0 {
				t.Fatal(violations)
			}

			var got []int
			models := map[int]domain.Model{0: domain.PCIeRoot}
			taken := map[domain.GuestAddress]bool{}
			for _, c := range n.Controllers {
				if c.BusNr != nil {
					got = append(got, *c.BusNr)
				}

				above, isThere := models[c.Address.Bus]
				if !isThere || c.Address.Bus >= c.Index {
					t.Errorf("controller %d is under %d, which comes later", c.Index, c.Address.Bus)
				}

				isPort := c.Model == domain.RootPort || c.Model == domain.DownstreamPort
				if isPort && len(managed) <= 32 && c.Address.Function != 0 {
					t.Errorf("controller %d shares slot %d, and a bus has 32", c.Index, c.Address.Slot)
				}

				place := domain.GuestAddress{
					Bus: c.Address.Bus, Slot: c.Address.Slot, Function: c.Address.Function,
				}
				if taken[place] || c.Address.Slot > 31 || c.Address.Function > 7 {
					t.Errorf("controller %d is at %v on a %s", c.Index, place, above)
				}

				models[c.Index], taken[place] = c.Model, true
			}

			expect.Same(t, test.want, got, "bus numbers (-want +got)")
			ports := map[int]bool{}
			for id := range managed {
				a := n.Addresses[id]
				isPort := models[a.Bus] == domain.RootPort || models[a.Bus] == domain.DownstreamPort
				if !isPort || ports[a.Bus] {
					t.Errorf("%s is at %v, in a %s", id, a, models[a.Bus])
				}
				ports[a.Bus] = true
			}
		})
	}
}

// TestAssignExceeds: a violation says how many there are too many of what. libvirt gives q35 a USB 2
// controller, and for that a bridge to conventional PCI and a root port: of 255 indexes 253 are
// free, and of 256 bus numbers, of which the root bus has one, as many.
func TestAssignExceeds(t *testing.T) {
	for name, test := range map[string]struct {
		counts []int
		want   string
	}{
		"bus numbers": {
			[]int{100, 100, 60},
			"bus numbers: the layout needs 263, 253 are free beside the 3 of " +
				"the root bus: 10 too many",
		},
		"indexes": {
			[]int{260}, "controller indexes: the layout needs 261, 253 are free: 8 too many",
		},
		"expander buses": {slices.Repeat([]int{0}, 250), "functions on the root bus: "},
	} {
		wanted, managed := wantedTree(false, test.counts...)
		_, violations := number.Assign(replacement(flat(0), wanted, managed))
		isNamed := slices.ContainsFunc(violations, func(v reasons.Finding) bool {
			return strings.HasPrefix(v.Text, test.want)
		})
		if !isNamed {
			t.Errorf("%s: %v, want one that begins with %q", name, violations, test.want)
		}
	}
}

// replaced is a domain as an earlier call left it: two expander buses with a device each, and a
// root port of index 5 that holds a NIC.
func replaced(first, second int) *domain.Domain {
	at := func(bus, slot int) *domain.GuestAddress {
		return &domain.GuestAddress{Bus: bus, Slot: slot}
	}

	d := flat(2)
	d.Controllers = append(d.Controllers,
		domain.Controller{Index: 1, Model: domain.ExpanderBus, BusNr: &first, Address: at(0, 0x1c)},
		domain.Controller{Index: 2, Model: domain.RootPort, Address: at(1, 0)},
		domain.Controller{
			Index: 3, Model: domain.ExpanderBus, BusNr: &second, Address: at(0, 0x19),
		},
		domain.Controller{Index: 4, Model: domain.RootPort, Address: at(3, 0)},
		domain.Controller{Index: 5, Model: domain.RootPort, Address: at(0, 2)})
	d.Hostdevs[0].Address, d.Hostdevs[1].Address = at(2, 0), at(4, 0)
	d.Others = []domain.Device{
		{
			Element: "interface", Model: "virtio-non-transitional", AddressType: "pci",
			Address: at(5, 0),
		},
	}

	return d
}

// TestAssignReplaces: a layout takes the indexes and the slots of the controllers that it replaces,
// and indexes that it does not need become root ports, so that no other controller's index changes.
func TestAssignReplaces(t *testing.T) {
	for name, test := range map[string]struct {
		counts []int
		want   map[int]domain.Model
	}{
		"by as many": {[]int{1, 1}, map[int]domain.Model{
			1: domain.ExpanderBus, 2: domain.RootPort, 3: domain.ExpanderBus, 4: domain.RootPort,
		}},
		"by one with both": {[]int{2}, map[int]domain.Model{
			1: domain.ExpanderBus, 2: domain.RootPort, 3: domain.RootPort, 4: domain.RootPort,
		}},
		"by none": {nil, map[int]domain.Model{
			1: domain.RootPort, 2: domain.RootPort, 3: domain.RootPort, 4: domain.RootPort,
		}},
	} {
		wanted, managed := wantedTree(false, test.counts...)
		managed[gpu(0)], managed[gpu(1)] = true, true
		n, violations := number.Assign(replacement(replaced(0xe0, 0xc0), wanted, managed))
		if len(violations) > 0 {
			t.Errorf("%s: %v", name, violations)
		}

		got := map[int]domain.Model{}
		for _, c := range n.Controllers {
			got[c.Index] = c.Model
			isHeld := c.Address != nil && c.Address.Bus == 0 && c.Address.Slot == 2
			if isHeld {
				t.Errorf("%s: controller %d takes the slot of the NIC's port", name, c.Index)
			}
		}

		expect.Same(t, test.want, got, "%s: controllers (-want +got)", name)
		expect.Same(t, []int{1, 2, 3, 4}, n.Removed, "%s: removed (-want +got)", name)
	}
}

// TestPortsToClose: root ports that can hotplug are closed if their expander buses have the bus
// numbers that an earlier call gave them. Those of another tool, and all in a VM whose devices
// KubeVirt may detach, stay open.
func TestPortsToClose(t *testing.T) {
	wanted, managed := wantedTree(false, 1, 1)
	for name, test := range map[string]struct {
		first, second int
		hotplugOff    bool
		want          []int // positions of controllers
	}{
		"the hook's bus numbers":      {0xe0, 0xc0, true, []int{2, 4}},
		"KubeVirt's, the exact needs": {0xfe, 0xfc, true, nil},
		"devices that leave":          {0xe0, 0xc0, false, nil},
	} {
		rep := replacement(replaced(test.first, test.second), wanted, managed)
		rep.HotplugOff = test.hotplugOff
		if got := number.PortsToClose(rep); !slices.Equal(test.want, got) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestAssignTakesDeviceSlots: expander buses take each slot of the root bus that devices leave,
// once, and none in which another device stays.
func TestAssignTakesDeviceSlots(t *testing.T) {
	d := flat(3)
	at := func(slot, function int) *domain.GuestAddress {
		return &domain.GuestAddress{Slot: slot, Function: function}
	}
	d.Hostdevs[0].Address, d.Hostdevs[1].Address = at(5, 0), at(5, 1)
	d.Hostdevs[2].Address = at(6, 1)
	d.Others = []domain.Device{{
		Element: "interface", Model: "virtio-non-transitional", AddressType: "pci", Address: at(6, 0),
	}}

	wanted, managed := wantedTree(false, 1, 1, 1)
	rep := replacement(d, wanted, managed)
	for _, plan := range number.Plans {
		rep.Plan = plan
		n, violations := number.Assign(rep)
		if len(violations) > 0 {
			t.Fatalf("%+v: %v", plan, violations)
		}

		taken := map[int]bool{6: true}
		for _, c := range n.Controllers {
			if c.Model != domain.ExpanderBus {
				continue
			}
			if taken[c.Address.Slot] {
				t.Errorf("%+v: two devices are in slot %d", plan, c.Address.Slot)
			}
			taken[c.Address.Slot] = true
		}

		if plan.TakesDeviceSlots != taken[5] {
			t.Errorf("%+v: slot 5 is taken: %v", plan, taken[5])
		}
	}
}
