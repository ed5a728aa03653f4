package host_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// runScript runs the script of a snapshot in a shell, over a directory with the tree
// and what its links lead to, which a snapshot lacks.
func runScript(t *testing.T, shell string, dir string, ids []topology.DeviceID) fs.FS {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil {
		t.Skip(err)
	}

	cmd := exec.Command(shell, "-s")
	cmd.Stdin, cmd.Stderr = strings.NewReader(host.Script(dir, ids)), os.Stderr
	data, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", shell, err)
	}

	return parse(t, string(data))
}

// makeTargets makes the directories that the links of a copied file system lead to.
func makeTargets(t *testing.T, fsys fs.FS, dir string) {
	t.Helper()
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}

		target, err := fs.ReadLink(fsys, name)
		if err != nil {
			return err
		}

		return os.MkdirAll(filepath.Join(dir, filepath.Dir(name), target), 0o755)
	})

	expect.NoError(t, err)
}

// odd has what the hosts of testdata lack: a virtual function, a mediated device that
// is the only one asked for, VMD's second root, conventional PCI, vGPUs of both kinds,
// a file that nobody can read, registers and IOMMUs.
const odd = `
cpus 0 0-3
packages 1
iommu dmar0 intel-iommu/ecap=f020df
iommu ivhd0 amd-iommu/cap=190b640f
pci0000:00/0000:00:01.0 class=0x060400 acs=default,dt atomics=routing,32,64,blocked
pci0000:00/0000:00:1c.0 class=0x060400 acs=none
pci0000:00/0000:00:01.0/0000:01:00.0 ats=on node=0 group=7 driver=vfio-pci mdevtype=nvidia-222:GRID_T4-1Q:3:16 reset=
pci0000:00/0000:00:01.0/0000:01:00.0/4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01 type=nvidia-222 group=9
pci0000:00/0000:00:1c.0/0000:02:00.0 node=0 group=8
pci0000:00/0000:00:1c.0/0000:02:00.4 node=0 group=8 physfn=0000:02:00.0 vgpu=1428 creatable=1428:NVIDIA_H200X-141C
pci0000:00/0000:00:05.5/pci10000:00/10000:00:02.0/10000:01:00.0 group=10 io
pci0000:00/0000:00:1e.0/0000:03:01.0 conventional
virtual/mtty/mtty/83b8f4f2-509f-382f-3c1e-e6bfe0fa1001 type=mtty-1
`

// scriptHosts returns hosts as a shell sees them: without the file of snapshots alone.
func scriptHosts(t *testing.T) map[string]fs.FS {
	t.Helper()
	hosts := map[string]fs.FS{}
	for _, file := range snapshotFiles(t) {
		data, err := os.ReadFile(file)
		expect.NoError(t, err)
		hosts[filepath.Base(file)] = parse(t, withoutCapabilities(string(data)))
	}

	fsys := expect.Host(t, odd)
	hosts["odd"] = fsys
	return hosts
}

// Of a directory the program takes the same snapshot as of the file system that it is a copy of,
// and the script prints the same. Every third host is tried, in one shell, and with WHOLE=1 each in
// both.
func TestSnapshotOfDirectory(t *testing.T) {
	all := scriptHosts(t)
	for n, name := range slices.Sorted(maps.Keys(all)) {
		if !expect.IsSampled(n, 3) {
			continue
		}

		fsys := all[name]
		dir := filepath.Join(expect.MemoryDir(t), "it's a host")
		expect.NoError(t, os.CopyFS(dir, fsys))
		want := string(take(t, fsys, ""))
		expect.Same(t, want, string(take(t, open(t, dir), "")), "%s (-host +directory)", name)

		makeTargets(t, fsys, dir)
		for _, shell := range expect.Sampled(n, []string{"sh", "bash"}) {
			t.Run(name+"/"+shell, func(t *testing.T) {
				expect.Same(t, want, string(take(t, runScript(t, shell, dir, nil), "")),
					"(-program +script)")
			})
		}

		t.Run(name+"/devices", func(t *testing.T) { checkScriptOfDevices(t, fsys, dir) })
	}
}

// Files of a real sysfs are not like others: some cannot be read byte by byte.
func TestScriptOnThisMachine(t *testing.T) {
	const sysfs = "/sys"
	if _, err := os.Stat(filepath.Join(sysfs, "bus/pci/devices")); err != nil {
		t.Skip(err)
	}

	for _, shell := range []string{"sh", "bash"} {
		expect.Same(t, string(take(t, open(t, sysfs), "")),
			string(take(t, runScript(t, shell, sysfs, nil), "")), "%s (-program +script)", shell)
	}
}

func withoutCapabilities(snapshot string) string {
	return regexp.MustCompile(
		`-- \S+/extended_capabilities --\n(acs .*\n)?(ats\n)?`).ReplaceAllString(snapshot, "")
}

// checkScriptOfDevices compares what the script prints of some devices with what Read reads of
// them and of the functions that belong to them: it prints no more functions than that.
func checkScriptOfDevices(t *testing.T, fsys fs.FS, dir string) {
	t.Helper()
	whole, _ := host.Read(fsys, nil, host.All)
	var all []topology.DeviceID
	for i := range whole.Functions {
		all = append(all, topology.PCIDevice(whole.Functions[i].Address))
	}

	for _, m := range whole.MDEVs {
		all = append(all, topology.MediatedDevice(m.UUID))
	}

	sets := [][]topology.DeviceID{all, {topology.PCIDevice(topology.Address{Bus: 0xfe})}}
	for _, id := range all {
		if f := whole.Function(id); f == nil || len(f.Bridges) > 0 {
			sets = append(sets, []topology.DeviceID{id})
		}
	}

	for _, ids := range sets[:min(len(sets), 8)] {
		needs := host.Related | host.Details
		want, problems := host.Read(fsys, ids, needs)
		printed := runScript(t, "sh", dir, ids)
		got, gotProblems := host.Read(printed, ids, needs)
		if d := cmp.Diff(want, got, compare, emptyIsNil); d != "" {
			t.Errorf("%v (-whole +script):\n%s", ids, d)
		}

		expect.Same(t, fmt.Sprint(problems), fmt.Sprint(gotProblems),
			"%v: problems (-whole +script)", ids)

		// and VMD's own function
		shown, _ := host.Read(printed, nil, host.All)
		if len(shown.Functions) > len(want.Functions)+1 {
			t.Errorf("%v: %d functions, want %d", ids, len(shown.Functions), len(want.Functions))
		}
	}
}
