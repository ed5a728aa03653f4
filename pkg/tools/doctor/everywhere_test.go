package doctor_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/doctor"
	"hook-sidecar/test/cases"
)

// TestEverywhere runs all checks on every third golden case, with WHOLE=1 on each: no check panics,
// each result is one line, WARN and FAIL have a hint, and a device without a place is reported.
func TestEverywhere(t *testing.T) {
	for _, c := range cases.Sampled(t, "../../..", 3) {
		result := c.Planner.Read(c.Request).Plan()
		if result.Plan == nil {
			continue
		}

		in, planner := doctor.NewInputs(c.Planner)
		in.VMInputs = doctor.NewVMInputs(planner.Read(c.Request), "")
		results := doctor.NewReport(in).Results
		wantSound(t, c.Name, results)
		wantFindings(t, c.Name, findings.Of(result.Plan), results)
		unplaced := findings.WithoutPlace(result.Plan) > 0
		reported := slices.ContainsFunc(results, func(r doctor.Result) bool {
			// On a host of one node, no place because the guest has no cells is a note.
			isNote := r.Name == "placement" && r.Status == doctor.Note && len(in.Host.Nodes) == 1
			return (r.Name == "placement" || r.Name == "sysfs") && r.Status == doctor.Fail || isNote
		})

		if unplaced != reported {
			t.Errorf("%s: a device without a place: %v, reported: %v", c.Name, unplaced, reported)
		}
	}
}

// wantFindings checks that doctor ignores no finding of the plan: the check that the finding names
// has its text.
func wantFindings(t *testing.T, name string, all []reasons.Finding, results []doctor.Result) {
	t.Helper()
	for _, f := range all {
		text := strings.Join(strings.Fields(f.Text), " ")
		check := f.Check
		if check == "" {
			check, text = "warnings", string(f.Code)+": "+text
		}

		reported := slices.ContainsFunc(results, func(r doctor.Result) bool {
			// It words some that no device has, and those of a group are of any of its functions.
			isWorded := check == "sysfs" || check == "iommu-group-viable"
			isThere := r.Name == check || check == "iommu-group-viable" && r.Name == "driver-bound"
			return isThere && (r.Found == text || isWorded && r.Status != doctor.Pass)
		})

		if !reported {
			t.Errorf("%s: no result for the finding %s: %s", name, f.Code, f.Text)
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
