package topology_test

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/topology"
)

// name is an ID of a tree in these tests.
type name string

func (n name) String() string { return string(n) }

// add adds the device of "node root bridge/bridge/… slot", with "-" for no node,
// no root or no bridges, and returns its ID. Every second bridge under a root
// port is an upstream port.
func add(t *testing.T, tree *topology.Tree, id name, text string) name {
	t.Helper()
	f := strings.Fields(text)
	if len(f) != 4 {
		t.Fatalf("place %q", text)
	}

	device := topology.Node{
		Kind: topology.Endpoint, ID: id, Slot: int(crc32.ChecksumIEEE([]byte(f[3]))),
	}

	if f[0] != "-" {
		device.NUMA = new(int(f[0][0] - '0'))
	}

	var at *topology.Node
	if f[1] != "-" {
		at = tree.Add(nil, topology.Node{Kind: topology.Root, ID: name(f[1])})
	}

	kind := topology.RootPort
	for _, bridge := range strings.FieldsFunc(f[2], func(r rune) bool {
		return r == '/' || r == '-'
	}) {
		at = tree.Add(at, topology.Node{Kind: kind, ID: name(bridge)})
		kind = topology.UpstreamPort
		if at.Kind.IsSwitch() {
			kind = topology.DownstreamPort
		}
	}

	tree.Add(at, device)
	return id
}

// The legend of `nvidia-smi topo -m`: PIX at most a single PCIe bridge (a
// switch counts as one), PXB several without the host bridge, PHB a PCIe host
// bridge, NODE the interconnect between host bridges of a node, SYS between
// nodes.
func TestPathType(t *testing.T) {
	for _, tc := range []struct {
		name, a, b string
		want       topology.PathType
	}{
		{"functions of one device", "0 r rp dev", "0 r rp dev", topology.PIX},
		{"functions of one device on the root complex", "0 r - dev", "0 r - dev", topology.PIX},
		{"virtual functions with device numbers of their own", "0 r rp dev", "0 r rp dev2",
			topology.PIX},
		{"virtual functions below a switch", "0 r rp/up/dn dev", "0 r rp/up/dn dev2", topology.PIX},
		{"one switch", "0 r rp/up/dn1 gpu", "0 r rp/up/dn2 nic", topology.PIX},
		{"one switch, no node known", "- r rp/up/dn1 gpu", "- r rp/up/dn2 nic", topology.PIX},
		{"cascade: below the upper and below the lower switch", "0 r rp/up/dn1 gpu",
			"0 r rp/up/dn2/up2/dn3 nic", topology.PXB},
		{"cascade: below two lower switches", "0 r rp/up/dn1/up1/dn3 gpu",
			"0 r rp/up/dn2/up2/dn4 nic", topology.PXB},
		{"cascade: both below the same lower switch", "0 r rp/up/dn1/up1/dn3 gpu",
			"0 r rp/up/dn1/up1/dn4 nic", topology.PIX},
		{"cascade of three: part at the middle one", "0 r rp/up/dn/u1/d1/u2/d2 gpu",
			"0 r rp/up/dn/u1/d3 nic", topology.PXB},
		{"a second function of the upstream port", "0 r rp/up/dn gpu", "0 r rp mgmt", topology.PIX},
		{"two root ports", "0 r rp1 gpu", "0 r rp2 nic", topology.PHB},
		{"two root ports with a switch each", "0 r rp1/up1/dn1 gpu", "0 r rp2/up2/dn2 nic",
			topology.PHB},
		{"a device on the root complex", "0 r - qat", "0 r rp gpu", topology.PHB},
		{"two devices on the root complex", "0 r - qat", "0 r - dsa", topology.PHB},
		{"one root, whatever the nodes", "0 r rp1 gpu", "1 r rp2 nic", topology.PHB},
		{"two roots of a node", "0 r1 rp gpu", "0 r2 rp2 nic", topology.NODE},
		{"two nodes", "0 r1 rp gpu", "1 r2 rp2 nic", topology.SYS},
		{"one node not known", "- r1 rp gpu", "1 r2 rp2 nic", topology.SYS},
		{"no node known", "- r1 rp gpu", "- r2 rp2 nic", topology.SYS},
		// Two paths that are not known are not one path.
		{"roots not known, one node", "0 - - gpu", "0 - - nic", topology.NODE},
		{"nothing known", "- - - gpu", "- - - nic", topology.SYS},
		{"one root not known", "0 r rp gpu", "1 - - nic", topology.SYS},
	} {
		tree := topology.NewTree(0, 0)
		a, b := add(t, tree, "a", tc.a), add(t, tree, "b", tc.b)
		if got := tree.PathType(a, b); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}

		if got := tree.PathType(b, a); got != tc.want {
			t.Errorf("%s, the other way: %s, want %s", tc.name, got, tc.want)
		}

		if got := tree.PathType(a, a); got != topology.Self {
			t.Errorf("%s: a device and itself: %s", tc.name, got)
		}
	}
}

func TestComparePathTypes(t *testing.T) {
	types := []topology.PathType{
		topology.SYS, topology.PHB, topology.Self, topology.PXB, topology.NODE, topology.PIX,
	}

	slices.SortFunc(types, topology.PathType.Compare)
	if got := fmt.Sprint(types); got != "[X PIX PXB PHB NODE SYS]" {
		t.Errorf("from the nearest to the farthest: %s", got)
	}
}
