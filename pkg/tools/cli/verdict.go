package cli

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/keys"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/doctor"
	"hook-sidecar/pkg/words"
)

// Running is a running VM, as the hook sees it.
type Running struct {
	*plan.VM
	Current *placement.Plan // of the domain as it is
	Planned plan.Result     // by the hook
	HasHook bool            // the hook answers in the pod
	Locked  []policy.Key    // whose annotations the hook ignores
	Lost    doctor.Lost     // what the hook writes and the domain lacks
}

// NewRunning plans a running VM. It fails where there is no plan.
func NewRunning(vm *plan.VM, hasHook bool, locked []policy.Key) (Running, error) {
	current, planned := vm.Current(), vm.Plan()
	for _, result := range []plan.Result{current, planned} {
		if result.Plan == nil {
			return Running{}, result.Err
		}
	}

	running := Running{
		VM: vm, Current: current.Plan, Planned: planned, HasHook: hasHook, Locked: locked,
	}
	if hasHook && !planned.Policy.DryRun {
		running.Lost.Keys = keys.Lacking(planned.Plan)
	}

	return running, nil
}

// Heading returns the first lines about the VM: the verdict and what to do.
func (r Running) Heading() string {
	text := words.Printable(r.Verdict()) + "\n"
	if todo := r.ToDo(); todo != "" {
		text += words.Printable("to do: "+todo) + "\n"
	}
	return text + "\n"
}

// Verdict returns the first line: how much of the host the guest sees now, and how much with other
// layouts: "0 of 120 pairs as on the host; with layout root 112, mirror 120".
func (r Running) Verdict() string {
	text := strings.Join(report.HeadlineOf(r.Current, r.Planned.Plan), "; ")
	if r.Current.Pairs().Known == 0 {
		return text
	}

	if layout := r.Current.TreeLayout(); layout != "" {
		text += "; the tree is of layout " + string(layout)
	}

	if better := r.Better(); len(better) > 0 {
		text += "; with layout " + plan.Listed(better)
	}

	return text
}

// Better returns the layouts that show more of the host than the current tree: the plan's, and any
// that shows more than the plan's.
func (r Running) Better() []plan.Alternative {
	options, current := r.Alternatives(), plan.AlternativeOf(r.Current)
	planned := current
	for _, o := range options {
		if o.Layout == r.Planned.Plan.Layout && o.Compare(planned) > 0 {
			planned = o
		}
	}

	return slices.DeleteFunc(options, func(o plan.Alternative) bool {
		isPlanned := o.Layout == r.Planned.Plan.Layout
		return o.Compare(current) <= 0 || o.Compare(planned) <= 0 && !isPlanned
	})
}

// IsComplete reports whether the hook accepts the VM, each device has a place, and the domain has all
// that the hook writes. That the guest has no cells is the VM's business.
func (r Running) IsComplete() bool {
	lacksPlace := func(d placement.Decision) bool {
		return d.Outcome == placement.Unplaced && d.Reason != reasons.NoGuestNUMA
	}

	return r.Planned.Err == nil && len(r.Lost.Keys) == 0 &&
		!slices.ContainsFunc(r.Planned.Plan.Devices, lacksPlace)
}

// Moved returns how many devices get another address in the guest at the next start with the hook.
func (r Running) Moved() int {
	current := report.New(r.Current, false, nil)
	planned := report.New(r.Planned.Plan, r.Planned.Changed(), r.Planned.Err)
	addresses, _ := report.AsIs(current, planned).WouldChange.Moved()
	return addresses
}

// ToDo returns the second line, the remedy; "" where there is nothing to place.
func (r Running) ToDo() string {
	switch {
	case len(r.Current.Devices) == 0:
		return ""
	case r.Planned.Err != nil:
		return "see why the hook would refuse this domain: " +
			words.OneLine(r.Planned.Err.Error())
	}

	if remedy := r.Lost.Remedy(); remedy != "" {
		return remedy
	}
	if remedy := findings.FirstRemedy(r.Current, r.Planned.Plan); remedy != "" {
		return remedy + "; then " + r.start()
	}
	if r.Planned.Changed() {
		return r.start()
	}

	if better := r.Better(); len(better) > 0 {
		return r.choose(slices.MaxFunc(better, plan.Alternative.Compare).Layout)
	}

	return "nothing: no layout shows more of the host"
}

// start says how the VM gets what the hook plans.
func (r Running) start() string {
	start := "add the hook to the VM (" + reasons.Page("docs/install.md") + ") and restart it"
	if r.HasHook {
		start = "restart the VM: the hook is in its pod"
	}

	p := r.Planned.Policy
	dryRun := "remove --" + string(policy.KeyDryRun) + " from the arguments of the hook; then "
	if p.Origins[policy.KeyDryRun] == policy.OriginAnnotation {
		dryRun = "remove the annotation " + policy.AnnotationPrefix + string(policy.KeyDryRun) +
			" from the VM; then "
	}

	if p.DryRun {
		return dryRun + start
	}

	return start
}

// choose says how the VM gets another layout.
func (r Running) choose(layout policy.Layout) string {
	way := fmt.Sprintf("annotate the VM with %s%s: %s", policy.AnnotationPrefix,
		policy.KeyLayout, layout)
	if slices.Contains(r.Locked, policy.KeyLayout) {
		way = fmt.Sprintf("set --%s=%s in the arguments of the hook, which lock it",
			policy.KeyLayout, layout)
	}

	return fmt.Sprintf("nothing, or %s; --layout %s shows it", way, layout)
}
