package plan

import (
	"io/fs"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/keys"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
)

// Planner holds the inputs that all VMs of a host share. It keeps no state between calls.
type Planner struct {
	Sysfs     fs.FS // the host, or a snapshot of one
	Variables []env.Variable
	Problems  []reasons.Finding // of the variables; every plan reports them

	policy.Source // of the policy, without the VMI's annotations

	// Invalid is why the arguments that all this comes from are wrong: the error of each plan.
	Invalid error

	// Partitions are the host's NVLink partitions, as far as they are known. Only what is found
	// about a plan depends on them, so a command plans as a hook, which knows none.
	Partitions nvlink.List

	Details bool // read the details of devices, such as links, with any policy
	Limit   domain.Limit

	// PhysBits returns the physical address bits of the host's CPUs, 0 where unknown; nil
	// for never. Only policy keys need it.
	PhysBits func() int

	whole *reading // all of the host; nil unless WholeHost has read it
}

// Request is one domain to plan.
type Request struct {
	Domain []byte
	VMI    []byte        // JSON; empty when there is none
	Parsed *kubevirt.VMI // the VMI where the caller has parsed it; VMI is ignored then
	// Discarded is true where the caller ignores the result, as KubeVirt does on the target
	// of a migration. Strict is off then.
	Discarded bool
	// Running is true where Domain is libvirt's own XML of a running VM, and not that of a call.
	Running bool
	// CloudInitSkipped is the reason why CloudInit is not called for this VM; "" if it is
	// called, or if that is unknown.
	CloudInitSkipped string
}

// reading is the result of reading a host.
type reading struct {
	host     *topology.Host
	problems []reasons.Finding
	needs    host.Needs // that it was read for
}

func (p Planner) readHost(ids []topology.DeviceID, needs host.Needs) reading {
	shown, problems := host.Read(p.Sysfs, ids, needs)
	return reading{host: shown, problems: problems, needs: needs}
}

// WholeHost returns the planner after it has read all of its host with details, and the
// result. Its VMs read nothing more.
func (p Planner) WholeHost() (Planner, *topology.Host, []reasons.Finding) {
	whole := p.readHost(nil, host.All|host.Details)
	p.whole = &whole
	return p, whole.host, whole.problems
}

// answerNeeds returns the needs of the answer to a call. What warnings alone need is read after the
// reply: for 64 devices it takes a third of an answer's CPU time again, nearly all of it in system
// calls (BenchmarkMutate).
func (p Planner) answerNeeds(wanted policy.Policy) host.Needs {
	needs := keys.Needs(wanted)

	// Layout auto asks which devices are GPUs and NICs; every layout which GPUs need AtomicOps.
	if wanted.Layout != policy.LayoutKeep {
		needs |= host.Classes
	}

	// Devices of variables are added by IOMMU group.
	if len(p.Variables) > 0 {
		needs |= host.Groups
	}

	// Companions are among the related functions. With these nearly all is read, so the input of
	// warnings is read, too.
	if needs.Has(host.Related) || wanted.Companions == policy.CompanionsAdd {
		needs |= host.Related | warningNeeds
	}

	return needs
}

// warningNeeds are the needs of warnings alone.
const warningNeeds = host.Warnings | host.LinkSpeeds

// planNeeds returns the needs of a whole plan.
func (p Planner) planNeeds(wanted policy.Policy) host.Needs {
	needs := p.answerNeeds(wanted) | warningNeeds | host.Related
	if p.Details {
		needs |= host.Details
	}
	return needs
}

// Policy returns the policy of a VMI, which may be nil, and the warnings and the error of
// its flags and annotations.
func (p Planner) Policy(vmi *kubevirt.VMI) (policy.Policy, []reasons.Finding, error) {
	return policy.Resolve(p.withVMI(vmi))
}

// withVMI returns the source of the policy with a VMI, which may be nil.
func (p Planner) withVMI(vmi *kubevirt.VMI) policy.Source {
	source := p.Source
	if vmi != nil {
		source.HasVMI, source.Annotations = true, vmi.Annotations
	}
	return source
}
