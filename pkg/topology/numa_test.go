package topology_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/topology"
)

func TestParseIDs(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", ""},
		{"\n", ""},
		{"0", "0"},
		{"0-3,8", "0-3,8"},
		{"0-17,36-53", "0-17,36-53"},
		{" 0 , 2 ", "0,2"},
		{"3,1,2,0", "0-3"},
		{"0-3,2-5,2", "0-5"},
		{"7-7", "7"},
		// KubeVirt writes the CPUs of a cell as a list without ranges.
		{"0,1,2,3,8,9", "0-3,8-9"},
		// libvirt's exclusions (libvirt docs/formatdomain.rst, "cpuset").
		{"0-7,^3", "0-2,4-7"},
		{"0-7,^2-4,^7", "0-1,5-6"},
		{"^3,0-7", "0-2,4-7"},
		{"0-3,^8", "0-3"},
		{"^3", ""},
		{"65536", "65536"},
	} {
		got, err := topology.ParseIDs(tc.text)
		if err != nil || got.String() != tc.want {
			t.Errorf("ParseIDs(%q) = %q, %v; want %q", tc.text, got, err, tc.want)
		}
	}
}

func TestParseIDsRefuses(t *testing.T) {
	for _, text := range []string{
		"a", "0-", "-1", "-", "0,,1", "0,", ",", "3-1", "0-1-2", "0x1", "1.5", "+1", "^", "^^1", "0 1",
		"65537", "0-65537", "0-4294967295", "99999999999999999999",
	} {
		if got, err := topology.ParseIDs(text); err == nil {
			t.Errorf("ParseIDs(%q) = %q, want an error", text, got)
		}
	}
}

// A list may be as long as its file: the time to read it must not grow with its
// length times the size of its ranges.
func TestParseIDsRepeated(t *testing.T) {
	got, err := topology.ParseIDs(strings.Repeat("0-65536,", 10_000) + "5")
	if err != nil || got.String() != "0-65536" {
		t.Errorf("ParseIDs of repeated ranges = %.40q, %v", got.String(), err)
	}
}

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
			Devices: []topology.Device{{Address: parent, Node: node}},
			MDEVs:   []topology.MDEV{{UUID: onGPU, Parent: &parent}, {UUID: onGone, Parent: &gone}, {UUID: virtual}},
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
		{"mediated device as its parent", host(topology.OnNode(1), 0, 1), topology.MediatedDevice(onGPU), topology.OnNode(1)},
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
