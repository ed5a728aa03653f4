package host_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// BenchmarkReadHost reads 8 GPUs and 8 NICs from memory and from a directory: all of
// them, and what decides their places.
func BenchmarkReadHost(b *testing.B) {
	snapshot := open(b, filepath.Join(hostsDir, "x86-2n8g-hgx-h100.txtar"))
	dir := b.TempDir()
	if err := os.CopyFS(dir, snapshot); err != nil {
		b.Fatal(err)
	}
	whole, _ := host.ReadWholeHost(snapshot)
	var ids []topology.DeviceID
	for i := range whole.Devices {
		if d := &whole.Devices[i]; d.Driver == "vfio-pci" && d.Class != 0x068000 {
			ids = append(ids, topology.PCIDevice(d.Address))
		}
	}
	if len(ids) != 16 {
		b.Fatalf("%d devices", len(ids))
	}
	for name, fsys := range map[string]fs.FS{"snapshot": snapshot, "directory": open(b, dir)} {
		readPlaces := func(fsys fs.FS, ids []topology.DeviceID) (*topology.Host, []reasons.Problem) {
			return host.ReadPlaces(fsys, ids, host.Needs{Classes: true, Groups: true})
		}
		for what, read := range map[string]func(fs.FS, []topology.DeviceID) (*topology.Host, []reasons.Problem){
			"places": readPlaces, "all": host.ReadHost,
		} {
			b.Run(what+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, problems := read(fsys, ids); len(problems) > 0 {
						b.Fatal(problems)
					}
				}
			})
		}
	}
}
