package host_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

func TestReadHostHGX(t *testing.T) {
	// This host has two sockets and one switch per pair of GPU and NIC. Each switch
	// has its own root port and host bridge.
	pairs := []struct {
		gpu, nic string
		root     topology.PCIeRoot
		node     topology.NodeID
	}{
		{"0000:1b:00.0", "0000:18:00.1", "pci0000:15", 0},
		{"0000:43:00.0", "0000:40:00.1", "pci0000:37", 0},
		{"0000:52:00.0", "0000:4f:00.1", "pci0000:48", 0},
		{"0000:61:00.0", "0000:5e:00.1", "pci0000:59", 0},
		{"0000:9d:00.0", "0000:9a:00.1", "pci0000:97", 1},
		{"0000:c3:00.0", "0000:c0:00.1", "pci0000:b7", 1},
		{"0000:d1:00.0", "0000:ce:00.1", "pci0000:c7", 1},
		{"0000:df:00.0", "0000:dc:00.1", "pci0000:d7", 1},
	}

	var ids []topology.DeviceID
	for _, p := range pairs {
		ids = append(ids, pci(t, p.gpu), pci(t, p.nic))
	}

	host := read(t, "x86-2n8g-hgx-h100", ids)
	wantNodes(t, host, "0-55,112-167", "56-111,168-223")

	for i, p := range pairs {
		gpu, nic := device(t, host, p.gpu), device(t, host, p.nic)
		pf := device(t, host, p.nic[:len(p.nic)-1]+"0") // read because the NIC is its VF
		if gpu.Vendor != 0x10de || gpu.Device != 0x2330 || gpu.Class != 0x030200 {
			t.Errorf("%s is %04x:%04x class %06x", p.gpu, gpu.Vendor, gpu.Device, gpu.Class)
		}

		if nic.Vendor != 0x15b3 || nic.PhysFn == nil || *nic.PhysFn != pf.Address ||
			pf.Driver != "mlx5_core" {
			t.Errorf("%s is of vendor %04x, function of %v with driver %q", p.nic, nic.Vendor,
				nic.PhysFn, pf.Driver)
		}

		for _, d := range []*topology.Function{gpu, nic} {
			if d.Root != p.root || d.Node != topology.OnNode(p.node) || d.Driver != "vfio-pci" ||
				d.IsBridge || d.IOMMUGroup == nil {
				t.Errorf("%s: %+v", d.Address, d)
			}

			if len(d.Bridges) != 3 {
				t.Fatalf("%s: bridges %v, want root port, upstream and downstream port", d.Address,
					d.Bridges)
			}

			for _, bridge := range d.Bridges {
				if b := device(t, host, bridge.String()); !b.IsBridge || b.Driver != "pcieport" ||
					b.Root != p.root {
					t.Errorf("bridge %s: %+v", bridge, b)
				}
			}
		}

		if gpu.Bridges[0] != nic.Bridges[0] || gpu.Bridges[1] != nic.Bridges[1] ||
			gpu.Bridges[2] == nic.Bridges[2] {
			t.Errorf("bridges of %s %v and of %s %v, want one upstream port and two "+
				"downstream ports", p.gpu, gpu.Bridges, p.nic, nic.Bridges)
		}

		wantPathType(t, host, p.gpu, p.nic, topology.PIX)

		for _, q := range pairs[i+1:] {
			want := topology.SYS
			if p.node == q.node {
				want = topology.NODE
			}
			wantPathType(t, host, p.gpu, q.gpu, want)
		}
	}

	// 16 MiB, 128 GiB and 32 MiB, the BARs of an 80 GB H100, all 64-bit.
	wantBARs := []topology.BAR{
		{Bytes: 16 << 20, Is64: true}, {Bytes: 128 << 30, Is64: true},
		{Bytes: 32 << 20, Is64: true},
	}

	expect.Same(t, wantBARs, device(t, host, "0000:1b:00.0").BARs,
		"BARs of 0000:1b:00.0 (-want +got)")

	// 8 pairs of a GPU, a VF, its PF and 4 ports make 56. Beside NVIDIA GPUs the 4 NVSwitches are
	// read, and the 6 ports above them.
	if len(host.Functions) != 66 {
		t.Errorf("read %d devices, want 66", len(host.Functions))
	}
}

func TestReadHostNVSwitch(t *testing.T) {
	host := read(t, "x86-2n8g-hgx-h100", []topology.DeviceID{pci(t, "0000:b3:00.0")})
	if d := device(t, host, "0000:b3:00.0"); d.Class != 0x068000 || d.IsBridge {
		t.Errorf("NVSwitch: %+v; want class 0x068000 and not a bridge", d)
	}
}

func TestReadHostConsumer(t *testing.T) {
	host := read(t, "x86-1n2g-rtx-audio", []topology.DeviceID{
		pci(t, "0000:01:00.0"), pci(t, "0000:21:00.2"), pci(t, "0000:28:00.0"),
	})

	wantNodes(t, host, "0-31")
	if d := device(t, host, "0000:01:00.0"); d.Node != (topology.Affinity{}) ||
		host.Affinity(pci(t, "0000:01:00.0")) != topology.OnNode(0) {
		t.Errorf("node %v, Host.Affinity %v; want none and 0, the only node", d.Node,
			host.Affinity(pci(t, "0000:01:00.0")))
	}

	// The other functions of each device are read, too.
	for a, class := range map[string]uint32{
		"0000:01:00.0": 0x030000, "0000:01:00.1": 0x040300,
		"0000:21:00.0": 0x030000, "0000:21:00.1": 0x040300, "0000:21:00.2": 0x0c0330,
		"0000:21:00.3": 0x0c8000,
	} {
		if d := device(t, host, a); d.Class != class {
			t.Errorf("%s has class %06x, want %06x", a, d.Class, class)
		}
	}

	gpu, audio := device(t, host, "0000:01:00.0"), device(t, host, "0000:01:00.1")
	if gpu.IOMMUGroup == nil || audio.IOMMUGroup == nil || *gpu.IOMMUGroup != *audio.IOMMUGroup {
		t.Error("GPU and audio are not in one IOMMU group")
	}

	wantPathType(t, host, "0000:01:00.0", "0000:01:00.1", topology.PIX)
	wantPathType(t, host, "0000:01:00.0", "0000:21:00.0", topology.PHB)
	if d := device(t, host, "0000:28:00.1"); d.Driver != "igb" ||
		*d.IOMMUGroup != *device(t, host, "0000:28:00.0").IOMMUGroup {
		t.Errorf("the NIC in the group of 0000:28:00.0: %+v", d)
	}

	// 32-bit memory, two 64-bit BARs and 128 bytes of I/O ports.
	want := []topology.BAR{
		{Bytes: 16 << 20}, {Bytes: 256 << 20, Is64: true}, {Bytes: 32 << 20, Is64: true},
		{Bytes: 128, IO: true},
	}

	expect.Same(t, want, gpu.BARs, "BARs of 0000:01:00.0 (-want +got)")

	// 0000:02:00.0 was not requested and shares no group.
	if host.FunctionAt(address(t, "0000:02:00.0")) != nil {
		t.Error("0000:02:00.0 was read")
	}
}

func TestReadHostMediatedDevices(t *testing.T) {
	want := []topology.MDEV{
		{UUID: "0c9d2b77-1f0e-4f4e-8f57-6a2e5b8d4c02", Parent: new(address(t, "0000:18:00.0")),
			Type: "nvidia-232", IOMMUGroup: new(5)},
		{UUID: "4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01", Parent: new(address(t, "0000:18:00.0")),
			Type: "nvidia-232", IOMMUGroup: new(4)},
		{UUID: "e2b7a4d0-93c1-4a6b-b8de-51f0c6a7d903", Parent: new(address(t, "0000:d8:00.0")),
			Type: "nvidia-234", IOMMUGroup: new(6)},
	}

	var ids []topology.DeviceID
	for _, m := range want {
		ids = append(ids, topology.MediatedDevice(m.UUID))
	}

	host := read(t, "x86-2n2g-t4-vgpu", ids)
	expect.Same(t, want, host.MDEVs, "mediated devices (-want +got)")

	for i, node := range []topology.NodeID{0, 0, 1} {
		if got := host.Affinity(ids[i]); got != topology.OnNode(node) {
			t.Errorf("%s is on node %v, want %d", ids[i], got, node)
		}
		if f := host.Function(ids[i]); f == nil || f.Driver != "nvidia" || len(f.Bridges) != 1 {
			t.Errorf("parent of %s: %+v", ids[i], f)
		}
	}
}

// What is read of a device does not depend on the other requested devices or on
// their order. All devices together are the whole host.
func TestReadHostIsPartOfWholeHost(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(hostsDir, "*.txtar"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no snapshots in %s: %v", hostsDir, err)
	}

	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			fsys := open(t, name)
			whole, problems := host.Read(fsys, nil, host.All)
			expect.Problems(t, problems, nil)
			entries, err := fs.ReadDir(fsys, "bus/pci/devices")
			if err != nil || len(entries) != len(whole.Functions) {
				t.Fatalf("%d devices in %d entries of bus/pci/devices, %v", len(whole.Functions),
					len(entries), err)
			}

			var ids []topology.DeviceID
			for i := range whole.Functions {
				ids = append(ids, topology.PCIDevice(whole.Functions[i].Address))
			}

			for i := range whole.MDEVs {
				ids = append(ids, topology.MediatedDevice(whole.MDEVs[i].UUID))
			}

			rand.New(rand.NewPCG(1, 2)).Shuffle(len(ids), func(i, j int) {
				ids[i], ids[j] = ids[j], ids[i]
			})

			for _, id := range ids {
				part, _ := readHost(fsys, []topology.DeviceID{id})
				for i := range part.Functions {
					want := whole.FunctionAt(part.Functions[i].Address)
					if diff := cmp.Diff(want, &part.Functions[i], compare); diff != "" {
						t.Errorf("requested %s (-whole +part):\n%s", id, diff)
					}
				}
			}

			all, problems := readHost(fsys, ids)
			expect.Problems(t, problems, nil)
			if diff := cmp.Diff(whole, all, compare); diff != "" {
				t.Errorf("requested all (-whole +all):\n%s", diff)
			}

			for i, d := range all.Functions {
				all.Functions[i] = topology.Function{
					Address: d.Address, Class: d.Class, Node: d.Node, Root: d.Root,
					Bridges: d.Bridges,
					PhysFn:  d.PhysFn, IOMMUGroup: d.IOMMUGroup, IsBridge: d.IsBridge,
					Conventional: d.Conventional,
				}
				if d.IsGPU() { // whether its board joins it with others over NVLink
					all.Functions[i].Vendor, all.Functions[i].Device = d.Vendor, d.Device
				}
			}

			places, problems := host.Read(fsys, ids, host.Classes|host.Groups)
			expect.Problems(t, problems, nil)
			if diff := cmp.Diff(all, places, compare); diff != "" {
				t.Errorf("places of all (-all +places):\n%s", diff)
			}
		})
	}
}

// A directory, read by descriptors, gives the same host as its snapshot.
func TestReadHostFromDirectory(t *testing.T) {
	for _, name := range []string{"x86-2n8g-hgx-h100", "x86-2n2g-t4-vgpu", "x86-1n2g-rtx-audio"} {
		snapshot := open(t, filepath.Join(hostsDir, name+".txtar"))
		dir := expect.HostDir(t, snapshot)
		want, _ := host.Read(snapshot, nil, host.All)
		got, problems := host.Read(open(t, dir), nil, host.All)
		expect.Problems(t, problems, nil)
		if diff := cmp.Diff(want, got, compare); diff != "" {
			t.Errorf("%s (-snapshot +directory):\n%s", name, diff)
		}
	}
}

// TestReadHostLive reads /sys of the machine that runs the test.
func TestReadHostLive(t *testing.T) {
	entries, err := os.ReadDir("/sys/bus/pci/devices")
	if err != nil {
		t.Skip("no PCI bus in /sys: ", err)
	}

	host, problems := host.Read(open(t, "/sys"), nil, host.All)
	if len(host.Functions) != len(entries) {
		t.Errorf("read %d devices of %d; problems %v", len(host.Functions), len(entries), problems)
	}

	for _, entry := range entries {
		d := device(t, host, entry.Name())
		want := expect.File(t, "/sys/bus/pci/devices/"+entry.Name()+"/vendor")
		if got := fmt.Sprintf("0x%04x", d.Vendor); got != strings.TrimSpace(string(want)) ||
			d.Root == "" {
			t.Errorf("%s: vendor %s root %q, the file says %s", entry.Name(), got, d.Root, want)
		}
	}
}
