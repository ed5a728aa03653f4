package host_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// Invalid content of sysfs is a problem. The rest of the device is still read.
func TestReadHostHostile(t *testing.T) {
	const (
		gpuLink = "bus/pci/devices/0000:00:02.0"
		dir     = "devices/pci0000:00/0000:00:02.0"
		uuid    = "4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01"
	)

	huge := strings.Repeat("0", 1<<17)
	for _, tc := range []struct {
		name    string
		replace fstest.MapFS
		shown   bool // the device is read
		want    []string
	}{
		{"node out of range", fstest.MapFS{
			dir + "/numa_node": file("1000000000\n"),
		}, true, []string{`bad-sysfs ` + dir + `/numa_node: "1000000000"`}},
		{"node over 64 bits", fstest.MapFS{
			dir + "/numa_node": file("99999999999999999999\n"),
		}, true, []string{"bad-sysfs " + dir + "/numa_node: "}},
		{"node not a number", fstest.MapFS{
			dir + "/numa_node": file("abc\n"),
		}, true, []string{`bad-sysfs ` + dir + `/numa_node: "abc"`}},
		{"node below -1", fstest.MapFS{
			dir + "/numa_node": file("-2\n"),
		}, true, []string{`bad-sysfs ` + dir + `/numa_node: "-2"`}},
		{"node not online", fstest.MapFS{
			dir + "/numa_node": file("7\n"),
		}, true, []string{"bad-sysfs " + dir + "/numa_node: not online"}},
		{"file too large", fstest.MapFS{
			dir + "/numa_node": file(huge),
		}, true, []string{"bad-sysfs " + dir + "/numa_node: too large"}},
		{"directory for a file", fstest.MapFS{
			dir + "/numa_node": nil, dir + "/numa_node/x": file("0"),
		}, true, []string{"bad-sysfs " + dir + "/numa_node: not a regular file"}},
		{"link for a file", fstest.MapFS{
			dir + "/numa_node": link("../../../etc/passwd"),
		}, true, []string{"bad-sysfs " + dir + "/numa_node: not a regular file"}},
		{"link to itself for a file", fstest.MapFS{
			dir + "/numa_node": link("numa_node"),
		}, true, []string{"bad-sysfs " + dir + "/numa_node: not a regular file"}},
		{"pipe for a file", fstest.MapFS{
			dir + "/numa_node": {Mode: fs.ModeNamedPipe | 0o444},
		}, true, []string{"bad-sysfs " + dir + "/numa_node: not a regular file"}},
		{"class with too many bits", fstest.MapFS{
			dir + "/class": file("0x03000000000\n"),
		}, true, []string{"bad-sysfs " + dir + "/class: 24 bits"}},
		{"vendor without digits", fstest.MapFS{
			dir + "/vendor": file("0x\n"),
		}, true, []string{"bad-sysfs " + dir + "/vendor: 16 bits"}},
		{"resource of two columns", fstest.MapFS{
			dir + "/resource": file("0x0 0x1\n"),
		}, true, []string{"bad-sysfs " + dir + "/resource: line 1"}},
		{"resource that is not a number", fstest.MapFS{
			dir + "/resource": file("0x0 0x0 0x0\n0x0 0x1 flags\n"),
		}, true, []string{"bad-sysfs " + dir + "/resource: line 2"}},
		{"resource with a reversed range", fstest.MapFS{
			dir + "/resource": file("0x2 0x1 0x200\n"),
		}, true, []string{"bad-sysfs " + dir + "/resource: invalid range"}},
		{"resource of 2^64 bytes", fstest.MapFS{
			dir + "/resource": file("0x0 0xffffffffffffffff 0x200\n"),
		}, true, []string{"bad-sysfs " + dir + "/resource: invalid range"}},
		{"driver outside", fstest.MapFS{
			dir + "/driver": link("../../../../../etc/passwd"),
		}, true, []string{"bad-sysfs " + dir + "/driver: outside"}},
		{"driver with an absolute link", fstest.MapFS{
			dir + "/driver": link("/sys/bus/pci/drivers/vfio-pci"),
		}, true, []string{"bad-sysfs " + dir + "/driver: outside"}},
		{"driver is a file", fstest.MapFS{
			dir + "/driver": file("vfio-pci"),
		}, true, []string{"bad-sysfs " + dir + "/driver: not a symbolic link"}},
		{"group that is not a number", fstest.MapFS{
			dir + "/iommu_group": link("../../../kernel/iommu_groups/x"),
		}, true, []string{"bad-sysfs " + dir + "/iommu_group: "}},
		{"invalid physical function", fstest.MapFS{
			dir + "/physfn": link("../nonsense"),
		}, true, []string{"bad-sysfs " + dir + "/physfn: "}},
		{"very long link", fstest.MapFS{
			dir + "/driver": link(strings.Repeat("x/", 1<<16)),
		}, true, []string{"bad-sysfs " + dir + "/driver: too long"}},
		{"invalid online nodes", fstest.MapFS{
			"devices/system/node/online": file("all\n"),
		}, true, []string{"bad-sysfs devices/system/node/online: "}},
		{"a million nodes", fstest.MapFS{
			"devices/system/node/online": file("0-60000\n"),
		}, true, []string{"bad-sysfs devices/system/node/online: must be between 0 and 1023"}},
		{"invalid CPUs", fstest.MapFS{
			"devices/system/node/node0/cpulist": file("x\n"),
		}, true, []string{"bad-sysfs devices/system/node/node0/cpulist: "}},

		{"device links to itself", fstest.MapFS{
			gpuLink: link("0000:00:02.0"),
		}, false, []string{"bad-sysfs " + gpuLink + ": symbolic link"}},
		{"device links outside", fstest.MapFS{
			gpuLink: link("../../../../0000:00:02.0"),
		}, false, []string{"bad-sysfs " + gpuLink + ": outside"}},
		{"device links to nothing", fstest.MapFS{
			gpuLink: link("../../../devices/gone/0000:00:02.0"),
		}, false, []string{"bad-sysfs " + gpuLink + ": file does not exist"}},
		{"device links to another", fstest.MapFS{
			gpuLink: link("../../../devices/pci0000:00"),
		}, false, []string{"bad-sysfs " + gpuLink + ": another device"}},
		{"device is a file", fstest.MapFS{
			gpuLink: file(""),
		}, false, []string{"bad-sysfs " + gpuLink + ": not a symbolic link"}},
		{"device links to a file", fstest.MapFS{
			gpuLink: link("../../../x/0000:00:02.0"), "x/0000:00:02.0": file(""),
		}, false, []string{"bad-sysfs " + gpuLink + ": not a directory"}},
		{"a loop above the device", fstest.MapFS{
			gpuLink: link("../../../a/0000:00:02.0"), "a": link("b"), "b": link("a"),
		}, false, []string{"bad-sysfs " + gpuLink + ": a is a symbolic link"}},
		{"a loop that grows above the device", fstest.MapFS{
			gpuLink: link("../../../a/0000:00:02.0"), "a": link("a/a"),
		}, false, []string{"bad-sysfs " + gpuLink + ": a is a symbolic link"}},
		{"devices of the bus are a link", fstest.MapFS{
			gpuLink: nil, "bus/pci/devices": link("devices"),
		}, false, []string{
			"bad-sysfs bus/pci/devices: symbolic link", "no-sysfs " + gpuLink + ": ",
		}},
		{"no root in the path", fstest.MapFS{
			gpuLink: link("../../../x/0000:00:02.0"), "x/0000:00:02.0/vendor": file("0x10de"),
		}, true, []string{"bad-sysfs " + gpuLink + ": no PCIe root"}},
		{"an unknown component in the path", fstest.MapFS{
			gpuLink:                            link("../../../pci0000:00/x/0000:00:02.0"),
			"pci0000:00/x/0000:00:02.0/vendor": file("0x10de"),
		}, true, []string{"bad-sysfs " + gpuLink + `: "x"`}},
		{
			"a device above itself",
			fstest.MapFS{
				gpuLink: link("../../../pci0000:00/0000:00:02.0/0000:00:02.0"),
				"pci0000:00/0000:00:02.0/0000:00:02.0/vendor": file("0x10de"),
			},
			true,
			[]string{"bad-sysfs " + gpuLink + ": twice"},
		},
		{
			"two devices above each other",
			fstest.MapFS{
				gpuLink: link(
					"../../../pci0000:00/0000:00:03.0/0000:00:02.0"),
				"bus/pci/devices/0000:00:03.0": link(
					"../../../pci0000:01/0000:00:02.0/0000:00:03.0"),
				"pci0000:00/0000:00:03.0/0000:00:02.0/vendor": file("0x10de"),
				"pci0000:01/0000:00:02.0/0000:00:03.0/vendor": file("0x10de"),
			}, true, nil,
		},
		{
			"a bridge that the bus does not have",
			fstest.MapFS{
				gpuLink: link("../../../pci0000:00/0000:00:01.0/0000:00:02.0"),
				"pci0000:00/0000:00:01.0/0000:00:02.0/vendor": file("0x10de"),
			},
			true,
			[]string{"bad-sysfs pci0000:00/0000:00:01.0/0000:00:02.0: 0000:00:01.0"},
		},
		{"group members are a link", fstest.MapFS{
			"kernel/iommu_groups/3/devices": link("devices"),
		}, true, []string{"bad-sysfs kernel/iommu_groups/3/devices: symbolic link"}},
		{
			"a mediated device under a function that the bus does not have",
			fstest.MapFS{
				"bus/mdev/devices/" +
					uuid: link("../../../devices/pci0000:00/0000:00:09.0/" + uuid),
				"devices/pci0000:00/0000:00:09.0/" + uuid + "/x": file(""),
			}, true, []string{"bad-sysfs devices/pci0000:00/0000:00:09.0/" + uuid +
				": 0000:00:09.0"},
		},
		{"a mediated device that links to itself", fstest.MapFS{
			"bus/mdev/devices/" + uuid: link(uuid),
		}, true, []string{"bad-sysfs bus/mdev/devices/" + uuid + ": symbolic link"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := simple(tc.replace)
			ids := []topology.DeviceID{pci(t, "0000:00:02.0")}
			if _, ok := fsys["bus/mdev/devices/"+uuid]; ok {
				ids = append(ids, topology.MediatedDevice(uuid))
			}

			host, problems := readHost(fsys, ids)
			expect.Problems(t, problems, tc.want)
			gpu := host.FunctionAt(address(t, "0000:00:02.0"))
			if (gpu != nil) != tc.shown {
				t.Errorf("device: %+v", gpu)
			}

			if _, replaced := tc.replace[dir+"/numa_node"]; replaced &&
				gpu.Node != (topology.Affinity{}) {
				t.Errorf("node %v", gpu.Node)
			}

			if _, replaced := tc.replace[dir+"/vendor"]; !replaced && tc.shown &&
				gpu.Vendor != 0x10de {
				t.Errorf("vendor %04x", gpu.Vendor)
			}

			for _, p := range problems {
				if len(p.Text) > 300 {
					t.Errorf("problem of %d bytes", len(p.Text))
				}
			}
		})
	}
}

// Names that the kernel would not write are a problem where devices are listed.
func TestReadWholeHostNames(t *testing.T) {
	fsys := simple(fstest.MapFS{
		"bus/pci/devices/x": link("x"), "bus/pci/devices/0000:3B:00.0": link("x"),
		"bus/mdev/devices/y": link("y"),
	})

	host, problems := host.Read(fsys, nil, host.All)
	expect.Problems(t, problems, []string{
		"bad-sysfs bus/pci/devices: the kernel writes 0000:3b:00.0",
		`bad-sysfs bus/pci/devices: "x"`, `bad-sysfs bus/mdev/devices: "y"`,
	})

	if len(host.Functions) != 1 {
		t.Errorf("devices: %+v", host.Functions)
	}
}
