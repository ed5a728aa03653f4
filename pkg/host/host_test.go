package host_test

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

const hostsDir = "../../testdata/hosts"

func open(tb testing.TB, name string) fs.FS {
	tb.Helper()
	fsys, err := host.OpenSysfs(name)
	expect.NoError(tb, err)
	return fsys
}

// readHost reads devices and the functions that belong to them.
func readHost(fsys fs.FS, ids []topology.DeviceID) (*topology.Host, []reasons.Finding) {
	return host.Read(fsys, ids, host.Related)
}

// readAll reads all devices with their details.
func readAll(fsys fs.FS) (*topology.Host, []reasons.Finding) {
	return host.Read(fsys, nil, host.All|host.Details)
}

// read reads devices from a snapshot of testdata, without problems.
func read(t *testing.T, name string, ids []topology.DeviceID) *topology.Host {
	t.Helper()
	host, problems := readHost(open(t, filepath.Join(hostsDir, name+".txtar")), ids)
	expect.Problems(t, problems, nil)
	return host
}

var compare = cmp.Options{
	cmp.Comparer(func(a, b topology.Affinity) bool { return a == b }),
}

func wantNodes(t *testing.T, host *topology.Host, cpus ...string) {
	t.Helper()
	var got []string
	for i, node := range host.Nodes {
		if int(node.ID) != i {
			t.Errorf("node %d is at index %d", node.ID, i)
		}
		got = append(got, node.CPUs.String())
	}

	expect.Same(t, cpus, got, "CPUs of the nodes (-want +got)")
}

func wantPathType(t *testing.T, host *topology.Host, a, b string, want topology.PathType) {
	t.Helper()
	x, y := topology.PCIDevice(device(t, host, a).Address), topology.PCIDevice(device(t, host,
		b).Address)
	if got := host.Tree([]topology.DeviceID{x, y}).PathType(x, y); got != want {
		t.Errorf("%s to %s is %s, want %s", a, b, got, want)
	}
}

func device(t *testing.T, host *topology.Host, a string) *topology.Function {
	t.Helper()
	d := host.FunctionAt(address(t, a))
	if d == nil {
		t.Fatalf("%s was not read", a)
	}

	return d
}

func pci(t *testing.T, a string) topology.DeviceID { return topology.PCIDevice(address(t, a)) }

func address(t *testing.T, text string) topology.Address {
	t.Helper()
	a, err := topology.ParseAddress(text)
	expect.NoError(t, err)
	return a
}
