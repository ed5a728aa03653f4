package report_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/mutate"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/hostfs"
	"hook-sidecar/test/matrix"
)

func ncclPlan(t *testing.T, host fs.FS, domain []byte, layout policy.Layout) *placement.Plan {
	t.Helper()
	m := mutate.Mutator{Sysfs: host, Details: true, Flags: map[policy.Key]string{policy.KeyLayout: string(layout)}}
	result := m.Mutate(mutate.Request{Domain: domain})
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	return result.Plan
}

// Two machines, reviewed by reading each file against the links below
// bus/pci/devices of its host and against the predicted addresses of explain:
//
//	hgx numa     each pair below a switch that the guest does not have (ffff:…)
//	hgx mirror   the same tree with the guest's own switches
//	three-roots  no switches: NICs and GPUs straight below their CPU
func TestNCCLGolden(t *testing.T) {
	hgx, err := os.ReadFile("../../testdata/samples/02-8gpu-8nic-gate-off.xml")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/nccl.md")
	if err != nil {
		t.Fatal(err)
	}
	roots := readHost(t, "x86-2n4g-three-roots")
	for _, tc := range []struct {
		host   string
		domain []byte
		layout policy.Layout
	}{
		{"x86-2n8g-hgx-h100", hgx, policy.LayoutNUMA},
		{"x86-2n8g-hgx-h100", hgx, policy.LayoutMirror},
		{"x86-2n4g-three-roots", wholeHost(t, roots), policy.LayoutRoot},
	} {
		t.Run(fmt.Sprintf("%s-%s", tc.host, tc.layout), func(t *testing.T) {
			host, err := env.ParseSnapshot(readHost(t, tc.host))
			if err != nil {
				t.Fatal(err)
			}
			nccl := report.NewNCCL(ncclPlan(t, host, tc.domain, tc.layout))
			golden(t, fmt.Sprintf("nccl-%s-%s.xml", tc.host, tc.layout), []byte(nccl.String()))
			if tc.layout == policy.LayoutNUMA { // docs/nccl.md shows how it begins
				start := strings.Join(strings.SplitAfter(nccl.String(), "\n")[:6], "")
				if !strings.Contains(string(docs), "```xml\n"+start+"```") {
					t.Errorf("docs/nccl.md does not show\n%s", start)
				}
			}
		})
	}
}

// TestNCCLDistances reads the file of every host and layout, and of random
// hosts, by NCCL's rules, and holds the distances that NCCL gets from it against
// the path types of the host.
func TestNCCLDistances(t *testing.T) {
	for _, name := range hostNames(t) {
		host, err := env.ParseSnapshot(readHost(t, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, layout := range []policy.Layout{policy.LayoutNUMA, policy.LayoutRoot, policy.LayoutMirror} {
			t.Run(fmt.Sprintf("%s-%s", name, layout), func(t *testing.T) {
				checkNCCL(t, host, ncclPlan(t, host, wholeHost(t, readHost(t, name)), layout))
			})
		}
	}
	for seed := range uint64(60) {
		h := matrix.NewRandomHost(2000 + seed)
		host, err := hostfs.Parse(h.Text)
		if err != nil {
			t.Fatal(err)
		}
		for _, layout := range []policy.Layout{policy.LayoutNUMA, policy.LayoutRoot, policy.LayoutMirror} {
			t.Run(fmt.Sprintf("seed-%d-%s", 2000+seed, layout), func(t *testing.T) {
				checkNCCL(t, host, ncclPlan(t, host, matrix.Domain(h.NUMA, h.Devices), layout))
			})
		}
	}
}

func checkNCCL(t *testing.T, host fs.FS, plan *placement.Plan) {
	file := report.NewNCCL(plan)
	system, err := readNCCL(file.String())
	if err != nil {
		t.Fatalf("NCCL cannot read it: %v\n%s", err, file)
	}
	seen := map[string]*ncclNode{}
	spots := map[string]matrix.Spot{}
	for _, d := range plan.Devices {
		id := d.ID.String()
		inFile := d.Predicted != nil && d.Function != nil && (d.Function.Class>>16 == 2 || d.Function.Class>>16 == 3)
		if !inFile {
			continue
		}
		node, count := system.find(d.Predicted.String())
		if count != 1 {
			t.Fatalf("%s is in the file %d times\n%s", id, count, file)
		}
		spot, _, err := matrix.Sysfs{FS: host}.Spot(id)
		if err != nil {
			t.Fatal(err)
		}
		seen[id], spots[id] = node, spot
	}
	ids := slices.Sorted(maps.Keys(seen))
	for i, a := range ids {
		for _, b := range ids[:i] {
			got, want := ncclDistance(seen[a], seen[b]), ncclWants(spots[a], spots[b])
			if want == "" {
				want = map[bool]string{true: "PHB", false: "SYS"}[cpuOf(seen[a]) == cpuOf(seen[b])]
			}
			if got != want {
				t.Errorf("%s and %s: NCCL sees %s, want %s\n%s", a, b, got, want, file)
			}
		}
	}
}

// ncclWants is the distance that NCCL would see on the host, "" where only the
// CPUs decide. Devices below one root port and no switch meet at the CPU.
func ncclWants(a, b matrix.Spot) string {
	switch class := matrix.Class(a, b); {
	case class == "PXB":
		return "PXB"
	case class == "PIX" && len(a.Bridges) > 1:
		return "PIX"
	}
	return ""
}

func cpuOf(n *ncclNode) string {
	above := n.above()
	return above[len(above)-2].attrs["numaid"]
}

// TestNCCLNodes: the CPU above a device is the guest cell of the expander bus
// that it stands below.
func TestNCCLNodes(t *testing.T) {
	snapshot := readHost(t, "x86-2n8g-hgx-h100")
	host, err := env.ParseSnapshot(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	plan := ncclPlan(t, host, wholeHost(t, snapshot), policy.LayoutNUMA)
	system, err := readNCCL(report.NewNCCL(plan).String())
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, d := range plan.Devices {
		if n, count := system.find(d.Predicted.String()); count == 1 && d.Cell != nil {
			checked++
			if cpu := cpuOf(n); cpu != fmt.Sprint(int(*d.Cell)) {
				t.Errorf("%s is in cell %d, and below CPU %s", d.ID, *d.Cell, cpu)
			}
		}
	}
	if checked < 16 {
		t.Errorf("%d devices checked, the machine has 8 GPUs and 8 NICs", checked)
	}
}

// TestNCCLSwitchAddress: with mirror the switches have the addresses that the
// guest shows, so that NCCL takes a device that is not in the file, and that it
// finds below one of them, for what it is.
func TestNCCLSwitchAddress(t *testing.T) {
	snapshot := readHost(t, "x86-2n8g-hgx-h100")
	host, err := env.ParseSnapshot(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	plan := ncclPlan(t, host, wholeHost(t, snapshot), policy.LayoutMirror)
	system, err := readNCCL(report.NewNCCL(plan).String())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range plan.Devices {
		n, count := system.find(d.Predicted.String())
		if count == 0 || len(d.GuestPath) < 4 {
			continue // an NVSwitch, which NCCL does not look for here
		}
		upstream := d.GuestPath[2] // behind the expander bus and the root port
		for _, c := range plan.Controllers {
			if c.Index == upstream && n.parent.attrs["busid"] != c.Predicted.String() {
				t.Errorf("%s is below %s, its switch in the guest is at %s", d.ID, n.parent.attrs["busid"], c.Predicted)
			}
		}
	}
}

// TestNCCLLeavesOut: a GPU whose guest address nobody can know yet is left out
// and named; NCCL looks for it in sysfs.
func TestNCCLLeavesOut(t *testing.T) {
	host, err := hostfs.Parse("cpus 0 0-3\npci0000:00/0000:00:01.0/0000:01:00.0 node=0\npci0000:00/0000:00:02.0/0000:02:00.0 node=0 class=0x010802\n")
	if err != nil {
		t.Fatal(err)
	}
	domain := matrix.Domain(matrix.GuestNUMA{{0}}, []string{"0000:01:00.0", "0000:02:00.0"})
	nccl := report.NewNCCL(ncclPlan(t, host, domain, policy.LayoutKeep))
	if !nccl.IsEmpty() || strings.Contains(nccl.String(), "<pci") {
		t.Errorf("it is not empty:\n%s", nccl)
	}
	if len(nccl.Warnings) != 1 || nccl.Warnings[0].Code != reasons.CodeNCCLIncomplete || nccl.Warnings[0].Device.String() != "0000:01:00.0" {
		t.Errorf("warnings %v, want one for the GPU and none for the NVMe", nccl.Warnings)
	}
}

// TestNCCLLinks: the slower of a function and the port above it counts, a
// virtual function has its physical function's link, and what nobody knows is
// left to NCCL.
func TestNCCLLinks(t *testing.T) {
	host, err := hostfs.Parse(`cpus 0 0-3
pci0000:00/0000:00:01.0/0000:01:00.0 node=0
pci0000:00/0000:00:02.0/0000:02:00.0 node=0
pci0000:00/0000:00:02.0/0000:02:00.1 node=0 physfn=0000:02:00.0
pci0000:00/0000:00:03.0/0000:03:00.0 node=0
`)
	if err != nil {
		t.Fatal(err)
	}
	links := map[string]topology.Link{
		"0000:00:01.0": {Speed: 16, Width: 16}, "0000:01:00.0": {Speed: 32, Width: 8},
		"0000:02:00.0": {Speed: 8, Width: 4}, // the port above says nothing
	}
	plan := ncclPlan(t, host, matrix.Domain(matrix.GuestNUMA{{0}}, []string{"0000:01:00.0", "0000:02:00.1", "0000:03:00.0"}), policy.LayoutNUMA)
	for i := range plan.Host.Devices {
		if link, known := links[plan.Host.Devices[i].Address.String()]; known {
			plan.Host.Devices[i].Details.MaxLink = &link
		}
	}
	system, err := readNCCL(report.NewNCCL(plan).String())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"16.0 GT/s PCIe x8", "8.0 GT/s PCIe x4", " x"} {
		n, _ := system.find(plan.Devices[i].Predicted.String())
		if got := n.attrs["link_speed"] + " x" + n.attrs["link_width"]; got != want {
			t.Errorf("%s: %q, want %q", plan.Devices[i].ID, got, want)
		}
	}
}
