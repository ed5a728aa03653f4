package matrix_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
)

// TestCoreTrees: a domain may arrive with the tree of a change that KubeVirt has under review. auto
// moves no pair further from the host's path type, but for those of whole AMD GPUs, whose AtomicOps
// come first, and has at least as many pairs right as in a domain without a tree.
func TestCoreTrees(t *testing.T) {
	wrong := map[matrix.CoreTree]int{}
	everyMachine(t, func(t *testing.T, host wholeHost, numa matrix.GuestNUMA, devices []string) {
		fresh, _ := run(t, host.planner, withLayout(policy.LayoutAuto), matrix.Domain(numa, devices))
		freshSteps := steps(t, host, fresh, devices)
		for _, form := range matrix.CoreTrees {
			came, err := form.Domain(host.Sysfs, numa, devices)
			expect.NoError(t, err)
			after, _ := run(t, host.planner, withLayout(policy.LayoutAuto), came)
			before, now := steps(t, host, came, devices), steps(t, host, after, devices)
			t.Logf("%s: %d of %d pairs as on the host, with auto %d, fresh %d", form, right(before),
				len(before), right(now), right(freshSteps))
			others := slices.DeleteFunc(slices.Clone(devices), host.isWholeAMDGPU)
			compareSteps(t, string(form)+", as it came", host, came, after, others)
			compareSteps(t, string(form)+", fresh", host, fresh, after, devices)
			if right(now) < right(freshSteps) {
				t.Errorf("%s: %d pairs right, of a domain without a tree %d", form, right(now),
					right(freshSteps))
			}

			wrong[form] += len(before) - right(before)
		}
	})

	for form, count := range wrong {
		if count == 0 {
			t.Errorf("%s: no pair is wrong, so the test shows nothing", form)
		}
	}
}

var update = flag.Bool("update", false, "rewrite testdata/core")

// TestCoreTreesSamples: testdata/core has the domains of two trees that are under review for two
// hosts with a cell per node, so that a reviewer can count the pairs with explain --as-is, and
// docs/comparison.md says how.
func TestCoreTreesSamples(t *testing.T) {
	docs := readFile(t, "../../docs/comparison.md")
	for name, file := range map[string]string{
		"three-roots": "x86-2n4g-three-roots", "hgx-h100": "x86-2n8g-hgx-h100",
	} {
		host := matrix.Sysfs{FS: readHost(t, "../../testdata/hosts/"+file+".txtar")}
		devices, err := host.Endpoints()
		expect.NoError(t, err)

		for _, form := range []matrix.CoreTree{matrix.SwitchPerRoot, matrix.ExpanderPerRootPort} {
			domain, err := form.Domain(host, matrix.GuestNUMA{{0}, {1}}, devices)
			expect.NoError(t, err)
			sample := fmt.Sprintf("../../testdata/core/%s-%s.xml", name, form)
			if *update {
				expect.NoError(t, os.WriteFile(sample, domain, 0o644))
			}

			expect.Same(t, readFile(t, sample), string(domain),
				"%s is not what the generator makes; rewrite it with -update", sample)
			if !strings.Contains(docs, strings.TrimPrefix(sample, "../../")) {
				t.Errorf("docs/comparison.md does not name %s", sample)
			}
		}
	}
}
