package doctor_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/doctor"
	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/test/cases"
)

// TestEverywhere runs all checks on every golden case: no panic, each result is
// one line, what is wrong says what to do, and a device without a place is told
// of.
func TestEverywhere(t *testing.T) {
	for _, c := range cases.Load(t, "../..") {
		result := c.Mutator.Mutate(c.Request)
		if result.Plan == nil {
			continue // nothing was planned
		}
		d, err := domain.Parse(c.Request.Domain)
		if err != nil {
			t.Fatalf("%s: planned, and %v", c.Name, err)
		}
		host, problems := env.ReadWholeHost(c.Mutator.Sysfs)
		problems = slices.Concat(c.Mutator.Problems, problems, env.ReadDetails(c.Mutator.Sysfs, host))
		in := doctor.Inputs{
			Host: host, Problems: problems, Domain: d, Plan: result.Plan, Layout: result.Plan.Policy.Layout,
			VMI: result.VMI, Variables: c.Mutator.Variables,
		}
		results := doctor.Run(in)
		wantSound(t, c.Name, results)
		unplaced := slices.ContainsFunc(result.Plan.Devices, func(d placement.Decision) bool { return d.Outcome == placement.Unplaced })
		told := slices.ContainsFunc(results, func(r doctor.Result) bool { return r.Name == "placement" && r.Status == doctor.Fail })
		if unplaced != told {
			t.Errorf("%s: a device without a place: %v, told of: %v", c.Name, unplaced, told)
		}
	}
}

func wantSound(t *testing.T, name string, results []doctor.Result) {
	t.Helper()
	byName := map[string]bool{}
	for _, r := range results {
		byName[r.Name] = true
		if r.Found == "" || strings.ContainsAny(r.String(), "\n\r") {
			t.Errorf("%s: %q is no line", name, r)
		}
		if (r.Status == doctor.Fail || r.Status == doctor.Warn) && r.Hint == "" {
			t.Errorf("%s: %s without a hint", name, r)
		}
	}
	if !byName["sysfs"] || !byName["machine-type"] {
		t.Errorf("%s: results of %v only", name, slices.Sorted(maps.Keys(byName)))
	}
}
