package plan_test

import (
	"flag"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/report"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
)

const root = "../.."

// TestGolden compares the changes to each case's domain, and what explain says,
// with what the case wants.
func TestGolden(t *testing.T) {
	for _, c := range cases.Load(t, root) {
		t.Run(c.Name, func(t *testing.T) {
			got := map[string][]byte{}
			result := c.Mutator.Read(c.Request).Plan()
			got["want.diff"] = changes(c.Request.Domain, result.Domain)
			got["want.txt"] = explanation(t, result)
			if *update {
				expect.NoError(t, c.Update(got))
				return
			}
			for name, data := range got {
				expect.Same(t, string(c.Section(name)), string(data), "%s (-want +got), rewrite with -update and review", name)
			}
		})
	}
}

var update = flag.Bool("update", false, "rewrite what the golden cases want")

func changes(before, after []byte) []byte {
	d := string(diff.Diff("domain.xml", before, "domain.xml", after))
	_, body, _ := strings.Cut(d, "+++ domain.xml\n")
	return []byte(body)
}

func explanation(t *testing.T, result plan.Result) []byte {
	var text strings.Builder
	expect.NoError(t, report.New(result.Plan, result.Changed(), result.Err).WriteSummary(&text))
	return []byte(text.String())
}
