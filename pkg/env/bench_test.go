package env_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/topology"
)

func BenchmarkParseVMI(b *testing.B) {
	for _, n := range []int{0, 3 << 20} {
		data := largeVMI(b, n)
		b.Run(fmt.Sprintf("%d-bytes-of-user-data", n), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := env.ParseVMI(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReadHost reads 8 GPUs and 8 NICs from memory and from a directory: all of
// them, and what decides their places.
func BenchmarkReadHost(b *testing.B) {
	snapshot := open(b, filepath.Join(hostsDir, "x86-2n8g-hgx-h100.txtar"))
	dir := b.TempDir()
	if err := os.CopyFS(dir, snapshot); err != nil {
		b.Fatal(err)
	}
	whole, _ := env.ReadWholeHost(snapshot)
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
		readPlaces := func(fsys fs.FS, ids []topology.DeviceID) (*topology.Host, []env.Problem) {
			return env.ReadPlaces(fsys, ids, env.Needs{Classes: true, Groups: true})
		}
		for what, read := range map[string]func(fs.FS, []topology.DeviceID) (*topology.Host, []env.Problem){
			"places": readPlaces, "all": env.ReadHost,
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
