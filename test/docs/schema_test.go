package docs

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/doctor"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
	"hook-sidecar/test/schema"
)

// TestGeneratedSchema holds the reports and the checks of every third golden case, with WHOLE=1 of
// each, to the schemas of docs/schema, which -update rewrites. cmd/kubectl-hostdev has that of the
// table.
func TestGeneratedSchema(t *testing.T) {
	var reports, checks, guests [][]byte
	output := func(to *[][]byte, value any) {
		data, err := json.Marshal(value)
		expect.NoError(t, err)
		*to = append(*to, data)
	}

	for _, c := range cases.Sampled(t, root, 11) {
		vm := c.Planner.Read(c.Request)
		result, current := vm.Plan(), vm.Current()
		if result.Plan == nil || current.Plan == nil {
			continue
		}

		planned := report.New(result.Plan, result.Changed(), result.Err)
		output(&reports, planned)
		output(&reports,
			report.AsIs(report.New(current.Plan, current.Changed(), current.Err), planned))
		output(&guests, verdict.CompareGuest(planned, paste.Machine{}))
		in, planner := doctor.NewInputs(c.Planner)
		in.VMInputs = doctor.NewVMInputs(planner.Read(c.Request), "")
		output(&checks, doctor.NewReport(in))
	}

	directory := filepath.Join(root, "docs", "schema")
	schema.Check[report.Report](t, filepath.Join(directory, "explain.json"),
		"explain -o json", *update, reports...)
	schema.Check[verdict.GuestComparison](t, filepath.Join(directory, "explain-guest.json"),
		"explain --guest FILE -o json", *update, guests...)
	schema.Check[verdict.Verdict](t, filepath.Join(directory, "guest.json"),
		"guest -o json", *update, verdicts(t)...)
	schema.Check[doctor.Report](t, filepath.Join(directory, "doctor.json"), "doctor -o json",
		*update, checks...)
}

// verdicts returns the verdicts about what programs print of machines, each with itself as its host.
func verdicts(t *testing.T) (all [][]byte) {
	t.Helper()
	for i, name := range pastes.Names(t, "") {
		described := pastes.Load(t, name)
		for j, f := range pastes.Formats {
			if !f.Suits(described) || !expect.IsSampled(i+j, 17) {
				continue
			}

			m, _, err := paste.Read([]byte(f.Print(described)))
			expect.NoError(t, err)
			for _, host := range []*paste.Machine{nil, &m} {
				data, err := json.Marshal(verdict.New(m, host))
				expect.NoError(t, err)
				all = append(all, data)
			}
		}
	}

	return all
}
