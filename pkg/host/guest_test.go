package host_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
)

// lspciNumbers is the output of pciutils 3.9 in a guest with a GPU on node 1 under
// an expander bus (lspci.8, "Verbose format (-vmm)").
const lspciNumbers = `Slot:	0000:00:00.0
Class:	Host bridge [0600]
Vendor:	Intel Corporation [8086]
Device:	82G33/G31/P35/P31 Express DRAM Controller [29c0]
SVendor:	Red Hat, Inc. [1af4]
SDevice:	QEMU Virtual Machine [1100]

Slot:	0000:c1:00.0
Class:	3D controller [0302]
Vendor:	NVIDIA Corporation [10de]
Device:	GH100 [H100 SXM5 80GB] [2330]
Rev:	a1
NUMANode:	1

`

func TestReadGuestLspci(t *testing.T) {
	bridge := topology.Device{Class: 0x060000, Vendor: 0x8086, Device: 0x29c0}
	gpu := topology.Device{
		Address: topology.Address{Bus: 0xc1},
		Class:   0x030200,
		Vendor:  0x10de,
		Device:  0x2330,
		Node:    topology.OnNode(1),
	}

	lspci := func(devices ...topology.Device) host.Guest {
		return host.Guest{Host: topology.Host{Devices: devices}, Source: "lspci", HasNodes: true}
	}

	tests := map[string]struct {
		input string
		want  host.Guest
	}{
		"names and numbers (-nn)": {lspciNumbers, lspci(bridge, gpu)},
		"numbers (-n), CRLF, no newline at the end": {
			"Slot:\t0000:c1:00.0\r\nClass:\t0302\r\nVendor:\t10de\r\nDevice:\t2330\r\nNUMANode:\t1",
			lspci(gpu),
		},
		// A name may end in brackets without being a number.
		"names only": {
			"Slot:\t0000:c1:00.0\nVendor:\tNVIDIA Corporation\nDevice:\tGA102 [GeForce RTX 3090]\nNUMANode:\t1\n",
			lspci(topology.Device{Address: gpu.Address, Node: gpu.Node}),
		},
		"without -D, in any order": {
			"Slot:\tc1:00.0\nClass:\t0302\nVendor:\t10de\nDevice:\t2330\nNUMANode:\t1\n\n\nSlot:\t00:00.0\nClass:\t0600\nVendor:\t8086\nDevice:\t29c0\n",
			lspci(bridge, gpu),
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, problems, err := host.ReadGuest([]byte(test.input))
			if err != nil || len(problems) > 0 {
				t.Fatal(err, problems)
			}

			if d := cmp.Diff(test.want, got, compare,
				cmpopts.IgnoreUnexported(host.Guest{})); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// A snapshot, unlike lspci, has the path to each device.
func TestReadGuestSnapshot(t *testing.T) {
	snapshot := "-- bus/pci/devices/0000:c0:00.0 -> ../../../devices/pci0000:c0/0000:c0:00.0 --\n" +
		"-- devices/pci0000:c0/0000:c0:00.0/class --\n0x060400\n" +
		"-- bus/pci/devices/0000:c1:00.0 -> ../../../devices/pci0000:c0/0000:c0:00.0/0000:c1:00.0 --\n" +
		"-- devices/pci0000:c0/0000:c0:00.0/0000:c1:00.0/vendor --\n0x10de\n" +
		"-- devices/pci0000:c0/0000:c0:00.0/0000:c1:00.0/device --\n0x2330\n"

	got, problems, err := host.ReadGuest([]byte(snapshot))
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}

	want := host.Guest{Source: "snapshot", HasNodes: true, Farthest: topology.NODE,
		Host: topology.Host{Devices: []topology.Device{
			{Address: topology.Address{
				Bus: 0xc0,
			}, Class: 0x060400, IsBridge: true, Root: "pci0000:c0"},
			{
				Address: topology.Address{Bus: 0xc1}, Vendor: 0x10de, Device: 0x2330,
				Root: "pci0000:c0", Bridges: []topology.Address{{Bus: 0xc0}},
			},
		}}}

	if d := cmp.Diff(want, got, compare, cmpopts.IgnoreUnexported(host.Guest{})); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestReadGuestRefuses(t *testing.T) {
	for name, input := range map[string]string{
		"nothing":          "",
		"lspci without -v": "00:00.0 Host bridge: Intel Corporation 82G33/G31/P35/P31 Express DRAM Controller\n",
		"lspci -vm":        "Device:\t00:00.0\nClass:\tHost bridge\n",
		"no address":       "Slot:\tfirst\n",
		"no node":          "Slot:\t0000:00:00.0\nNUMANode:\tone\n",
		"a node of 10^9":   "Slot:\t0000:00:00.0\nNUMANode:\t1000000000\n",
		"twice":            "Slot:\t0000:00:00.0\n\nSlot:\t0000:00:00.0\n",
		"prose":            "see attachment\n",
		"a bad snapshot":   "-- ../up --\n",
	} {
		if guest, _, err := host.ReadGuest([]byte(input)); err == nil {
			t.Errorf("%s: no error, but %+v", name, guest)
		}
	}
}

// No input makes ReadGuest panic or return a device twice.
func FuzzReadGuest(f *testing.F) {
	f.Add([]byte(lspciNumbers))
	for _, name := range []string{"lstopo.xml", "nccl.xml", "topo.txt"} {
		f.Add([]byte(pasted(f, name)))
	}

	f.Add([]byte("-- bus/pci/devices/0000:00:00.0 -> ../../../devices/pci0000:00/0000:00:00.0 --\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		guest, _, err := host.ReadGuest(data)
		if err != nil {
			return
		}

		for i, d := range guest.Devices {
			if guest.Names != nil {
				guest.PathType(i, 0)
				continue
			}
			if i > 0 && guest.Devices[i-1].Address.Compare(d.Address) >= 0 {
				t.Errorf("%s comes after %s", d.Address, guest.Devices[i-1].Address)
			}
		}
	})
}
