package doctor_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/doctor"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/cases"
)

// TestEverywhere runs all checks on every golden case: no check panics, each
// result is one line, WARN and FAIL have a hint, and a device without a place is
// reported.
func TestEverywhere(t *testing.T) {
	for _, c := range cases.Load(t, "../..") {
		result := c.Mutator.Read(c.Request).Plan()
		if result.Plan == nil {
			continue
		}

		in, planner := doctor.NewInputs(c.Mutator)
		in.VM = doctor.NewVM(planner.Read(c.Request), "")
		results := doctor.NewReport(in).Results
		wantSound(t, c.Name, results)
		wantWarnings(t, c.Name, result.Plan.Warnings, results)
		unplaced := slices.ContainsFunc(result.Plan.Devices, func(d placement.Decision) bool {
			return d.Outcome == placement.Unplaced
		})

		reported := slices.ContainsFunc(results, func(r doctor.Result) bool {
			return (r.Name == "placement" || r.Name == "sysfs") && r.Status == doctor.Fail
		})

		if unplaced != reported {
			t.Errorf("%s: a device without a place: %v, reported: %v", c.Name, unplaced, reported)
		}
	}
}

// TestAgreesWithKey sets mmio-window in every case: bar-window fails exactly where the
// key warns that it cannot make the window large enough.
func TestAgreesWithKey(t *testing.T) {
	refused := 0
	for _, c := range cases.Load(t, "../..") {
		m := c.Mutator
		m.Flags = maps.Clone(m.Flags)
		m.Flags[policy.KeyMMIOWindow], m.Flags[policy.KeyStrict] = "auto", "false"

		// whatever the VMI's annotations say
		m.Locked = []policy.Key{policy.KeyMMIOWindow, policy.KeyStrict}
		result := m.Read(c.Request).Plan()
		if result.Plan == nil {
			continue
		}

		in, planner := doctor.NewInputs(m)
		in.VM = doctor.NewVM(planner.Read(c.Request), "")
		results := doctor.NewReport(in).Results
		warns := slices.ContainsFunc(result.Plan.Warnings, func(w reasons.Warning) bool {
			return w.Code == reasons.CodeMMIOWindow
		})

		fails := slices.ContainsFunc(results, func(r doctor.Result) bool {
			return r.Name == "bar-window" && r.Status == doctor.Fail
		})

		if warns != fails {
			t.Errorf("%s: the key warns: %v, bar-window fails: %v", c.Name, warns, fails)
		}

		if warns {
			refused++
		}
	}

	if refused == 0 {
		t.Error("the key warns in no case")
	}
}

// wantWarnings checks that doctor ignores no warning of the plan: it has the warning's
// text, or the check that the table of warnings names has found something.
func wantWarnings(t *testing.T, name string, warnings []reasons.Warning, results []doctor.Result) {
	t.Helper()
	for _, w := range warnings {
		text := strings.Join(strings.Fields(w.Text), " ")
		reported := slices.ContainsFunc(results, func(r doctor.Result) bool {
			return r.Status != doctor.Pass &&
				(r.Name == w.Code.Check() || r.Name == "warnings" &&
					r.Found == string(w.Code)+": "+text)
		})

		if !reported {
			t.Errorf("%s: no result for the warning %s: %s", name, w.Code, w.Text)
		}
	}
}

func wantSound(t *testing.T, name string, results []doctor.Result) {
	t.Helper()
	byName := map[string]bool{}
	for _, r := range results {
		byName[r.Name] = true
		if r.Found == "" || strings.ContainsAny(r.String(), "\n\r") {
			t.Errorf("%s: %q is not one line", name, r)
		}

		if (r.Status == doctor.Fail || r.Status == doctor.Warn) && r.Hint == "" {
			t.Errorf("%s: %s without a hint", name, r)
		}
	}

	if !byName["sysfs"] || !byName["machine-type"] {
		t.Errorf("%s: results of only %v", name, slices.Sorted(maps.Keys(byName)))
	}
}
