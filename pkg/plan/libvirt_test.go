package plan_test

import (
	"testing"

	"hook-sidecar/test/cases"
	"hook-sidecar/test/oracle"
)

// TestLibvirt passes the result of every case to a real libvirt, which accepts it
// with --validate and reads back every address and controller as planned.
func TestLibvirt(t *testing.T) {
	t.Parallel()
	lib := oracle.New(t)
	for _, c := range cases.Load(t, root) {
		t.Run(c.Name, func(t *testing.T) {
			if c.NoLibvirt != "" {
				t.Skip(c.NoLibvirt)
			}

			// What libvirt makes of the domain without the hook is not the hook's.
			_, known, _ := lib.Examine(c.Request.Domain)
			lib.Check(t, c.Planner.Read(c.Request).Plan().Domain, known...)
		})
	}
}
