package matrix_test

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"testing"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/recorded"
	"hook-sidecar/test/expect"
	hosts "hook-sidecar/test/machines"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/pastes"
)

// TestFindingsOfAll: on every host and machine of testdata, for the VM with all devices, with guest
// cells and without, and for the VM of each device, the log of a call has every code that explain
// has, with details and without, and that a command has which reads the whole host; and no other.
// Each VM has a seventh of the layouts, and with WHOLE=1 all. The steps of what is sampled have no
// common factor, so that in time each host has each VM with each layout.
func TestFindingsOfAll(t *testing.T) {
	found, n := map[reasons.Code]bool{}, 0
	all := sysfsOfAll(t)
	for m, name := range slices.Sorted(maps.Keys(all)) {
		whole, shown, _ := plan.Planner{Sysfs: all[name]}.WholeHost()
		devices, err := matrix.Sysfs{FS: all[name]}.Endpoints()
		expect.NoError(t, err)

		cells := matrix.CellPerNode(shown.Nodes)
		vms := [][]byte{matrix.Domain(cells, devices), matrix.Domain(nil, devices)}
		for i, device := range devices {
			if expect.IsSampled(i, 11) {
				vms = append(vms, matrix.Domain(cells, []string{device}))
			}
		}

		for i, domain := range vms {
			for j, layout := range append(policy.TreeLayouts(), policy.LayoutKeep, policy.LayoutAuto) {
				if !expect.IsSampled(m+i+j, 7) {
					continue
				}

				n++
				where := fmt.Sprintf("%s, %s, VM %d", name, layout, i)
				source := policy.Source{Flags: withLayout(layout)}
				maps.Copy(found, compareCodes(t, where, whole, source, plan.Request{Domain: domain}))
			}
		}
	}

	t.Logf("%d plans, %d codes", n, len(found))
	if len(found) < 12 {
		t.Errorf("the test shows little, it found only %v", found)
	}
}

// compareCodes compares the codes of a call's log, which it returns, with those of commands. Whole
// has read the whole host.
func compareCodes(
	t *testing.T, where string, whole plan.Planner, source policy.Source, req plan.Request,
) map[reasons.Code]bool {
	t.Helper()
	whole.Source = source
	hook := plan.Planner{Sysfs: whole.Sysfs, Source: source}
	logged := codesOf(hook.Diagnose(hook.Answer(req)))
	detailed := hook
	detailed.Details = true

	for command, planner := range map[string]plan.Planner{
		"explain": hook, "explain --details": detailed, "doctor": whole,
	} {
		expect.Same(t, logged, codesOf(planner.Read(req).Plan()), "%s: %s (-log +now)", where, command)
	}

	return logged
}

// sysfsOfAll returns the hosts and machines of testdata by name, and hosts made of what programs print
// of the machines, which lack much.
func sysfsOfAll(t *testing.T) map[string]fs.FS {
	t.Helper()
	all := map[string]fs.FS{}
	for _, name := range hosts.Names(t) {
		all[name] = hosts.Sysfs(t, name)
	}

	for i, name := range pastes.Names(t, "") {
		m := pastes.Load(t, name)
		all[name] = m.Sysfs
		for j, f := range pastes.Formats {
			if !f.Suits(m) || !expect.IsSampled(i+j, 36) {
				continue
			}

			record, _, err := paste.Read([]byte(f.Print(m)))
			expect.NoError(t, err)
			if made, err := recorded.New(&record); err == nil { // else it shows too little
				all[name+", "+f.Name], err = host.Sysfs(&made.Host)
				expect.NoError(t, err)
			}
		}
	}

	return all
}

// codesOf returns the codes of what is found about a result.
func codesOf(r plan.Result) map[reasons.Code]bool {
	codes := map[reasons.Code]bool{}
	for _, f := range findings.Of(r.Plan) {
		codes[f.Code] = true
	}
	return codes
}
