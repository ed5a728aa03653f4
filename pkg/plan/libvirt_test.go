package plan_test

import (
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
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
			result := c.Mutator.Read(c.Request).Plan().Domain
			// A NIC that goes to a port under an expander bus of the user's own does so without the hook.
			if own, findings, err := lib.Examine(c.Request.Domain); err == nil && len(findings) == 1 && strings.Contains(findings[0], " is placed at ") {
				if back, still, err := lib.Examine(result); err == nil && slices.Equal(findings, still) {
					expect.Same(t, unmoved(t, own), unmoved(t, back), "disks, NICs or controllers move (-without the hook +with it)")
					return
				}
			}
			lib.Check(t, result)
		})
	}
}
