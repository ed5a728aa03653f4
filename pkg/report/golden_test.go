package report_test

import (
	"encoding/json"
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"hook-sidecar/pkg/report"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/machines"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with a file of testdata, or rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	expect.Golden(t, *update, filepath.Join("testdata", name), []byte(got))
}

// Each machine with all its devices, in the layout that merges most and in the
// one that keeps the host's path types. Reviewed by reading each tree against the
// links under bus/pci/devices of its host:
//
//	rtx-audio    functions of one card stay together; one node, so no SYS
//	t4-vgpu      mediated devices are under the card that they are parts of
//	three-roots  numa makes NODE of three roots into PHB, mirror keeps it
//	hgx          numa makes PIX of each pair into PHB, mirror keeps all
func TestText(t *testing.T) {
	for _, host := range machines.Names(t) {
		for _, layout := range []string{"numa", "mirror"} {
			t.Run(host+"-"+layout, func(t *testing.T) {
				golden(t, host+"-"+layout+".txt",
					text(t, machines.Whole(t, host, layout), report.Style{}))
			})
		}
	}
}

// TestTextGrace: the cells that are a GPU's memory are in the guest's tree under the GPU, and
// neither a path type nor a NUMA column takes them for those of a socket.
func TestTextGrace(t *testing.T) {
	c := cases.Named(t, "../..", "grace-gb200")
	r := report.New(c.Planner.Read(c.Request).Plan().Plan, true, nil)
	golden(t, "grace-gb200.txt", text(t, r, report.Style{}))
	data, err := json.Marshal(r.Devices)
	expect.NoError(t, err)

	for _, cells := range []string{"2-9", "10-17"} {
		if count := strings.Count(string(data), `"memoryCells":"`+cells+`"`); count != 1 {
			t.Errorf("%d devices have the cells %s, want 1: %s", count, cells, data)
		}
	}

	if count := strings.Count(string(data), "memoryCells"); count != 2 {
		t.Errorf("%d devices have cells, want the 2 GPUs: %s", count, data)
	}
}

// What the machines of testdata lack: a switch under a switch, a device directly
// on the root complex, a PCI domain of five digits (then every address is
// written in full), a device without NUMA node, one that mirror places all the
// same and numa does not.
const cascade = `cpus 0 0-3
cpus 1 4-7
pci0000:00/0000:00:05.0 node=0 driver=vfio-pci class=0x020000
pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0/0000:14:00.0/0000:15:00.0 node=0 driver=vfio-pci class=0x030200
pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0/0000:14:01.0/0000:16:00.0 node=0 driver=vfio-pci class=0x030200
pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:17:00.0 node=0 driver=vfio-pci class=0x020000
pci0000:80/0000:80:01.0/0000:81:00.0 node=1 driver=vfio-pci class=0x030200
pci10000:00/10000:00:01.0/10000:01:00.0 node=-1 driver=vfio-pci class=0x010802
`

func TestTextCascade(t *testing.T) {
	for _, layout := range []string{"numa", "mirror"} {
		sysfs := expect.Host(t, cascade)
		golden(t, "cascade-"+layout+".txt",
			text(t, machines.Report(t, sysfs, machines.Domain(t, sysfs), layout), report.Style{}))
	}
}
