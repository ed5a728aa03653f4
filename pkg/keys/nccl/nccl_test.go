package nccl_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/keys/nccl"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/tree"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const testdata = "../../../testdata"

// readHost returns the sysfs of a machine of testdata/hosts.
func readHost(t *testing.T, name string) fs.FS {
	t.Helper()
	data := expect.File(t, filepath.Join(testdata, "hosts", name+".txtar"))
	host, err := host.ParseSnapshot(data)
	expect.NoError(t, err)
	return host
}

// wholeHost returns a domain with all devices of a host, and a cell for each node.
func wholeHost(t *testing.T, host fs.FS) []byte {
	t.Helper()
	sysfs := matrix.Sysfs{FS: host}
	devices, err := sysfs.Endpoints()
	expect.NoError(t, err)
	nodes, err := sysfs.Nodes()
	expect.NoError(t, err)
	var numa matrix.GuestNUMA
	for _, node := range nodes {
		numa = append(numa, []int{node})
	}

	return matrix.Domain(numa, devices)
}

// TestGrace: a cell that is a GPU's memory is no CPU.
func TestGrace(t *testing.T) {
	c := cases.Named(t, "../../..", "grace-gb200")
	text := nccl.New(c.Planner.Read(c.Request).Plan().Plan).String()
	if cpus := strings.Count(text, "<cpu "); cpus != 2 || strings.Count(text, "<pci ") != 3 {
		t.Errorf("%d CPUs, want the 2 cells with CPUs and 3 devices:\n%s", cpus, text)
	}
}

func planOf(t *testing.T, host fs.FS, domain []byte, layout policy.Layout) *placement.Plan {
	t.Helper()
	m := plan.Planner{
		Sysfs:   host,
		Details: true,
		Source:  policy.Source{Flags: map[policy.Key]string{policy.KeyLayout: string(layout)}},
	}

	result := m.Read(plan.Request{Domain: domain}).Plan()
	if result.Err != nil {
		t.Fatal(result.Err)
	}

	return result.Plan
}

// TestGolden has two machines, reviewed by reading each file against the links
// under bus/pci/devices of its host and against the predicted addresses of
// explain:
//
//	hgx numa     each pair under a switch that the guest does not have (ffff:…)
//	hgx mirror   the same tree with the guest's own switches
//	three-roots  no switches: NICs and GPUs directly under their CPU
func TestGolden(t *testing.T) {
	hgx := expect.File(t, filepath.Join(testdata, "samples", "02-8gpu-8nic-gate-off.xml"))
	for _, tc := range []struct {
		host   string
		domain []byte
		layout policy.Layout
	}{
		{"x86-2n8g-hgx-h100", hgx, policy.LayoutNUMA},
		{"x86-2n8g-hgx-h100", hgx, policy.LayoutMirror},
		{"x86-2n4g-three-roots", wholeHost(t, readHost(t, "x86-2n4g-three-roots")),
			policy.LayoutRoot},
	} {
		got := nccl.New(planOf(t, readHost(t, tc.host), tc.domain, tc.layout)).String()
		golden := filepath.Join("testdata", fmt.Sprintf("%s-%s.xml", tc.host, tc.layout))
		expect.Golden(t, *update, golden, []byte(got))
	}
}

// TestDistances reads the file of every host and layout, and of random hosts, by
// NCCL's rules, and compares the distances that NCCL gets from it with the host's
// path types.
func TestDistances(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "hosts", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no hosts: %v", err)
	}

	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		host := readHost(t, name)
		for _, layout := range []policy.Layout{
			policy.LayoutNUMA, policy.LayoutRoot, policy.LayoutMirror,
		} {
			t.Run(fmt.Sprintf("%s-%s", name, layout), func(t *testing.T) {
				checkDistances(t, host, planOf(t, host, wholeHost(t, host), layout))
			})
		}
	}

	for _, seed := range expect.Seeds(10, 60) {
		h := matrix.NewRandomHost(2000 + seed)
		host := expect.Host(t, h.Text)
		for _, layout := range []policy.Layout{
			policy.LayoutNUMA, policy.LayoutRoot, policy.LayoutMirror,
		} {
			t.Run(fmt.Sprintf("seed-%d-%s", 2000+seed, layout), func(t *testing.T) {
				checkDistances(t, host, planOf(t, host, matrix.Domain(h.NUMA, h.Devices), layout))
			})
		}
	}
}

func checkDistances(t *testing.T, host fs.FS, plan *placement.Plan) {
	file := nccl.New(plan)
	system, err := read(file.String())
	if err != nil {
		t.Fatalf("NCCL cannot read it: %v\n%s", err, file)
	}

	seen := map[string]*node{}
	spots := map[string]tree.Spot{}
	for _, d := range plan.Devices {
		id := d.ID.String()
		inFile := d.Predicted != nil && d.Function != nil &&
			(d.Function.Class>>16 == 2 || d.Function.Class>>16 == 3)
		if !inFile {
			continue
		}

		node, count := system.find(d.Predicted.String())
		if count != 1 {
			t.Fatalf("%s is in the file %d times\n%s", id, count, file)
		}

		spot, _, err := matrix.Sysfs{FS: host}.Spot(id)
		expect.NoError(t, err)
		seen[id], spots[id] = node, spot
	}

	ids := slices.Sorted(maps.Keys(seen))
	for i, a := range ids {
		for _, b := range ids[:i] {
			got, want := distance(seen[a], seen[b]), wantedDistance(spots[a], spots[b])
			if want == "" {
				want = map[bool]string{true: "PHB", false: "SYS"}[cpuOf(seen[a]) == cpuOf(seen[b])]
			}

			if got != want {
				t.Errorf("%s and %s: NCCL sees %s, want %s\n%s", a, b, got, want, file)
			}
		}
	}
}

// wantedDistance returns the distance that NCCL would see on the host, "" where only the CPUs
// decide. Devices under one root port and no switch meet at the CPU.
func wantedDistance(a, b tree.Spot) string {
	switch class := tree.PathType(a, b); {
	case class == "PXB":
		return "PXB"
	case class == "PIX" && len(a.Bridges) > 1:
		return "PIX"
	}

	return ""
}

func cpuOf(n *node) string {
	above := n.above()
	return above[len(above)-2].attrs["numaid"]
}

// TestNoCells: in a guest without NUMA cells the one CPU has the node that the kernel writes, -1.
func TestNoCells(t *testing.T) {
	host := readHost(t, "x86-2n8g-hgx-h100")
	devices, err := matrix.Sysfs{FS: host}.Endpoints()
	expect.NoError(t, err)
	file := nccl.New(planOf(t, host, matrix.Domain(nil, devices), policy.LayoutMirror)).String()
	if strings.Count(file, "<cpu ") != 1 || !strings.Contains(file, `<cpu numaid="-1"`) {
		t.Errorf("want one CPU of node -1:\n%s", file)
	}
}

// TestLeavesOut: a GPU whose guest address is not known yet is left out and named;
// NCCL looks for it in sysfs.
func TestLeavesOut(t *testing.T) {
	host := expect.Host(t,
		"cpus 0 0-3\npci0000:00/0000:00:01.0/0000:01:00.0 node=0\n"+
			"pci0000:00/0000:00:02.0/0000:02:00.0 node=0 class=0x010802\n")
	domain := matrix.Domain(matrix.GuestNUMA{{0}}, []string{"0000:01:00.0", "0000:02:00.0"})
	file := nccl.New(planOf(t, host, domain, policy.LayoutKeep))
	if !file.IsEmpty() || strings.Contains(file.String(), "<pci") {
		t.Errorf("it is not empty:\n%s", file)
	}

	if len(file.Warnings) != 1 || file.Warnings[0].Code != reasons.CodeNCCLIncomplete ||
		file.Warnings[0].Device.String() != "0000:01:00.0" {
		t.Errorf("warnings %v, want one for the GPU and none for the NVMe", file.Warnings)
	}
}

// TestAccelerators: an accelerator, such as AMD's MI300X, is in the file as a GPU is,
// under the switch that it shares with a NIC. RCCL takes the class 0x120000 alone;
// another one of that base class is a switch to it.
func TestAccelerators(t *testing.T) {
	host := expect.Host(t, `cpus 0 0-3
pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0 node=0 class=0x120000 vendor=0x1002 device=0x74a1
pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0 node=0 class=0x020000 vendor=0x15b3 device=0x1021
pci0000:16/0000:16:02.0/0000:1b:00.0 node=0 class=0x120100
`)

	plan := planOf(t, host,
		matrix.Domain(matrix.GuestNUMA{
			{0},
		}, []string{"0000:19:00.0", "0000:1a:00.0", "0000:1b:00.0"}), policy.LayoutNUMA)

	system, err := read(nccl.New(plan).String())
	expect.NoError(t, err)
	gpu, count := system.find(plan.Devices[0].Predicted.String())
	nic, _ := system.find(plan.Devices[1].Predicted.String())
	if count != 1 || gpu.attrs["class"] != "0x120000" || distance(gpu, nic) != "PIX" {
		t.Errorf("the accelerator is in the file %d times, as %v\n%s", count, gpu, nccl.New(plan))
	}

	if _, count := system.find(plan.Devices[2].Predicted.String()); count != 0 {
		t.Errorf("a device of class 0x120100 is in the file\n%s", nccl.New(plan))
	}
}

// TestVersion: a guest whose GPUs are AMD's gets RCCL's version, any other one NCCL's.
func TestVersion(t *testing.T) {
	const amd, nvidia = "class=0x120000 vendor=0x1002", "class=0x030200 vendor=0x10de"
	for _, c := range []struct{ first, second, want string }{
		{amd, amd, "2"},
		{nvidia, nvidia, "1"},
		{amd, nvidia, "1"},
		{"class=0x020000 vendor=0x1002", "class=0x020000", "1"}, // NICs alone
	} {
		host := expect.Host(t, "cpus 0 0-3\npci0000:00/0000:00:01.0/0000:01:00.0 node=0 "+c.first+
			"\npci0000:00/0000:00:02.0/0000:02:00.0 node=0 "+c.second+"\n")
		domain := matrix.Domain(matrix.GuestNUMA{{0}}, []string{"0000:01:00.0", "0000:02:00.0"})
		system, err := read(nccl.New(planOf(t, host, domain, policy.LayoutNUMA)).String())
		expect.NoError(t, err)
		if got := system.attrs["version"]; got != c.want {
			t.Errorf("%s beside %s: version %s, want %s", c.first, c.second, got, c.want)
		}
	}
}

// TestLinks: the slower of a function and the port above it counts, a virtual
// function has its physical function's link, and what is not known is left to
// NCCL.
func TestLinks(t *testing.T) {
	host := expect.Host(t, `cpus 0 0-3
pci0000:00/0000:00:01.0/0000:01:00.0 node=0
pci0000:00/0000:00:02.0/0000:02:00.0 node=0
pci0000:00/0000:00:02.0/0000:02:00.1 node=0 physfn=0000:02:00.0
pci0000:00/0000:00:03.0/0000:03:00.0 node=0
`)

	links := map[string]topology.Link{
		"0000:00:01.0": {Speed: 16, Width: 16}, "0000:01:00.0": {Speed: 32, Width: 8},
		"0000:02:00.0": {Speed: 8, Width: 4}, // the port above has no file for it
	}

	plan := planOf(t, host,
		matrix.Domain(matrix.GuestNUMA{
			{0},
		}, []string{"0000:01:00.0", "0000:02:00.1", "0000:03:00.0"}), policy.LayoutNUMA)

	for i := range plan.Host.Functions {
		if link, known := links[plan.Host.Functions[i].Address.String()]; known {
			plan.Host.Functions[i].MaxLink = &link
		}
	}

	system, err := read(nccl.New(plan).String())
	expect.NoError(t, err)

	for i, want := range []string{"16.0 GT/s PCIe x8", "8.0 GT/s PCIe x4", " x"} {
		n, _ := system.find(plan.Devices[i].Predicted.String())
		if got := n.attrs["link_speed"] + " x" + n.attrs["link_width"]; got != want {
			t.Errorf("%s: %q, want %q", plan.Devices[i].ID, got, want)
		}
	}
}
