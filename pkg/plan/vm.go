package plan

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/keys"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// VM is a VM whose domain, VMI and host were read. It makes each plan at most once. It is
// for one goroutine.
type VM struct {
	VMI *kubevirt.VMI // nil when there is none

	planner    Planner
	request    Request
	resolved   resolved
	domain     *domain.Domain
	candidates []topology.DeviceID // devices to read of the host
	shown      reading
	plans      map[variant]Result

	vmiErr, domainErr error       // why nothing can be planned
	panicked          *PanicError // of the reading
}

// variant names a plan that a VM can have. The zero value is the policy's.
type variant struct {
	layout  policy.Layout // in place of the policy's, unless ""
	current bool          // nothing is moved, added or removed
}

// resolved is a policy with the warnings and the error of its flags and annotations.
type resolved struct {
	Policy   policy.Policy
	Warnings []reasons.Finding
	Err      error
}

func resolve(source policy.Source) resolved {
	p, warnings, err := policy.Resolve(source)
	return resolved{p, warnings, err}
}

// Plan returns the plan of the policy.
func (v *VM) Plan() Result { return v.plan(variant{}) }

// WithLayout returns the plan of a layout.
func (v *VM) WithLayout(layout policy.Layout) Result { return v.plan(variant{layout: layout}) }

// Current returns the plan of the domain as it is.
func (v *VM) Current() Result { return v.plan(variant{current: true}) }

// Alternative counts the outcomes of a layout: the GPUs with GPUDirect RDMA and with the host's
// NIC, and the pairs of devices that are as on the host.
type Alternative struct {
	Layout policy.Layout `json:"layout"` // its name
	Direct int           `json:"direct"` // GPUs that would use GPUDirect RDMA to their NIC
	Right  int           `json:"right"`  // GPUs that would take the host's NIC
	Alike  int           `json:"alike"`  // pairs that would be as on the host
}

// AlternativeOf returns what a plan gives.
func AlternativeOf(p *placement.Plan) Alternative {
	outcome := p.GPUDirect()
	return Alternative{
		Layout: p.Layout, Direct: outcome.Guest, Right: outcome.Right, Alike: p.Pairs().Alike,
	}
}

// Compare orders alternatives from the worst, by what a user of NCCL feels most: GPUDirect RDMA,
// the right NIC, then pairs. Layout auto follows all consumers, and has an order of its own.
func (a Alternative) Compare(b Alternative) int {
	return cmp.Or(cmp.Compare(a.Direct, b.Direct), cmp.Compare(a.Right, b.Right),
		cmp.Compare(a.Alike, b.Alike))
}

// String returns "mirror 8 GPUs direct, 120 pairs", without GPUs where none uses GPUDirect RDMA.
func (a Alternative) String() string {
	if a.Direct == 0 {
		return fmt.Sprintf("%s %d", a.Layout, a.Alike)
	}
	return fmt.Sprintf("%s %s direct, %d pairs", a.Layout, words.Counted(a.Direct, "GPU"),
		a.Alike)
}

// Listed returns layouts in the form "root 112, mirror 120".
func Listed(layouts []Alternative) string {
	return strings.Join(topology.Map(layouts, Alternative.String), ", ")
}

// Alternatives returns what each layout gives that builds a tree of its own and can be planned.
func (v *VM) Alternatives() []Alternative {
	current := v.Current().Plan
	if current == nil {
		return nil
	}

	var all []Alternative
	for _, layout := range current.Layouts() {
		if result := v.WithLayout(layout); result.Plan != nil {
			one := AlternativeOf(result.Plan)
			one.Layout = layout
			all = append(all, one)
		}
	}

	return all
}

// Prospect returns the plan of the hook. If neither a flag nor a VMI names the layout, it plans
// with the layout of the current tree, and isCurrent is true.
func (v *VM) Prospect() (result Result, isCurrent bool) {
	_, isGiven := v.planner.Flags[policy.KeyLayout]
	if current := v.Current().Plan; !isGiven && v.VMI == nil && current != nil &&
		current.TreeLayout() != "" {
		return v.WithLayout(current.TreeLayout()), true
	}

	return v.Plan(), false
}

// plan makes a plan with all warnings.
func (v *VM) plan(which variant) Result {
	result, isMade := v.plans[which]
	if !isMade {
		result = v.planGuarded(which, true)
		if v.plans != nil {
			v.plans[which] = result
		}
	}

	return result
}

// planGuarded makes a plan, or an error of a panic.
func (v *VM) planGuarded(which variant, diagnosed bool) (result Result) {
	defer func() {
		if cause := recover(); cause != nil {
			result = Result{Domain: v.request.Domain, Err: newPanicError(cause)}
		}
	}()
	if v.panicked != nil {
		return Result{Domain: v.request.Domain, Err: v.panicked}
	}

	result = v.planVariant(which)
	if diagnosed {
		result = v.withHostFacts(result)
	}

	return result
}

// planVariant makes a plan and the domain that it results in.
func (v *VM) planVariant(which variant) Result {
	if which.current {
		return v.describeCurrent()
	}

	wanted := v.policyOf(which)
	result := Result{Domain: v.request.Domain, vm: v}
	fail := func(kind Kind, err error) Result {
		result.Err, result.Kind = err, kind
		return result
	}

	// A dry run and a discarded result never fail a VM.
	result.Strict = wanted.Policy.Strict && !wanted.Policy.DryRun && !v.request.Discarded &&
		(v.VMI == nil || !v.VMI.MigrationInProgress)
	result.VMI = v.VMI
	if err := cmp.Or(v.planner.Invalid, v.vmiErr); err != nil {
		return fail(Malformed, err)
	}

	result.Policy = wanted.Policy
	if wanted.Err != nil && result.Strict {
		return fail(Malformed, wanted.Err)
	}
	if v.domainErr != nil {
		return fail(Malformed, v.domainErr)
	}

	plan, err := v.planPlaces(wanted)
	if err != nil {
		return fail(Malformed, err)
	}

	result.Plan = plan
	changed, err := plan.Apply()
	if err != nil {
		return fail(Internal, err)
	}

	if result.Strict {
		if err := refusal(plan); err != nil {
			return fail(Refused, err)
		}
	}

	if wanted.Policy.DryRun || changed == nil {
		return result
	}

	if err := v.planner.Limit.CheckResult(v.request.Domain, changed); err != nil {
		return fail(Refused, err)
	}

	result.Domain = changed
	return result
}

// describeCurrent describes the current tree. Nothing is planned, so that nothing can be refused.
func (v *VM) describeCurrent() Result {
	result := Result{Domain: v.request.Domain, VMI: v.VMI, Kind: Malformed, vm: v}
	result.Err = cmp.Or(v.planner.Invalid, v.vmiErr, v.domainErr)
	if result.Err != nil {
		return result
	}

	result.Plan, result.Err = placement.Describe(v.input(v.resolved))
	if result.Err == nil {
		result.Policy = result.Plan.Policy
	}

	return result
}

// input returns the input of a plan by a policy.
func (v *VM) input(wanted resolved) placement.Input {
	return placement.Input{
		Domain: v.domain, Host: v.shown.host, Variables: v.planner.Variables, VMI: v.VMI,
		Policy:   wanted.Policy,
		Warnings: slices.Concat(wanted.Warnings, v.shown.problems, v.planner.Problems),
	}
}

// planPlaces plans the places of the devices, with the fragments of the keys. The first plan may
// give the switch ports links. If the firmware has no room for these ports, which only a plan
// shows, a second plan has none.
func (v *VM) planPlaces(wanted resolved) (*placement.Plan, error) {
	in := v.input(wanted)
	in.Domain = v.asHanded()
	plan, err := v.planKeys(in)
	if err != nil {
		return nil, err
	}

	if in.NoRoomForPorts = keys.NoRoomForPorts(plan); in.NoRoomForPorts != "" {
		return v.planKeys(in)
	}

	return plan, nil
}

// planKeys plans the places, then the fragments of the keys.
func (v *VM) planKeys(in placement.Input) (*placement.Plan, error) {
	plan, err := placement.New(in)
	if err != nil {
		return nil, err
	}

	return keys.Write(keys.Planned{
		Plan:             plan,
		VMI:              v.VMI,
		PhysBits:         v.planner.PhysBits,
		CloudInitSkipped: v.request.CloudInitSkipped,
	}), nil
}

// asHanded returns the domain as virt-launcher hands it to the hook, with the machine of the VMI:
// libvirt's own XML of a running VM names a version of it.
func (v *VM) asHanded() *domain.Domain {
	if !v.request.Running || v.VMI == nil || !libvirt.IsVersionOf(v.domain.Machine, v.VMI.Machine) {
		return v.domain
	}

	d := *v.domain
	d.Machine = v.VMI.Machine
	return &d
}

// withHostFacts adds the host's facts about the devices to a result, and their warnings.
func (v *VM) withHostFacts(result Result) Result {
	if result.Plan != nil {
		plan := result.Plan.Diagnosed(v.shown.host, v.planner.Partitions, v.shown.problems)
		result.Plan = plan.With(plan.Changes.Marked, keys.NCCLExtras(plan), nil)
	}
	return result
}

// policyOf returns the policy of a variant.
func (v *VM) policyOf(which variant) resolved {
	wanted := v.resolved
	if which.layout != "" {
		wanted.Policy = wanted.Policy.WithLayout(which.layout)
	}
	return wanted
}

// Result is a plan, and the domain that it results in.
type Result struct {
	Domain []byte          // the bytes to return
	Plan   *placement.Plan // nil when an error came before it
	Policy policy.Policy   // zero when an error came before it
	VMI    *kubevirt.VMI   // nil when there is none
	Strict bool            // whether Err has to fail the call
	Err    error           // of the kind Kind
	Kind   Kind

	vm *VM
}

// Changed reports whether the plan changes anything, in a dry run too.
func (r Result) Changed() bool {
	return r.Plan != nil && !r.Plan.Changes.IsZero()
}

// IsRefused reports whether strict policy, or a limit, refuses the plan.
func (r Result) IsRefused() bool {
	return r.Err != nil && r.Kind == Refused
}

// Kind is the cause of an error.
type Kind int

// The kinds of error.
const (
	Internal  Kind = iota // a bug in this program
	Malformed             // the domain, the VMI or the policy is invalid
	Refused               // strict policy and an unplaced device, or a result over Limit.Result
)

// PanicError is a panic that was caught.
type PanicError struct {
	Cause any
	Stack []byte
}

func (e *PanicError) Error() string { return "internal error: " + words.OfPanic(e.Cause) }

func newPanicError(cause any) *PanicError { return &PanicError{Cause: cause, Stack: debug.Stack()} }
