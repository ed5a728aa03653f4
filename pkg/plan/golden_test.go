package plan_test

import (
	"flag"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"

	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
)

const root = "../.."

// TestGolden compares the changes to each case's domain, and what explain says, with what the case
// wants, and checks what the hook promises of each, as hook-sidecar test does.
func TestGolden(t *testing.T) {
	for _, c := range cases.Load(t, root) {
		t.Run(c.Name, func(t *testing.T) {
			differences, broken, err := c.Run()
			expect.NoError(t, err)
			for _, promise := range broken {
				t.Error(promise)
			}

			if *update {
				expect.NoError(t, c.Update(differences))
				return
			}

			for _, d := range differences {
				t.Errorf("%s: rewrite with -update and review\n%s", d.Section, d.Diff)
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
