package matrix_test

import (
	"os"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
)

// TestDocsTrees: docs/layouts.md has the trees and the counts that explain prints
// for the HGX machine.
func TestDocsTrees(t *testing.T) {
	docs := readFile(t, "../../docs/layouts.md")
	host, err := host.ParseSnapshot([]byte(readFile(t, "../../testdata/hosts/x86-2n8g-hgx-h100.txtar")))
	if err != nil {
		t.Fatal(err)
	}
	plan := func(domain, layout string) report.Report {
		m := plan.Planner{Sysfs: host, Source: policy.Source{Flags: map[policy.Key]string{policy.KeyLayout: layout}}}
		result := m.Mutate(plan.Request{
			Domain: []byte(readFile(t, "../../testdata/samples/02-8gpu-8nic-gate-off"+domain)),
			VMI:    []byte(readFile(t, "../../testdata/samples/02-8gpu-8nic-gate-off.vmi.json")),
		})
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		return report.New(result.Plan, result.Changed(), nil)
	}
	const running = ".libvirt9-inactive.xml"
	var asIs strings.Builder
	if err := report.NewAsIs(plan(running, "keep"), plan(running, "numa")).WriteText(&asIs, report.Style{}); err != nil {
		t.Fatal(err)
	}
	compareDocs(t, docs, "the current domain", asIs.String(), false)
	for _, layout := range []string{"numa", "root", "mirror"} {
		var text strings.Builder
		if err := plan(".xml", layout).WriteText(&text, report.Style{}); err != nil {
			t.Fatal(err)
		}
		compareDocs(t, docs, layout, text.String(), true)
	}
}

// compareDocs looks for the tree of the first socket, and for the count of pairs.
func compareDocs(t *testing.T, docs, name, text string, counted bool) {
	t.Helper()
	start := strings.Index(text, "HOST")
	end := strings.Index(text, "NUMA node 1")
	if start < 0 || end < start {
		t.Fatalf("%s: no tree of two nodes in\n%s", name, text)
	}
	if tree := text[start:end]; !strings.Contains(docs, "```\n"+tree+"```") {
		t.Errorf("docs/layouts.md lacks the tree of %s:\n%s", name, tree)
	}
	for line := range strings.Lines(text) {
		if counted && strings.Contains(line, " pairs: ") && !strings.Contains(docs, "\n"+line) {
			t.Errorf("docs/layouts.md lacks the line %q of %s", line, name)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
