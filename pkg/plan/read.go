package plan

import (
	"fmt"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
)

// Read reads a VM and all of the host that its plans depend on. Invalid input is an error of each
// plan. Neither Read nor a plan panics; on an error the plan has the domain of the request.
func (p Planner) Read(req Request) *VM { return p.read(req, p.planNeeds) }

// Answer returns the plan of the policy, and reads no more of the host than that depends on.
// The plan lacks the facts that Diagnose adds.
func (p Planner) Answer(req Request) Result {
	return p.read(req, p.answerNeeds).planGuarded(variant{}, false)
}

// Diagnose adds the host's remaining facts about the devices to an answer, and their
// warnings.
func (p Planner) Diagnose(answer Result) Result {
	vm := answer.vm
	if answer.Plan == nil {
		return answer
	}

	if needs := vm.shown.needs | p.planNeeds(answer.Policy); needs != vm.shown.needs {
		vm.shown = p.readHost(vm.candidates, needs)
	}

	return vm.withHostFacts(answer)
}

// read reads a VM, and the part of the host that the policy needs.
func (p Planner) read(req Request, needs func(policy.Policy) host.Needs) (vm *VM) {
	defer func() {
		if cause := recover(); cause != nil {
			vm = &VM{planner: p, request: req, panicked: newPanicError(cause)}
		}
	}()

	vm = &VM{planner: p, request: req, plans: map[variant]Result{}}
	if vm.VMI = req.Parsed; vm.VMI == nil && len(req.VMI) > 0 {
		if vm.VMI, vm.vmiErr = kubevirt.ParseVMI(req.VMI); vm.vmiErr != nil {
			vm.resolved = resolve(p.Source)
			return vm
		}
	}

	// The policy comes before the domain, so that a refused one still says what was asked for.
	vm.resolved = resolve(p.withVMI(vm.VMI))
	if vm.domainErr = p.Limit.Check(req.Domain); vm.domainErr != nil {
		return vm
	}

	var err error
	if vm.domain, err = domain.Parse(req.Domain); err != nil {
		vm.domainErr = fmt.Errorf("parse domain: %w", err)
		return vm
	}

	vm.candidates = placement.Candidates(vm.domain, p.Variables)

	// A tool that plans many VMs of a node has read its host already.
	if p.whole != nil && len(vm.candidates) > 0 {
		vm.shown = *p.whole
	} else {
		vm.shown = p.readHost(vm.candidates, needs(vm.resolved.Policy))
	}

	return vm
}
