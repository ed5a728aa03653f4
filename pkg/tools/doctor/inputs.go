package doctor

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Inputs are the inputs of the checks. An unknown one is nil or empty.
type Inputs struct {
	Host      *topology.Host    // all of it, with details; never nil
	Problems  []reasons.Finding // of reading the host and the environment variables
	Variables []env.Variable    // empty but not nil: those of compute are known

	VMInputs            // that the checks of a VM look at
	Others   []VMInputs // the other VMs of the node, if several are given
	Node     bool       // several domains are given, which are those of the node

	HostPhysBits int // physical address bits of the host's CPUs, 0 when not known
	Sockets      *Sockets
	Limits       *Limits // of the container

	kubevirt.Installation // for InstallationChecks, which look at nothing else
}

// VMInputs has the inputs of the checks of a VM.
type VMInputs struct {
	Name        string // for results, if several VMs are given
	plan.Result        // the plan of the hook for its domain; no plan without one

	PolicyWarnings []reasons.Finding         // if there is no plan
	PortHelp       string                    // what the VM's QEMU prints of cxl-upstream
	Lost           *Lost                     // of a running VM that has the hook; nil for others
	Alternatives   func() []plan.Alternative // the counts of other layouts; nil if unknown
}

// NewInputs returns the inputs of the checks of a host, and the planner of its VMs, which
// has read all of it.
func NewInputs(p plan.Planner) (Inputs, plan.Planner) {
	p, host, problems := p.WholeHost()
	return Inputs{
		Host: host, Problems: slices.Concat(p.Problems, problems), Variables: p.Variables,
	}, p
}

// NewVMInputs returns the inputs of the checks of a VM with a domain. name is used for a domain
// that has none.
func NewVMInputs(vm *plan.VM, name string) VMInputs {
	planned := VMInputs{Name: name, Result: vm.Plan(), Alternatives: vm.Alternatives}
	if planned.Plan != nil {
		planned.Name = cmp.Or(planned.Plan.Domain().Name, name)
	}
	return planned
}

// layout returns the layout of the plan, or of the policy if there is no plan.
func (vm VMInputs) layout() policy.Layout {
	if vm.Plan != nil {
		return vm.Plan.Layout
	}
	return vm.Policy.Layout
}

// Sockets describes the directory where virt-launcher looks for hooks.
type Sockets struct {
	Dir     string
	Missing bool   // Dir does not exist
	Problem string // why Dir cannot be listed or written to, "" when it can
	Name    string // of this sidecar's socket, "" when CONTAINER_NAME is not set
	TooLong bool   // the path of this sidecar's socket is longer than a unix socket's can be
	Files   []SocketFile
}

// SocketFile is a file in it, or in a sidecar's subdirectory.
type SocketFile struct {
	Path    string // from the directory
	Socket  bool
	Answers bool // a process accepts connections
}

// The conditions of checks.
func (in Inputs) hasPCI() bool       { return len(in.Host.Functions) > 0 && !in.isElsewhere() }
func (in Inputs) hasFunctions() bool { return len(in.functions()) > 0 }
func (in Inputs) hasHardware() bool  { return len(in.hardware()) > 0 }
func (in Inputs) hasDomain() bool    { return in.Plan != nil }
func (in Inputs) hasDevices() bool   { return in.Plan != nil && len(in.Plan.Devices) > 0 }
func (in Inputs) hasVM() bool        { return in.Plan != nil || in.VMI != nil }
func (in Inputs) hasOthers() bool    { return in.Plan != nil && len(in.Others) > 0 }
func (in Inputs) hasVMI() bool       { return in.VMI != nil }
func (in Inputs) hasBoth() bool      { return in.Plan != nil && in.VMI != nil }
func (in Inputs) isAnswered() bool   { return in.Lost != nil }
func (in Inputs) hasSockets() bool   { return in.Sockets != nil }
func (in Inputs) hasLimits() bool    { return in.Limits != nil }

// subjects returns the devices to look at, by ID: those of the domains and the environment
// variables; without either, all that the host offers to guests.
func (in Inputs) subjects() []topology.DeviceID {
	var ids []topology.DeviceID
	for _, v := range in.Variables {
		ids = append(ids, v.IDs...)
	}

	for _, vm := range in.vms() {
		if vm.Plan == nil {
			continue
		}
		for _, d := range vm.Plan.Devices {
			if !d.Added { // those of the domain as it came
				ids = append(ids, d.ID)
			}
		}
	}

	if len(ids) == 0 && in.Plan == nil {
		for _, f := range in.Host.Functions {
			if f.IsAssignable() {
				ids = append(ids, topology.PCIDevice(f.Address))
			}
		}
		for _, m := range in.Host.MDEVs {
			ids = append(ids, topology.MediatedDevice(m.UUID))
		}
	}

	slices.SortFunc(ids, topology.DeviceID.Compare)
	return slices.Compact(ids)
}

// isElsewhere reports whether the host shows none of the devices: it is not the VM's node,
// and other checks skip them.
func (in Inputs) isElsewhere() bool {
	ids := in.subjects()
	return len(ids) > 0 && !slices.ContainsFunc(ids, in.Host.Shows)
}

func (in Inputs) vms() []VMInputs { return append([]VMInputs{in.VMInputs}, in.Others...) }

// functions returns the subjects that are PCI functions of the host.
func (in Inputs) functions() []*topology.Function {
	var all []*topology.Function
	for _, id := range in.subjects() {
		if a, isPCI := id.PCI(); isPCI && in.Host.FunctionAt(a) != nil {
			all = append(all, in.Host.FunctionAt(a))
		}
	}

	return all
}

// hardware returns the physical functions that the subjects are or are part of, each once.
func (in Inputs) hardware() []topology.DeviceID {
	var ids []topology.DeviceID
	for _, id := range in.subjects() {
		f := in.Host.Hardware(in.Host.Function(id))
		if f != nil && !slices.Contains(ids, topology.PCIDevice(f.Address)) {
			ids = append(ids, topology.PCIDevice(f.Address))
		}
	}

	return ids
}

// paths returns the ports above the hardware, and the other functions on its paths, each once.
func (in Inputs) paths() (ports, others []*topology.Function) {
	ids := in.hardware()
	tree := in.Host.Tree(ids)
	for _, id := range ids {
		for _, n := range tree.Node(id).Path() {
			f := in.Host.Function(id)
			if a, isBridge := n.ID.(topology.Address); isBridge {
				f = in.Host.FunctionAt(a)
			}

			switch {
			case n.Kind == topology.Root || f == nil || slices.Contains(ports, f) ||
				slices.Contains(others, f):
			case n.Kind.IsPort():
				ports = append(ports, f)
			default:
				others = append(others, f)
			}
		}
	}

	return ports, others
}

// resultsOf returns findings as results.
func resultsOf(all []reasons.Finding) []Result {
	return topology.Map(all, func(f reasons.Finding) Result {
		return Result{Status: Status(f.Severity), Device: f.Device, Found: f.Text, Hint: f.Remedy}
	})
}

// found returns the plan's findings of a check.
func (vm VMInputs) found(check string) []Result {
	return resultsOf(findings.OfCheck(vm.Plan, check))
}

// problems returns the problems that a check reports.
func (in Inputs) problems(check string) []Result {
	return resultsOf(slices.DeleteFunc(slices.Clone(in.Problems),
		func(f reasons.Finding) bool { return f.Check != check }))
}

// Limits are the resource limits of a container.
type Limits struct {
	MemoryBytes uint64 // memory.max, 0 for none
	MilliCPU    int    // cpu.max in thousandths of a CPU, 0 for none
}
