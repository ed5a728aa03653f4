package mutate

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/guest"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Mutator holds what all calls share. It keeps no state between calls.
type Mutator struct {
	Sysfs     fs.FS // the host, or a snapshot of one
	Variables []env.Variable
	Problems  []reasons.Problem // of the variables; every call reports them

	policy.Source // of the policy, without the VMI's annotations

	Details bool // read the host's link speeds too
	Limit   domain.Limit

	// PhysBits returns how many physical address bits the host's CPUs have, 0 where that
	// is not known; nil for never. It is called only where a policy key asks for it.
	PhysBits func() int

	asIs bool // keep what a hook has written besides places
}

// Request is one call.
type Request struct {
	Domain []byte
	VMI    []byte   // JSON; empty when there is none
	Parsed *env.VMI // the VMI where the caller has parsed it; VMI is ignored then
	// Discarded says that the caller ignores the result, as KubeVirt does on the
	// target of a migration. Strict is off then.
	Discarded bool
	// NoReader says why CloudInit is not called for this VM; "" where it is, or where
	// nobody knows.
	NoReader string
}

// Result is the result of a call.
type Result struct {
	Domain []byte          // the bytes to return
	Plan   *placement.Plan // nil when an error came before it
	Policy policy.Policy   // zero when an error came before it
	VMI    *env.VMI        // nil when there is none
	Strict bool            // whether Err has to fail the call
	Err    error           // nil, or an *Error

	candidates []topology.DeviceID // what the host was read for
	problems   []reasons.Problem   // of that reading
	whole      bool                // whether it was of all that readHost reads
}

// Changed reports whether the plan changes anything, in a dry run too.
func (r Result) Changed() bool {
	return r.Plan != nil && !r.Plan.Changes.IsZero()
}

// Kind is the cause of an error.
type Kind int

// The kinds of error.
const (
	Internal  Kind = iota // a bug in this program
	Malformed             // the domain, the VMI or the policy is invalid
	Refused               // strict policy and an unplaced device, or a result over Limit.Result
)

// Error is an error of a call.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without its kind.
func (e *Error) Unwrap() error { return e.Err }

// Mutate handles a call. It never panics. On an error the result has the
// domain of the request.
func (m Mutator) Mutate(req Request) (result Result) {
	defer unchangedOnPanic(req, &result)
	return m.Diagnose(m.handle(req, true))
}

// Answer handles a call as Mutate does, and reads no more of the host than the
// answer depends on. The plan lacks what Diagnose adds.
func (m Mutator) Answer(req Request) (result Result) {
	defer unchangedOnPanic(req, &result)
	return m.handle(req, false)
}

// Diagnose adds to an answer the rest of what the host says of the devices, and the
// warnings that follow from it.
func (m Mutator) Diagnose(answer Result) Result {
	if answer.Plan == nil {
		return answer
	}
	shown := answer.Plan.Host
	if !answer.whole {
		shown, answer.problems = host.Read(m.Sysfs, answer.candidates, host.Needs{Warnings: true})
	}
	diagnosed := answer.Plan.Diagnosed(shown, reasons.Warnings(answer.problems))
	answer.Plan = diagnosed.With(diagnosed.Changes.Managed, nil, guest.SpeedWarnings(diagnosed, m.Sysfs))
	return answer
}

func unchangedOnPanic(req Request, result *Result) {
	if cause := recover(); cause != nil {
		result.Domain = req.Domain
		result.Err = &Error{Internal, &PanicError{Cause: cause, Stack: debug.Stack()}}
	}
}

// handle answers a call. whole says to read all of the host that there is to say
// something about.
func (m Mutator) handle(req Request, whole bool) (result Result) {
	result.Domain = req.Domain
	result.whole = whole
	changed, err := m.mutate(req, &result)
	var known *Error
	switch {
	case errors.As(err, &known):
		result.Err = known
	case err != nil:
		result.Err = &Error{Internal, err}
	case changed != nil && !result.Policy.DryRun:
		result.Domain = changed
	}
	return result
}

// readHost reads all of the host that a plan says something about.
func (m Mutator) readHost(ids []topology.DeviceID, p policy.Policy) (*topology.Host, []reasons.Problem) {
	return host.Read(m.Sysfs, ids, host.Needs{
		Related: true, Details: m.Details || p.NCCLTopology != policy.NCCLTopologyNone || p.Clique != policy.CliqueNone,
	})
}

// mutate fills in the result until an error occurs. It returns the changed
// domain, nil when nothing changes.
func (m Mutator) mutate(req Request, result *Result) ([]byte, error) {
	vmi, vmiErr := req.parseVMI()
	wanted, warnings, err := policy.Resolve(m.sourceWith(vmi))
	// A dry run and a discarded result never fail a VM.
	result.Strict = wanted.Strict && !wanted.DryRun && !req.Discarded && (vmi == nil || !vmi.MigrationInProgress)
	if vmiErr != nil {
		return nil, &Error{Malformed, vmiErr}
	}
	result.VMI, result.Policy = vmi, wanted
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
	result.candidates = placement.Candidates(d, m.Variables)
	// Companions are found among the other functions of a device, and the file for NCCL
	// has links. Layout auto asks which devices NCCL pairs, and devices of variables are
	// added by group.
	result.whole = result.whole || wanted.Companions == policy.CompanionsAdd || wanted.HasExtras()
	var shown *topology.Host
	if result.whole {
		shown, result.problems = m.readHost(result.candidates, wanted)
	} else {
		shown, result.problems = host.Read(m.Sysfs, result.candidates, host.Needs{
			Classes: wanted.Layout == policy.LayoutAuto, Groups: len(m.Variables) > 0,
		})
	}
	warnings = slices.Concat(warnings, reasons.Warnings(result.problems), reasons.Warnings(m.Problems))
	plan, err := placement.New(placement.Input{
		Domain: d, Host: shown, Variables: m.Variables, VMI: vmi, Policy: wanted, Warnings: warnings,
	})
	if err != nil {
		return nil, &Error{Malformed, err}
	}
	if !m.asIs {
		plan = guest.Write(guest.VM{Plan: plan, VMI: vmi, Sysfs: m.Sysfs, PhysBits: m.PhysBits, CloudInitSkipped: req.NoReader})
	}
	result.Plan = plan
	changed, err := plan.Apply()
	if err == nil && result.Strict {
		err = refusal(plan)
	}
	if err == nil && !wanted.DryRun {
		if err := m.Limit.CheckResult(req.Domain, changed); err != nil {
			return nil, &Error{Refused, err}
		}
	}
	return changed, err
}

// sourceWith is the source of the policy with a VMI, which may be nil.
func (m Mutator) sourceWith(vmi *env.VMI) policy.Source {
	source := m.Source
	if vmi != nil {
		source.HasVMI, source.Annotations = true, vmi.Annotations
	}
	return source
}

// parseVMI returns nil when there is no VMI.
func (r Request) parseVMI() (*env.VMI, error) {
	if r.Parsed != nil || len(r.VMI) == 0 {
		return r.Parsed, nil
	}
	return env.ParseVMI(r.VMI)
}

// PanicError is a panic that was caught.
type PanicError struct {
	Cause any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v", e.Cause) }
