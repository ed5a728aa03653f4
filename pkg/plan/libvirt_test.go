package plan_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
)

// TestLibvirt passes the result of every case to a real libvirt, which accepts it
// with --validate and reads back every address and controller as planned.
func TestLibvirt(t *testing.T) {
	t.Parallel()
	lib := oracle.New(t)
	for _, c := range cases.Load(t, root) {
		t.Run(c.Name, func(t *testing.T) {
			if c.NoLibvirt != "" {
				t.Skip(c.NoLibvirt)
			}
			result := c.Mutator.Mutate(c.Request).Domain
			// A NIC that goes to a port under an expander bus of the user's own does so without the hook.
			if own, findings, err := lib.Examine(c.Request.Domain); err == nil && len(findings) == 1 && strings.Contains(findings[0], " is placed at ") {
				if back, still, err := lib.Examine(result); err == nil && slices.Equal(findings, still) {
					expect.Same(t, unmoved(t, own), unmoved(t, back), "disks, NICs or controllers move (-without the hook +with it)")
					return
				}
			}
			lib.Check(t, result)
		})
	}
}

// TestLibvirtLayouts does the same for every sample that KubeVirt made, those of
// later calls and libvirt's own readback included, with every layout on the
// host that has its devices.
func TestLibvirtLayouts(t *testing.T) {
	t.Parallel()
	lib := oracle.New(t)
	for sample, host := range boots() {
		files, err := filepath.Glob(filepath.Join(root, "testdata", "samples", sample+"*.xml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sample %s: %v", sample, err)
		}
		for _, file := range files {
			for _, layout := range []policy.Layout{policy.LayoutKeep, policy.LayoutNUMA, policy.LayoutRoot, policy.LayoutMirror} {
				name := filepath.Base(file)
				t.Run(name+"/"+string(layout), func(t *testing.T) {
					m := plan.Planner{Sysfs: hosts(t)[host+".txtar"], Source: policy.Source{Flags: map[policy.Key]string{policy.KeyLayout: string(layout)}}}
					result := m.Mutate(plan.Request{Domain: sampleFile(t, name), VMI: sampleFile(t, sample+".vmi.json")})
					if result.Err != nil {
						t.Fatal(result.Err)
					}
					lib.Check(t, result.Domain)
				})
			}
		}
	}
}
