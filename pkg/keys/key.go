package keys

import (
	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
)

// Planned is the input of keys: a VM with a plan of its devices' places.
type Planned struct {
	*placement.Plan
	VMI *kubevirt.VMI // nil when there is none

	PhysBits func() int // physical address bits of the host's CPUs, 0 for unknown; may be nil

	// CloudInitSkipped has the reason why the hook is not called for the VM's cloud-init data;
	// "" if it is called, or if that is unknown.
	CloudInitSkipped string
}

// key is a policy key that writes fragments into a domain.
type key struct {
	name  policy.Key
	mark  domain.Mark           // of all that it writes
	needs host.Needs            // of the host beside places
	write func(Planned) Writing // unless the key is off
}

// Writing lists the fragments that a domain has to have for a key.
type Writing struct {
	domain.Marked
	Line     string // for explain and the log; "" where the key gives nothing
	Warnings []reasons.Finding
}

// optionMark returns the mark of a key that writes one option of QEMU: its id.
func optionMark(key policy.Key) domain.Mark { return domain.OptionPrefix + domain.Mark(key) }

// one writes one fragment.
func one(fragment domain.Fragment, line string) Writing {
	return Writing{Marked: domain.Marked{Fragments: []domain.Fragment{fragment}}, Line: line}
}

// refused writes nothing, with a warning why.
func refused(code reasons.Code, text string) Writing {
	return Writing{Warnings: []reasons.Finding{reasons.NewFinding(code, nil, text)}}
}
