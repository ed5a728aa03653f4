package mutate

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// Mutator holds what all calls have in common. It keeps nothing between calls.
type Mutator struct {
	Sysfs     fs.FS // the host, or a snapshot of one
	Variables []env.Variable
	Problems  []env.Problem // of the variables; reported with every call

	Flags            map[policy.Key]string // as given on the command line
	AnnotationsFirst bool                  // annotations of the VMI beat flags
	Locked           []policy.Key          // but for these
	Keep             []string              // aliases that are not moved
	Details          bool                  // read the host's link speeds too
	Limit            Limit                 // of the domains that are worked on
}

// Request is one call.
type Request struct {
	Domain []byte
	VMI    []byte // JSON; nil when there is none
	// Discarded says that the caller throws the answer away, as KubeVirt does
	// on the target of a migration: strict is off then.
	Discarded bool
}

// Result is the answer to a call.
type Result struct {
	Domain []byte          // the bytes to hand back
	Plan   *placement.Plan // nil when an error came before it
	Policy policy.Policy   // zero when an error came before it
	VMI    *env.VMI        // nil when there is none
	Strict bool            // whether Err has to fail the call
	Err    error           // nil, or an *Error
}

// Changed reports whether the plan changes anything, also in a dry run.
func (r Result) Changed() bool {
	return r.Plan != nil && !r.Plan.Changes.IsZero()
}

// Kind says whose fault an error is.
type Kind int

// The kinds of error.
const (
	Internal  Kind = iota // this program's
	Malformed             // the domain, the VMI or the policy cannot be used
	Refused               // strict policy and a device that has no place
)

// Error is an error of a call.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without its kind.
func (e *Error) Unwrap() error { return e.Err }

// Mutate answers a call. It does not fail and it does not panic: an error is in
// the result, beside the bytes that came in.
func (m Mutator) Mutate(req Request) (result Result) {
	result = Result{Domain: req.Domain, Strict: m.strictFlag() && !req.Discarded}
	defer func() {
		if cause := recover(); cause != nil {
			result.Domain = req.Domain
			result.Err = &Error{Internal, &PanicError{Cause: cause, Stack: debug.Stack()}}
		}
	}()
	changed, err := m.mutate(req, &result)
	if err == nil && result.Strict {
		err = refusal(result.Plan)
	}
	if err != nil {
		result.Err = asError(err)
		return result
	}
	if result.Changed() && !result.Plan.Policy.DryRun {
		result.Domain = changed
	}
	return result
}

// mutate fills the result as far as it comes and returns the changed bytes.
func (m Mutator) mutate(req Request, result *Result) ([]byte, error) {
	vmi, err := parseVMI(req.VMI)
	if err != nil {
		return nil, &Error{Malformed, err}
	}
	result.VMI = vmi
	wanted, warnings, err := policy.Resolve(m.policySource(vmi))
	result.Policy = wanted
	// A dry run never fails a VM, and neither does a call whose answer is thrown away.
	result.Strict = wanted.Strict && !wanted.DryRun && !req.Discarded && (vmi == nil || !vmi.MigrationInProgress)
	if err != nil && result.Strict {
		return nil, &Error{Malformed, err}
	}
	if err := m.Limit.Check(req.Domain); err != nil {
		return nil, &Error{Malformed, err}
	}
	d, err := domain.Parse(req.Domain)
	if err != nil {
		return nil, &Error{Malformed, fmt.Errorf("parse domain: %w", err)}
	}
	host, problems := m.readHost(d, wanted)
	for _, problem := range slices.Concat(problems, m.Problems) {
		warnings = append(warnings, problem.Warning())
	}
	plan, err := placement.New(placement.Input{
		Domain: d, Host: host, Variables: m.Variables, VMI: vmi, Policy: wanted, Warnings: warnings,
	})
	if err != nil {
		return nil, &Error{Malformed, err}
	}
	plan = withNCCL(plan)
	result.Plan = plan
	return apply(d, plan)
}

// apply makes the changed bytes and reads them again to see that they are what
// the plan says. A plan that changes nothing gives nil.
func apply(d *domain.Domain, plan *placement.Plan) ([]byte, error) {
	if plan.Changes.IsZero() {
		return nil, nil
	}
	changed, err := d.Apply(plan.Changes)
	if err != nil {
		return nil, fmt.Errorf("apply the plan: %w", err)
	}
	again, err := domain.Parse(changed)
	if err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}
	if err := plan.Verify(again); err != nil {
		return nil, fmt.Errorf("verify the result: %w", err)
	}
	return changed, nil
}

func parseVMI(data []byte) (*env.VMI, error) {
	if data == nil {
		return nil, nil
	}
	return env.ParseVMI(data)
}

func (m Mutator) policySource(vmi *env.VMI) policy.Source {
	src := policy.Source{
		Flags: m.Flags, AnnotationsFirst: m.AnnotationsFirst, Locked: m.Locked, Keep: m.Keep,
	}
	if vmi != nil {
		src.HasVMI, src.Annotations = true, vmi.Annotations
	}
	return src
}

// readHost reads the devices that the plan may be about. Without devices there
// is nothing to read.
func (m Mutator) readHost(d *domain.Domain, wanted policy.Policy) (*topology.Host, []env.Problem) {
	ids := placement.Candidates(d, m.Variables)
	if len(ids) == 0 {
		return &topology.Host{}, nil
	}
	host, problems := env.ReadHost(m.Sysfs, ids)
	if m.Details || wanted.NCCLTopology == policy.NCCLTopologyFWCfg {
		problems = append(problems, env.ReadDetails(m.Sysfs, host)...)
	}
	return host, problems
}

// strictFlag is whether flags alone ask for strict: what holds until the VMI's
// annotations are known.
func (m Mutator) strictFlag() bool {
	p, _, err := policy.Resolve(policy.Source{Flags: m.Flags})
	return err == nil && p.Strict && !p.DryRun
}

// asError gives an error without a kind that of an internal one.
func asError(err error) error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	return &Error{Internal, err}
}

// PanicError is a panic that was caught.
type PanicError struct {
	Cause any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v", e.Cause) }
