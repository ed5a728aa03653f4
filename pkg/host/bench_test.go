package host_test

import (
	"io/fs"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// BenchmarkReadHost reads 8 GPUs and 8 NICs from memory and from a directory: all of
// them, and what decides their places.
func BenchmarkReadHost(b *testing.B) {
	snapshot := open(b, filepath.Join(hostsDir, "x86-2n8g-hgx-h100.txtar"))
	dir := expect.HostDir(b, snapshot)
	whole, _ := host.Read(snapshot, nil, host.All)
	var ids []topology.DeviceID
	for i := range whole.Functions {
		if d := &whole.Functions[i]; d.Driver == "vfio-pci" && d.Class != 0x068000 {
			ids = append(ids, topology.PCIDevice(d.Address))
		}
	}

	if len(ids) != 16 {
		b.Fatalf("%d devices", len(ids))
	}

	for name, fsys := range map[string]fs.FS{"snapshot": snapshot, "directory": open(b, dir)} {
		for what, needs := range map[string]host.Needs{
			"places": host.Classes | host.Groups, "related": host.Related,
		} {
			b.Run(what+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, problems := host.Read(fsys, ids, needs); len(problems) > 0 {
						b.Fatal(problems)
					}
				}
			})
		}
	}
}
