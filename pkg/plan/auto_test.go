package plan_test

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"regexp"
	"testing"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
)

// modalias matches the model of a snapshot's CPUs.
var modalias = regexp.MustCompile(`(-- devices/system/cpu/modalias --\n).*\n`)

// TestAutoByCPU: the layout that auto takes depends on what the consumers decide, which depends on
// the CPUs' vendor and on the guest's cells.
func TestAutoByCPU(t *testing.T) {
	const intel, amd = "x86,ven0000fam0006mod008F", "x86,ven0002fam0019mod0011"
	cells, none := matrix.GuestNUMA{{0}, {1}}, matrix.GuestNUMA(nil)
	for _, test := range []struct {
		host, cpu   string
		cells       matrix.GuestNUMA
		want, speed policy.Layout // without a key, and with port-speed=host
	}{
		{"x86-2n8g4n-pcie", intel, cells, "numa", "mirror"},
		{"x86-2n8g4n-pcie", intel, none, "root", "mirror"},
		{"x86-2n8g4n-pcie", amd, cells, "root", "mirror"},
		{"x86-2n8g4n-pcie", amd, none, "root", "mirror"},
		{"x86-2n4g2n-pcie", intel, cells, "numa", "mirror"},
		{"x86-2n4g2n-pcie", intel, none, "root", "mirror"},
		{"x86-2n4g-three-roots", intel, cells, "root", "root"},
		{"x86-2n4g-three-roots", intel, none, "root", "root"},
		{"x86-2n8g-hgx-h100", intel, cells, "mirror", "mirror"},
		{"x86-2n8g-hgx-h100", amd, none, "mirror", "mirror"},
		{"x86-2n8g-mi300x", intel, cells, "numa", "numa"},
		{"x86-2n8g-mi300x", intel, none, "root", "root"},
		{"x86-2n8g-mi300x", amd, cells, "root", "root"},
		{"x86-2n8g-mi300x", amd, none, "root", "root"},
		{"x86-8n8g-dgx-a100", amd, none, "switch", "mirror"},
	} {
		snapshot := expect.File(t, filepath.Join(root, "testdata/hosts", test.host+".txtar"))
		snapshot = modalias.ReplaceAll(snapshot, []byte("${1}cpu:type:"+test.cpu+":feature:\n"))
		sysfs, err := host.ParseSnapshot(snapshot)
		expect.NoError(t, err)
		if !bytes.Contains(snapshot, []byte(test.cpu)) {
			t.Fatalf("%s does not name its CPUs", test.host)
		}

		domain := matrix.Domain(test.cells, gpusAndNICs(t, sysfs))
		for speed, want := range map[string]policy.Layout{"": test.want, "host": test.speed} {
			flags := map[policy.Key]string{policy.KeyLayout: "auto"}
			if speed != "" {
				flags[policy.KeyPortSpeed] = speed
			}

			planner := plan.Planner{Sysfs: sysfs, Source: policy.Source{Flags: flags}}
			result := planner.Read(plan.Request{Domain: domain}).Plan()
			expect.NoError(t, result.Err)
			if got := result.Plan.Layout; got != want {
				t.Errorf("%s, %s, cells %v, port-speed %q: %s, want %s, since %s", test.host, test.cpu,
					test.cells, speed, got, want, result.Plan.Why)
			}
		}
	}
}

// TestAutoByModel: where the host does not show its CPUs, the domain's model or vendor tells them.
func TestAutoByModel(t *testing.T) {
	snapshot := expect.File(t, filepath.Join(root, "testdata/hosts/x86-2n8g4n-pcie.txtar"))
	snapshot = modalias.ReplaceAll(snapshot, []byte("${1}\n"))
	sysfs, err := host.ParseSnapshot(snapshot)
	expect.NoError(t, err)
	domain := matrix.Domain(matrix.GuestNUMA{{0}, {1}}, gpusAndNICs(t, sysfs))
	for cpu, want := range map[string]policy.Layout{
		"": "numa",
		"<model>Cascadelake-Server-noTSX</model>": "numa",
		"<vendor>Intel</vendor>":                  "numa",
		"<model>EPYC-Milan-v2</model>":            "root",
		"<vendor>AMD</vendor>":                    "root",
		// UCX reads the vendor, and Linux the family, which allows P2PDMA from Zen on.
		"<model>Opteron_G5</model>": "root",
	} {
		vm := bytes.Replace(domain, []byte("<numa>"), []byte(cpu+"<numa>"), 1)
		planner := plan.Planner{Sysfs: sysfs, Source: policy.Source{
			Flags: map[policy.Key]string{policy.KeyLayout: "auto"},
		}}
		result := planner.Read(plan.Request{Domain: vm}).Plan()
		expect.NoError(t, result.Err)
		p2pdma := result.Plan.Decisions(consumers.P2PDMA)
		isZen := cpu == "<model>EPYC-Milan-v2</model>" || cpu == "<vendor>AMD</vendor>"
		if got := result.Plan.Layout; got != want || (p2pdma.Wrong == 0) != isZen {
			t.Errorf("%s: %s, want %s, since %s; %+v", cpu, got, want, result.Plan.Why, p2pdma)
		}
	}
}

// gpusAndNICs returns the GPUs and NICs of a host that can be passed through.
func gpusAndNICs(t *testing.T, sysfs fs.FS) (ids []string) {
	t.Helper()
	shown, problems := host.Read(sysfs, nil, host.All)
	expect.Same(t, 0, len(problems), "problems")
	for _, f := range shown.Functions {
		if f.Driver == "vfio-pci" && f.IsGPUOrNIC() {
			ids = append(ids, f.Address.String())
		}
	}

	return ids
}
