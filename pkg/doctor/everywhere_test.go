package doctor_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/doctor"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/test/cases"
)

// TestEverywhere runs all checks on every golden case: no check panics, each
// result is one line, WARN and FAIL have a hint, and a device without a place is
// reported.
func TestEverywhere(t *testing.T) {
	for _, c := range cases.Load(t, "../..") {
		result := c.Mutator.Mutate(c.Request)
		if result.Plan == nil {
			continue
		}
		host, problems := env.ReadWholeHost(c.Mutator.Sysfs)
		problems = slices.Concat(c.Mutator.Problems, problems, env.ReadDetails(c.Mutator.Sysfs, host))
		in := doctor.Inputs{
			Host: host, Problems: problems, Plan: result.Plan, Layout: result.Plan.Layout,
			VMI: result.VMI, Variables: c.Mutator.Variables,
		}
		results := doctor.NewReport(in).Results
		wantSound(t, c.Name, results)
		unplaced := slices.ContainsFunc(result.Plan.Devices, func(d placement.Decision) bool { return d.Outcome == placement.Unplaced })
		reported := slices.ContainsFunc(results, func(r doctor.Result) bool {
			return (r.Name == "placement" || r.Name == "sysfs") && r.Status == doctor.Fail
		})
		if unplaced != reported {
			t.Errorf("%s: a device without a place: %v, reported: %v", c.Name, unplaced, reported)
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
