package paste_test

import (
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// TestGroupLists: lists by IOMMU group, as scripts print them in one line or in two, are lspci's.
func TestGroupLists(t *testing.T) {
	const gpu, nic = "5d:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2335] (rev a1)",
		"5e:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [15b3:1021]"
	for _, text := range []string{
		"IOMMU Group 15 " + gpu + "\nIOMMU Group 16 " + nic + "\n",
		"IOMMU group 15: " + gpu + "\nIOMMU group 16: " + nic + "\n",
		"IOMMU Group 15:\n\t" + gpu + "\nIOMMU Group 16:\n\t" + nic + "\n",
		gpu + "\n\tIOMMU group: 15\n" + nic + "\n\tIOMMU group: 16\n",
	} {
		m, _, err := paste.Read([]byte(text))
		expect.NoError(t, err)
		var got []string
		for _, d := range m.Functions {
			group := "none"
			if d.IOMMUGroup != nil {
				group = fmt.Sprint(*d.IOMMUGroup)
			}
			got = append(got, fmt.Sprintf("%s %s %s", d.Address, d.IDs(), group))
		}

		expect.Same(t, []string{"0000:5d:00.0 10de:2335 15", "0000:5e:00.0 15b3:1021 16"}, got,
			"%q (-want +got)", text)
	}
}

// TestBARs: the BARs of a function are those before its capabilities; a ROM is none.
func TestBARs(t *testing.T) {
	m, _, err := paste.Read([]byte(`5d:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2335]
	Region 0: Memory at 383fe000000 (64-bit, prefetchable) [size=16M]
	Region 2: Memory at 38000000000 (64-bit, prefetchable) [size=256G]
	Region 5: I/O ports at 3000 [size=128]
	Expansion ROM at 92000000 [disabled] [size=1M]
	Capabilities: [bcc v1] Single Root I/O Virtualization (SR-IOV)
		Region 0: Memory at 92100000 (32-bit, non-prefetchable) [size=512K]
`))
	expect.NoError(t, err)
	expect.Same(t, []topology.BAR{
		{Bytes: 16 << 20, Is64: true}, {Bytes: 256 << 30, Is64: true}, {Bytes: 128, IO: true},
	}, m.Functions[0].BARs, "(-want +got)")
}

// TestTreeWithoutNodes: a tree without NUMA nodes does not tell whether two roots are on one node.
func TestTreeWithoutNodes(t *testing.T) {
	m, _, err := paste.Read([]byte(`-+-[0000:15]---01.0-[1b-1c]--+-00.0  NVIDIA Corporation GH100 [10de:2330]
 |                            \-00.1  NVIDIA Corporation GH100 [10de:2330]
 \-[0000:97]---01.0-[9d]----00.0  Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]
`))
	expect.NoError(t, err)
	gpu, nic := m.GPUs()[0].Address, m.NICs()[0].Address
	if _, isKnown := m.PathType(gpu, nic); isKnown {
		t.Error("the path between two roots is known: NODE or SYS")
	}

	if between, isKnown := m.PathType(gpu, m.GPUs()[1].Address); !isKnown || between >= topology.NODE {
		t.Errorf("%v, known %v under one root", between, isKnown)
	}
}

// TestListOnRootBus: without a tree, devices that are all on bus 00 are on one root bus.
func TestListOnRootBus(t *testing.T) {
	const list = `00:05.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]
00:06.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]
`
	m, _, err := paste.Read([]byte(list))
	expect.NoError(t, err)
	between, isKnown := m.PathType(m.GPUs()[0].Address, m.GPUs()[1].Address)
	if !isKnown || between != topology.PHB {
		t.Errorf("on bus 00: %v, known %v, want PHB", between, isKnown)
	}

	m, _, err = paste.Read([]byte(strings.ReplaceAll(list, "00:0", "01:0")))
	expect.NoError(t, err)
	if _, isKnown := m.PathType(m.GPUs()[0].Address, m.GPUs()[1].Address); isKnown {
		t.Error("on bus 01, whose bridge is not in the text, the path is known")
	}
}

// TestNamedForms: what cannot be read is named as what it is, with what to paste instead.
func TestNamedForms(t *testing.T) {
	for text, want := range map[string]string{
		"┌───────────┐\n│ Machine (64GB total) │\n│ NUMANode L#0 P#0 (64GB) │\n└────┘\n": "lstopo's " +
			"drawing, which has no bridges: run lstopo --of console or lstopo --of xml",
		"<domain type='kvm'><name>vm</name></domain>": "a libvirt domain",
	} {
		_, _, err := paste.Read([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}
