package host_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// shapes has what the snapshots of testdata do not have.
const shapes = `
-- bus/pci/devices/0000:80:05.5 -> ../../../devices/pci0000:80/0000:80:05.5 --
-- bus/pci/devices/10000:00:02.0 -> ../../../devices/pci0000:80/0000:80:05.5/pci10000:00/10000:00:02.0 --
-- bus/pci/devices/10000:01:00.0 -> ../../../devices/pci0000:80/0000:80:05.5/pci10000:00/10000:00:02.0/10000:01:00.0 --
-- devices/pci0000:80/0000:80:05.5/class --
0x010400
-- devices/pci0000:80/0000:80:05.5/pci10000:00/10000:00:02.0/class --
0x060400
-- devices/pci0000:80/0000:80:05.5/pci10000:00/10000:00:02.0/10000:01:00.0/numa_node --
1
-- bus/pci/devices/0000:00:02.0 -> ../../../devices/pci0000:00/0000:00:02.0 --
-- devices/pci0000:00/0000:00:02.0/class --
0x030000
-- bus/pci/devices/0002:01:00.0 -> ../../../devices/platform/soc/fc000000.pcie/pci0002:00/0002:00:00.0/0002:01:00.0 --
-- bus/pci/devices/0002:00:00.0 -> ../../../devices/platform/soc/fc000000.pcie/pci0002:00/0002:00:00.0 --
-- devices/platform/soc/fc000000.pcie/pci0002:00/0002:00:00.0/0002:01:00.0/numa_node --
-1
-- bus/pci/devices/0000:40:00.0 -> ../../../devices/pci0000:3f/0000:3f:01.0/0000:40:00.0 --
-- bus/pci/devices/0000:40:10.2 -> ../../../devices/pci0000:3f/0000:3f:01.0/0000:40:10.2 --
-- bus/pci/devices/0000:3f:01.0 -> ../../../devices/pci0000:3f/0000:3f:01.0 --
-- devices/pci0000:3f/0000:3f:01.0/0000:40:00.0/iommu_group -> ../../../../kernel/iommu_groups/7 --
-- devices/pci0000:3f/0000:3f:01.0/0000:40:10.2/physfn -> ../0000:40:00.0 --
-- bus/pci/devices/0000:50:00.0 -> ../../../devices/pci0000:50/0000:50:00.0 --
-- bus/pci/devices/0000:50:03.0 -> ../../../devices/pci0000:50/0000:50:03.0 --
-- bus/pci/devices/0000:50:04.0 -> ../../../devices/pci0000:50/0000:50:04.0 --
-- bus/pci/devices/0000:50:04.3 -> ../../../devices/pci0000:50/0000:50:04.3 --
-- devices/pci0000:50/0000:50:04.3/iommu_group -> ../../../kernel/iommu_groups/11 --
-- devices/pci0000:50/0000:50:00.0/iommu_group -> ../../../kernel/iommu_groups/9 --
-- devices/pci0000:50/0000:50:03.0/iommu_group -> ../../../kernel/iommu_groups/9 --
-- devices/pci0000:50/0000:50:04.0/iommu_group -> ../../../kernel/iommu_groups/10 --
-- kernel/iommu_groups/9/devices/0000:50:00.0 -> ../../../../devices/pci0000:50/0000:50:00.0 --
-- kernel/iommu_groups/9/devices/0000:50:03.0 -> ../../../../devices/pci0000:50/0000:50:03.0 --
-- kernel/iommu_groups/9/devices/0000:51:00.0 -> ../../../../devices/pci0000:50/0000:51:00.0 --
-- kernel/iommu_groups/9/devices/arm-smmu.0 -> ../../../../devices/platform/arm-smmu.0 --
-- bus/mdev/devices/83b8f4f2-509f-382f-3c1e-e6bfe0fa1001 -> ../../../devices/virtual/mtty/mtty/83b8f4f2-509f-382f-3c1e-e6bfe0fa1001 --
-- devices/virtual/mtty/mtty/83b8f4f2-509f-382f-3c1e-e6bfe0fa1001/mdev_type -> ../mdev_supported_types/mtty-2 --
-- devices/system/node/online --
0-1,4
-- devices/system/node/node0/cpulist --
0-3
-- devices/system/node/node1/cpulist --

-- devices/pci0000:00/0000:00:02.0/resource --
0x00000000e0000000 0x00000000e0ffffff 0x0000000000040200
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000000000000000 0x0000000000000000 0x000000000014220c
0x0000000000003000 0x000000000000303f 0x0000000000040101
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x00000000000c0000 0x00000000000dffff 0x0000000000000212
`

func TestReadHostShapes(t *testing.T) {
	fsys := parse(t, shapes)
	mtty := topology.MediatedDevice("83b8f4f2-509f-382f-3c1e-e6bfe0fa1001")
	host, problems := readHost(fsys, []topology.DeviceID{
		pci(t, "10000:01:00.0"), pci(t, "0000:00:02.0"), pci(t, "0002:01:00.0"),
		pci(t, "0000:40:10.2"), mtty,
	})

	expect.Problems(t, problems, nil)
	none := topology.Affinity{}
	for _, want := range []topology.Function{
		// Under VMD the nearest root counts, and the VMD endpoint is not a bridge.
		{Address: address(t, "10000:01:00.0"), Node: topology.OnNode(1), Root: "pci10000:00",
			Bridges: []topology.Address{
				address(t, "10000:00:02.0"),
			}},
		{Address: address(t, "10000:00:02.0"), Class: 0x060400, IsBridge: true,
			Root: "pci10000:00"},
		// In the root complex, without numa_node. Its ROM and a BAR without a size
		// are not BARs in use.
		{
			Address: address(t, "0000:00:02.0"), Class: 0x030000, Root: "pci0000:00", Node: none,
			BARs: []topology.BAR{{Bytes: 16 << 20}, {Bytes: 64, IO: true}},
		},
		// Roots need not be directly under devices/.
		{Address: address(t, "0002:01:00.0"), Root: "pci0002:00", Bridges: []topology.Address{
			address(t, "0002:00:00.0"),
		}, Node: none},
		// A virtual function with another device number brings its physical function.
		{Address: address(t, "0000:40:10.2"), Root: "pci0000:3f", Bridges: []topology.Address{
			address(t, "0000:3f:01.0"),
		}, PhysFn: new(address(t, "0000:40:00.0"))},
		{Address: address(t, "0000:40:00.0"), Root: "pci0000:3f", Bridges: []topology.Address{
			address(t, "0000:3f:01.0"),
		}, IOMMUGroup: new(7)},
	} {
		if diff := cmp.Diff(&want, device(t, host, want.Address.String()), compare); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Address, diff)
		}
	}

	// The VMD endpoint itself was not requested.
	if host.FunctionAt(address(t, "0000:80:05.5")) != nil {
		t.Error("0000:80:05.5 was read")
	}

	if m := host.MDEV("83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"); m == nil || m.Parent != nil ||
		m.Type != "mtty-2" || m.IOMMUGroup != nil {
		t.Errorf("mediated device under devices/virtual: %+v", m)
	}

	// Nodes 1 and 4 are online; node 1 has no CPUs, node 4 no cpulist.
	var nodes []string
	for _, n := range host.Nodes {
		nodes = append(nodes, topology.OnNode(n.ID).String()+":"+n.CPUs.String())
	}

	expect.Same(t, []string{"0:0-3", "1:", "4:"}, nodes, "nodes (-want +got)")
}

// Read also reads the functions that belong to a requested device.
func TestReadHostRelatives(t *testing.T) {
	for _, tc := range []struct {
		name, id string
		want     []string
	}{
		{"the members of its group", "0000:50:00.0", []string{"0000:50:00.0", "0000:50:03.0"}},
		{"the other functions, even in another group", "0000:50:04.3", []string{
			"0000:50:04.0", "0000:50:04.3",
		}},
	} {
		host, problems := readHost(parse(t, shapes), []topology.DeviceID{pci(t, tc.id)})
		expect.Problems(t, problems, nil)
		var got []string
		for i := range host.Functions {
			got = append(got, host.Functions[i].Address.String())
		}

		expect.Same(t, tc.want, got, "%s (-want +got)", tc.name)
	}
}

func TestReadHostAbsent(t *testing.T) {
	ids := []topology.DeviceID{
		pci(t, "0000:99:00.0"), topology.MediatedDevice("4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01"),
	}

	for name, fsys := range map[string]fs.FS{
		"other devices": parse(t, shapes), "nothing": fstest.MapFS{},
	} {
		host, problems := readHost(fsys, ids)
		expect.Problems(t, problems, []string{
			"no-sysfs bus/pci/devices/0000:99:00.0: does not show this device",
			"no-sysfs bus/mdev/devices/4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01: does not show " +
				"this device",
		})

		// Sorted by device: PCI before mdev.
		if named := []topology.DeviceID{
			*problems[0].Device, *problems[1].Device,
		}; !slices.Equal(named, []topology.DeviceID{ids[0], ids[1]}) {
			t.Errorf("%s: the problems are about %v", name, named)
		}

		if len(host.Functions)+len(host.MDEVs) > 0 {
			t.Errorf("%s: %+v", name, host)
		}
	}

	if _, problems := readHost(fstest.MapFS{}, nil); len(problems) > 0 {
		t.Errorf("no devices requested: %v", problems)
	}

	_, problems := host.Read(fstest.MapFS{}, nil, host.All)
	expect.Problems(t, problems, []string{"no-sysfs bus/pci/devices: no PCI devices"})
}

// failing is a file system that fails on one path.
type failing struct {
	fstest.MapFS
	path string
	err  error
}

func (f failing) Open(name string) (fs.File, error) {
	if name == f.path {
		return nil, &fs.PathError{Op: "open", Path: name, Err: f.err}
	}
	return f.MapFS.Open(name)
}

// Lstat fails only on a directory, for which simple has no entry.
func (f failing) Lstat(name string) (fs.FileInfo, error) {
	if name == f.path && f.MapFS[name] == nil {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: f.err}
	}
	return f.MapFS.Lstat(name)
}

func (f failing) ReadLink(name string) (string, error) {
	if name == f.path {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: f.err}
	}
	return f.MapFS.ReadLink(name)
}

func TestReadHostFailingFiles(t *testing.T) {
	const dir = "devices/pci0000:00/0000:00:02.0"
	for _, tc := range []struct {
		path  string
		shown bool // the device is read
		want  string
	}{
		{dir + "/numa_node", true, "bad-sysfs " + dir + "/numa_node: permission denied"},
		{dir + "/class", true, "bad-sysfs " + dir + "/class: permission denied"},
		{dir + "/driver", true, "bad-sysfs " + dir + "/driver: permission denied"},
		{dir, false, "bad-sysfs bus/pci/devices/0000:00:02.0: permission denied"},
		{"bus/pci/devices/0000:00:02.0", false,
			"bad-sysfs bus/pci/devices/0000:00:02.0: permission denied"},
		{"devices/system/node/online", true,
			"bad-sysfs devices/system/node/online: permission denied"},
	} {
		_, problems := readHost(failing{
			simple(nil), tc.path, fs.ErrPermission,
		}, []topology.DeviceID{pci(t, "0000:00:02.0")})

		expect.Problems(t, problems, []string{tc.want})
		host, _ := readHost(failing{
			simple(nil), tc.path, errors.New("input/output error"),
		}, []topology.DeviceID{pci(t, "0000:00:02.0")})

		if shown := len(host.Functions) == 1; shown != tc.shown {
			t.Errorf("%s: devices %+v", tc.path, host.Functions)
		}
	}

	// A bus that cannot be listed is a problem in addition to the device.
	_, problems := readHost(failing{
		simple(nil), "bus/pci/devices", fs.ErrPermission,
	}, []topology.DeviceID{pci(t, "0000:00:02.0")})

	expect.Problems(t, problems, []string{
		"bad-sysfs bus/pci/devices: permission denied", "no-sysfs bus/pci/devices/0000:00:02.0: ",
	})
}

// TestFilesThatEndWithNUL: tarballs of hwloc-gather-topology have files that end with NUL.
func TestFilesThatEndWithNUL(t *testing.T) {
	got, problems := readHost(simple(fstest.MapFS{"devices/system/node/online": file("0-3\n\x00")}),
		[]topology.DeviceID{pci(t, "0000:00:02.0")})
	expect.Problems(t, problems, nil)
	if len(got.Nodes) != 4 {
		t.Errorf("%d nodes, want 4", len(got.Nodes))
	}
}

// simple returns a sysfs of one GPU on one node, with some files replaced. A nil
// replacement removes the file.
func simple(replace fstest.MapFS) fstest.MapFS {
	const dir = "devices/pci0000:00/0000:00:02.0"
	files := fstest.MapFS{
		"bus/pci/devices/0000:00:02.0": link("../../../" + dir),
		dir + "/class":                 file("0x030000\n"),
		dir + "/vendor":                file("0x10de\n"),
		dir + "/numa_node":             file("0\n"),
		dir + "/driver":                link("../../../bus/pci/drivers/vfio-pci"),
		dir + "/iommu_group":           link("../../../kernel/iommu_groups/3"),
		"devices/system/node/online":   file("0-1\n"),
	}

	for name, f := range replace {
		files[name] = f
		if f == nil {
			delete(files, name)
		}
	}

	return files
}

func link(target string) *fstest.MapFile {
	return &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte(target)}
}

func file(content string) *fstest.MapFile {
	return &fstest.MapFile{Mode: 0o444, Data: []byte(content)}
}

func parse(t *testing.T, text string) fs.FS {
	t.Helper()
	fsys, err := host.ParseSnapshot([]byte(strings.TrimPrefix(text, "\n")))
	expect.NoError(t, err)
	return fsys
}
