package plan_test

import (
	"bytes"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/cases"
)

// FuzzMutate feeds damaged domains and VMIs to the whole pipeline, seeded from
// the golden cases: it never panics, an error leaves the bytes as they are, and a
// second call changes nothing.
func FuzzMutate(f *testing.F) {
	all := cases.Load(f, root)
	for i, c := range all {
		f.Add(c.Request.Domain, c.Request.VMI, i, string(c.Planner.Flags[policy.KeyLayout]))
	}

	f.Fuzz(func(t *testing.T, domain, vmi []byte, host int, layout string) {
		if host < 0 || host >= len(all) || len(domain) > 1<<16 {
			t.Skip("no such case, or slow")
		}

		m := all[host].Planner
		m.Flags = map[policy.Key]string{policy.KeyLayout: layout}
		given := bytes.Clone(domain)
		result := m.Read(plan.Request{Domain: domain, VMI: vmi}).Plan()
		if !bytes.Equal(domain, given) {
			t.Fatal("the input's bytes were written to")
		}

		if result.Err != nil {
			if !bytes.Equal(result.Domain, given) {
				t.Fatalf("error %v, and the bytes differ", result.Err)
			}

			if result.Kind == plan.Internal {
				t.Fatalf("internal error: %v", result.Err)
			}

			return
		}

		again := m.Read(plan.Request{Domain: result.Domain, VMI: vmi}).Plan()
		if again.Err != nil || !bytes.Equal(again.Domain, result.Domain) {
			t.Fatalf("a second call changes the result, error %v:\n%s", again.Err,
				changes(result.Domain, again.Domain))
		}
	})
}
