package findings_test

import (
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/cases"
)

// TestOf: the golden cases have a finding of each kind. Each has its text on one line, a severity
// and a remedy; they come by code, whoever found them, and no two say the same.
func TestOf(t *testing.T) {
	missing := findings.Codes()
	for _, c := range cases.Load(t, "../..") {
		all := findings.Of(c.Planner.Read(c.Request).Plan().Plan)
		for i, f := range all {
			missing = slices.DeleteFunc(missing, func(code reasons.Code) bool {
				return code == f.Code
			})

			isKnown := f.Severity == reasons.Warn || f.Severity == reasons.Fail
			if f.Text == "" || strings.ContainsAny(f.Text, "\n\r") || f.Remedy == "" || !isKnown {
				t.Errorf("%s: %+v", c.Name, f)
			}

			if i > 0 && !isBefore(all[i-1], f) {
				t.Errorf("%s: %+v before %+v", c.Name, all[i-1], f)
			}
		}
	}

	if len(missing) > 0 {
		t.Errorf("no case has a finding %s", missing)
	}
}

func isBefore(x, y reasons.Finding) bool {
	isSame := x.Code == y.Code && x.Text == y.Text
	return !isSame && x.Compare(y) <= 0
}
