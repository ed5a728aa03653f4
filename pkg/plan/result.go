package plan

import (
	"fmt"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
)

// Result is a plan, and the domain that it results in.
type Result struct {
	Domain []byte          // the bytes to return
	Plan   *placement.Plan // nil when an error came before it
	Policy policy.Policy   // zero when an error came before it
	VMI    *env.VMI        // nil when there is none
	Strict bool            // whether Err has to fail the call
	Err    error           // of the kind Kind
	Kind   Kind

	vm *VM
}

// Changed reports whether the plan changes anything, in a dry run too.
func (r Result) Changed() bool {
	return r.Plan != nil && !r.Plan.Changes.IsZero()
}

// PlanError returns why there is no plan, nil where there is one.
func (r Result) PlanError() error {
	if r.Plan != nil {
		return nil
	}
	return r.Err
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

func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v", e.Cause) }
