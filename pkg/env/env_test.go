package env_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/topology"
)

const hostsDir = "../../testdata/hosts"

func open(tb testing.TB, name string) fs.FS {
	tb.Helper()
	fsys, closer, err := env.OpenSysfs(name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := closer.Close(); err != nil {
			tb.Error(err)
		}
	})
	return fsys
}

// read reads devices from a snapshot of testdata, without problems.
func read(t *testing.T, name string, ids []topology.DeviceID) *topology.Host {
	t.Helper()
	host, problems := env.ReadHost(open(t, filepath.Join(hostsDir, name+".txtar")), ids)
	wantProblems(t, problems, nil)
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
	if diff := cmp.Diff(cpus, got); diff != "" {
		t.Errorf("CPUs of the nodes (-want +got):\n%s", diff)
	}
}

func wantPathType(t *testing.T, host *topology.Host, a, b string, want topology.PathType) {
	t.Helper()
	x, y := topology.PCIDevice(device(t, host, a).Address), topology.PCIDevice(device(t, host, b).Address)
	if got := host.Tree([]topology.DeviceID{x, y}).PathType(x, y); got != want {
		t.Errorf("%s to %s is %s, want %s", a, b, got, want)
	}
}

func device(t *testing.T, host *topology.Host, a string) *topology.Device {
	t.Helper()
	d := host.Device(address(t, a))
	if d == nil {
		t.Fatalf("%s was not read", a)
	}
	return d
}

func pci(t *testing.T, a string) topology.DeviceID { return topology.PCIDevice(address(t, a)) }

func address(t *testing.T, text string) topology.Address {
	t.Helper()
	a, err := topology.ParseAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func lines(variables []env.Variable) []string {
	var out []string
	for _, v := range variables {
		line := string(v.Kind) + " " + v.Suffix
		for _, id := range v.IDs {
			line += " " + id.String()
		}
		out = append(out, line)
	}
	return out
}

// wantProblems checks that got has each problem of want, "CODE SOURCE: part of the
// text", and no other.
func wantProblems(t *testing.T, got []env.Problem, want []string) {
	t.Helper()
	expected := make([]bool, len(got))
	for _, w := range want {
		head, part, _ := strings.Cut(w, ": ")
		found := false
		for i, p := range got {
			if string(p.Code)+" "+p.Source == head && strings.Contains(p.Text, part) {
				found, expected[i] = true, true
			}
		}
		if !found {
			t.Errorf("no problem %q in %q", w, got)
		}
	}
	for i, p := range got {
		if !expected[i] {
			t.Errorf("unexpected problem %+v", p)
		}
	}
}
