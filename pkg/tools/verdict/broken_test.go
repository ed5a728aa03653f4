package verdict_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
)

// twoSwitches is a guest with a GPU, 13:00.0 and 93:00.0, and a NIC, 14:00.0 and 94:00.0, under each of
// two switches.
const twoSwitches = `cpus 0 0-3
cpus 1 4-7
pci0000:10 node=0
  0000:10:01.0 bridge ids=8086:352a maxlink=32.0x16
    0000:11:00.0 bridge ids=1000:c030 maxlink=32.0x16
      0000:12:00.0 bridge ids=1000:c030 maxlink=32.0x16
        0000:13:00.0 gpu ids=10de:2330 maxlink=32.0x16
      0000:12:01.0 bridge ids=1000:c030 maxlink=32.0x16
        0000:14:00.0 nic ids=15b3:1021 maxlink=32.0x16
pci0000:90 node=1
  0000:90:01.0 bridge ids=8086:352a maxlink=32.0x16
    0000:91:00.0 bridge ids=1000:c030 maxlink=32.0x16
      0000:92:00.0 bridge ids=1000:c030 maxlink=32.0x16
        0000:93:00.0 gpu ids=10de:2330 maxlink=32.0x16
      0000:92:01.0 bridge ids=1000:c030 maxlink=32.0x16
        0000:94:00.0 nic ids=15b3:1021 maxlink=32.0x16
`

// breakage is how texts show that a device cannot work: what matches is replaced, in the formats where
// something does.
type breakage struct {
	in    string // the beginning of the names of formats that show it
	match string
	with  string
	says  string // what is said of the device
}

// gone is a configuration space that reads as ones, as rdma_topo packs it.
func gone(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, err := w.Write(bytes.Repeat([]byte{0xff}, 4096))
	expect.NoError(t, err)
	expect.NoError(t, w.Close())
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func breakages(t *testing.T) map[string]breakage {
	const gpu, nic = `(?m)^((?:0000:)?13:00\.0 .*)$`, `(?m)^((?:0000:)?14:00\.0 .*)$`
	const noAnswer, noBAR = "does not answer", "has a BAR without an address"
	const vfio, noRDMA = "the driver vfio-pci", "has no RDMA device"
	return map[string]breakage{
		"rev ff":          {"lspci", gpu, "$1 (rev ff)", noAnswer},
		"rev ff of a NIC": {"lspci", nic, "$1 (rev ff)", noAnswer},
		"Rev: ff": {
			"lspci -Dvmm", `(Slot:\t0000:13:00\.0\n)`,
			"${1}Rev:\tff\n", noAnswer,
		},
		"header 7f": {"lspci", gpu, "$1\n\t!!! Unknown header type 7f", noAnswer},
		"unassigned, -vv": {
			"lspci", gpu,
			"$1\n\tRegion 0: Memory at <unassigned> (64-bit, prefetchable)", noBAR,
		},
		"ignored, -vv": {
			"lspci", gpu,
			"$1\n\tRegion 2: Memory at <ignored> (64-bit, prefetchable) [disabled]", noBAR,
		},
		"unassigned, -v": {
			"lspci", gpu,
			"$1\n\tMemory at <unassigned> (64-bit, prefetchable)", noBAR,
		},
		"unassigned, virtual": {
			"lspci", nic,
			"$1\n\tRegion 0: [virtual] Memory at <unassigned> (64-bit)", noBAR,
		},
		"a NIC's driver, -k": {
			"lspci -n", nic,
			"$1\n\tKernel driver in use: vfio-pci\n\tKernel modules: mlx5_core", vfio,
		},
		"a NIC's driver": {
			"lspci -vv", `(?s)(\n14:00\.0 .*?driver in use: )mlx5_core`,
			"${1}vfio-pci", vfio,
		},
		"a GPU's driver": {
			"lspci -vv", `(?s)(\n13:00\.0 .*?driver in use: )mlx5_core`,
			"${1}vfio-pci", vfio,
		},
		"a driver, -vmmk": {
			"lspci -Dvmm", `(Slot:\t0000:14:00\.0\n)`,
			"${1}Driver:\tvfio-pci\n", vfio,
		},
		"a driver, virsh": {
			"virsh", `(?s)(14_00_0<.*?)<driver>\s*<name>mlx5_core`,
			"$1<driver><name>vfio-pci", vfio,
		},
		"a driver, sysfs": {
			"hook-sidecar", `(0000:14:00\.0/driver -> .*/)mlx5_core`,
			"${1}vfio-pci", vfio,
		},
		"a BAR, sysfs": {
			"hook-sidecar", `(0000:13:00\.0/resource --\n).*`,
			"${1}0x0000000000000000 0x0000000000ffffff 0x000000002014220c", noBAR,
		},
		"registers are ones": {
			"rdma_topo", `(/0000:13:00\.0",\s*"config": ")[^"]*`,
			"${1}" + gone(t), noAnswer,
		},
		"nouveau": {
			"lspci -vv", `(?s)(\n13:00\.0 .*?driver in use: )mlx5_core`,
			"${1}nouveau", "the driver nouveau",
		},
		"no driver": {
			"lspci -vv", `(?s)(\n13:00\.0 .*?)\tKernel driver in use: mlx5_core\n`,
			"$1", "has no driver",
		},
		"no driver, -vmmk": {
			"lspci -Dvmm", `(?s)\A(.*?)(Slot:\t0000:93:00\.0\n)`,
			"${1}${2}Driver:\tnvidia\n", "has no driver",
		},
		"no driver, virsh": {
			"virsh", `(?s)(13_00_0<.*?)<driver>\s*<name>mlx5_core</name>\s*</driver>`,
			"$1", "has no driver",
		},
		"no driver, sysfs": {
			"hook-sidecar", `(?m)^.*0000:13:00\.0/driver -> .*mlx5_core.*\n`,
			"", "has no driver",
		},
		"nouveau, sysfs": {
			"hook-sidecar", `(0000:13:00\.0/driver -> .*/)mlx5_core`,
			"${1}nouveau", "the driver nouveau",
		},
		"memory is off": {
			"lspci", gpu,
			"$1\n\tMemory at 3820 (64-bit, prefetchable) [disabled] [size=128G]", "has memory that no",
		},
		"no RDMA, rdma_topo": {
			"rdma_topo", `"infiniband": \[\s*"mlx5_0"\s*\]`,
			"", noRDMA,
		},
		"no RDMA, lstopo's XML": {
			"lstopo --of xml", `<object [^>]*name="mlx5_0"[^>]*>\s*</object>`,
			"", noRDMA,
		},
		"no RDMA, lstopo's text": {
			"lstopo", `(?m)^ *OpenFabrics.* "mlx5_0"$`,
			"", noRDMA,
		},
		"no RDMA, lstopo 3's text": {
			"lstopo, 3", `(?m)^ *OSDev\[OpenFabrics,Network\] "mlx5_0"$`,
			"", noRDMA,
		},
		"a GPU is lost, the program": {"", `\A`, "Unable to determine the device handle for GPU0: " +
			"0000:13:00.0: Unknown Error\n", noAnswer},
		"a GPU is lost, an old program": {"", `\A`, "Unable to determine the device handle for GPU " +
			"0000:13:00.0: GPU is lost.  Reboot the system to recover this GPU\n", noAnswer},
		"a GPU is lost, the kernel": {"", `\A`,
			"[ 12.3] NVRM: GPU 0000:13:00.0: GPU has fallen off the bus.\n", noAnswer},
	}
}

// TestBrokenIsNotGood: no text is called good that shows a device that cannot work, whatever the
// program, how it shows that, and what happened to the text on its way.
func TestBrokenIsNotGood(t *testing.T) {
	m := pastes.Parse(t, twoSwitches)
	unseen := breakages(t)
	for i, f := range pastes.Formats {
		if !f.Suits(m) {
			continue
		}

		works := strings.ReplaceAll(f.Print(m), "vfio-pci", "mlx5_core")
		for j, name := range slices.Sorted(maps.Keys(breakages(t))) {
			b := breakages(t)[name]
			broken := regexp.MustCompile(b.match).ReplaceAllString(works, b.with)
			if !strings.HasPrefix(f.Name, b.in) || broken == works ||
				strings.HasPrefix(f.Name, "hook-sidecar") && b.match == `\A` {
				continue
			}

			delete(unseen, name)
			notGood(t, f.Name+", "+name, broken, b.says)
			if b.with != "" {
				cutNotGood(t, f.Name+", "+name, works, broken)
			}

			for k, damage := range slices.Sorted(maps.Keys(pastes.Harmless)) {
				if expect.IsSampled(i+j+k, 17) && !strings.HasPrefix(f.Name, "hook-sidecar") {
					notGood(t, f.Name+", "+name+", "+damage, pastes.Harmless[damage](broken), b.says)
				}
			}
		}
	}

	if len(unseen) > 0 {
		t.Errorf("no format shows %q", slices.Sorted(maps.Keys(unseen)))
	}
}

// notGood checks that a text is not called good, and that the answer says what is wrong.
func notGood(t *testing.T, name, text, says string) {
	t.Helper()
	m, _, err := paste.Read([]byte(text))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}

	v := verdict.New(m, nil)
	said := v.Cost + "\n" + strings.Join(v.Notes, "\n")
	if v.Outcome == verdict.Good || !strings.Contains(said, says) {
		t.Errorf("%s: %s: %q, want %q", name, v.Outcome, said, says)
	}
}

// cutNotGood checks that a text is not called good that is cut after what shows the fault.
func cutNotGood(t *testing.T, name, works, broken string) {
	t.Helper()
	rest := 0 // the length of what both have at their end
	for rest < len(works) && works[len(works)-1-rest] == broken[len(broken)-1-rest] {
		rest++
	}

	for at := len(broken) - rest + 1; at < len(broken); at += 1 + rest/8 {
		m, _, err := paste.Read([]byte(broken[:at]))
		if err == nil && verdict.New(m, nil).Outcome == verdict.Good {
			t.Errorf("%s, cut at %d: good", name, at)
		}
	}
}

// TestBrokenSysfs: so it is of the /sys of the running guest, which has more than a snapshot: what
// RDMA devices and interfaces NICs have, and configuration spaces.
func TestBrokenSysfs(t *testing.T) {
	const gpu = "devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0"
	const nic = "devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:14:00.0"
	other := strings.NewReplacer("10:0", "90:0", "11:", "91:", "12:", "92:", "14:", "94:",
		"pci0000:10", "pci0000:90").Replace(nic)
	host := strings.NewReplacer(" gpu ", " gpu driver=nvidia ", " nic ", " nic driver=mlx5_core ").
		Replace(twoSwitches)
	file := &fstest.MapFile{Data: []byte("1\n")}
	for name, test := range map[string]struct {
		files map[string]*fstest.MapFile
		want  verdict.Outcome
		says  string
	}{
		"all is well": {map[string]*fstest.MapFile{
			nic + "/infiniband/mlx5_0/node_type":   file,
			other + "/infiniband/mlx5_1/node_type": file,
		}, verdict.Good, ""},
		"a GPU does not answer": {map[string]*fstest.MapFile{
			gpu + "/config": {Data: bytes.Repeat([]byte{0xff}, 64)}},
			verdict.Partly, "13:00.0 does not answer"},
		"a NIC without RDMA": {map[string]*fstest.MapFile{nic + "/net/eth0/mtu": file},
			verdict.Partly, "14:00.0 has no RDMA device"},
	} {
		sysfs := expect.Host(t, host).Leaves()
		maps.Copy(sysfs, test.files)
		m, problems := paste.ReadSysfs(sysfs)
		expect.Problems(t, problems, nil)
		v := verdict.New(m, nil)
		said := v.Cost + "\n" + strings.Join(v.Notes, "\n")
		if v.Outcome != test.want || !strings.Contains(said, test.says) {
			t.Errorf("%s: %s: %q, want %s and %q", name, v.Outcome, said, test.want, test.says)
		}
	}
}
