package matrix_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/test/expect"
)

// TestDocsCounts: docs/layouts.md has the counts of all layouts that explain prints for the HGX
// machine.
func TestDocsCounts(t *testing.T) {
	docs := readFile(t, "../../docs/layouts.md")
	host, err := host.ParseSnapshot([]byte(readFile(t,
		"../../testdata/hosts/x86-2n8g-hgx-h100.txtar")))
	expect.NoError(t, err)
	plan := func(layout string) report.Report {
		m := plan.Planner{
			Sysfs: host, Details: true, // as explain reads it
			Source: policy.Source{Flags: map[policy.Key]string{policy.KeyLayout: layout}},
		}

		result := m.Read(plan.Request{
			Domain: []byte(readFile(t, "../../testdata/samples/02-8gpu-8nic-gate-off.xml")),
			VMI:    []byte(readFile(t, "../../testdata/samples/02-8gpu-8nic-gate-off.vmi.json")),
		}).Plan()

		if result.Err != nil {
			t.Fatal(result.Err)
		}

		r := report.New(result.Plan, result.Changed(), nil)
		r.Details = report.Sections
		return r
	}

	counts := 0
	for _, layout := range []string{"numa", "root", "mirror"} {
		var text strings.Builder
		expect.NoError(t, plan(layout).WriteText(&text, report.Style{}))
		for line := range strings.Lines(text.String()) {
			if strings.Contains(line, " of 8 GPUs: ") {
				counts++
				if !strings.Contains(docs, "\n"+line) {
					t.Errorf("docs/layouts.md lacks the line %q of %s", line, layout)
				}
			}
		}
	}

	expect.Same(t, 3, counts, "lines with counts, one per layout")
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	return string(expect.File(t, name))
}
