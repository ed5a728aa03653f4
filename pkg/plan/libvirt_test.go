package plan_test

import (
	"bytes"
	"testing"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
)

// TestLibvirt passes the result of every fifth case to a real libvirt, with WHOLE=1 and with
// -update that of each, which accepts it with --validate, reads back every address and controller
// as planned, and adds no bridge under an expander bus that the budgets of the plan do not count.
func TestLibvirt(t *testing.T) {
	t.Parallel()
	lib := oracle.New(t)
	step := 5
	if *update {
		step = 1
	}

	for _, c := range cases.Sampled(t, root, step) {
		t.Run(c.Name, func(t *testing.T) {
			if c.NoLibvirt != "" {
				t.Skip(c.NoLibvirt)
			}

			planned := c.Planner.Read(c.Request).Plan()
			examined := lib.CheckChanged(t, planned.Domain, c.Request.Domain)
			if examined != nil && !bytes.Equal(planned.Domain, c.Request.Domain) {
				sameBusNumbers(t, c, planned.Plan, examined.Domain)
			}
		})
	}
}

// sameBusNumbers expects the budgets of the planned expander buses to be those of the domain that
// libvirt made of the plan, and the root bus to need no more than planned.
func sameBusNumbers(t *testing.T, c *cases.Case, planned *placement.Plan, readback []byte) {
	t.Helper()
	m := c.Planner
	m.Source = laidOut(m.Source, policy.LayoutKeep)
	m.Source.Flags[policy.KeyHotplugPorts] = "0" // those that are planned are there
	whole := m.Read(plan.Request{Domain: readback, VMI: c.Request.VMI}).Plan()
	expect.NoError(t, whole.Err)

	numbers := whole.Plan.Budgets.BusNumbers
	if len(numbers.Expanders) > 0 && numbers.Used > planned.Budgets.BusNumbers.Used {
		t.Errorf("root bus: planned %+v, in libvirt's domain %+v",
			planned.Budgets.BusNumbers.Budget, numbers.Budget)
	}

	used := map[int]bus.Budget{}
	for _, e := range numbers.Expanders {
		used[e.Index] = e.Budget
	}

	for _, e := range planned.Budgets.BusNumbers.Expanders {
		if e.Budget != used[e.Index] {
			t.Errorf("expander bus %d: planned %+v, in libvirt's domain %+v", e.Index, e.Budget,
				used[e.Index])
		}
	}
}
