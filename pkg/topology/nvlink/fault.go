package nvlink

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// IsSwitched reports whether a function is a GPU, or a virtual function of one, of a board that may
// have NVSwitches; false for nil.
func IsSwitched(f *topology.Function) bool { return f.GPUModel().Board.MaySwitch() }

// sizes are the numbers of GPUs that partitions have on any board.
var sizes = []int{1, 2, 4, 8, 16}

// IsSize reports whether a partition of any board has as many GPUs.
func IsSize(gpus int) bool { return slices.Contains(sizes, gpus) }

// HaveSwitches reports whether GPUs of one host are of boards with NVSwitches for sure: of a model
// that has no other boards, or more of them than a board without has.
func HaveSwitches(gpus []*topology.Function) bool {
	const largestUnswitched = 4
	return len(gpus) > largestUnswitched ||
		slices.ContainsFunc(gpus, func(f *topology.Function) bool {
			return f.GPUModel().Board == topology.SwitchedBoard
		})
}

// NumberFault says that no board has partitions of as many GPUs as a VM has among these functions.
// It returns "" if some board has, or if the board may be one without NVSwitches. No machine with
// more than 16 is known.
func NumberFault(functions []*topology.Function) string {
	const largest = 16
	gpus := slices.DeleteFunc(slices.Clone(functions), func(f *topology.Function) bool {
		return !IsSwitched(f)
	})

	if IsSize(len(gpus)) || len(gpus) > largest || !HaveSwitches(gpus) {
		return ""
	}
	return fault(len(gpus)) + "; partitions of these boards have 1, 2, 4 or 8 GPUs"
}

// Fault says that the GPUs of a VM, by address, are not a partition, and names the partitions of as
// many GPUs. It returns "" if they are one, or if the list has none of them. If the list has no
// addresses, only their number counts.
func (l List) Fault(gpus []topology.Address) string {
	modules, size := l.modulesAt(gpus), len(gpus)
	if size == 0 || len(l.Partitions) == 0 || len(l.Addresses) > 0 && len(modules) == 0 {
		return ""
	}

	var others []string
	for _, p := range l.Partitions {
		if len(p.Modules) != size {
			continue
		}

		// Without addresses it is not known which GPUs the VM has, and one partition of the size
		// is enough.
		if len(l.Addresses) == 0 || slices.Equal(p.Modules, modules) {
			return ""
		}

		others = append(others, fmt.Sprintf("%d (%s)", p.ID, l.name(p)))
	}

	if len(others) == 0 {
		return fmt.Sprintf("%s; none of this node has %s", fault(size),
			words.Counted(size, "GPU"))
	}
	return fmt.Sprintf("%s; those of %s are: %s", fault(size), words.Counted(size, "GPU"),
		words.FirstOf(others, 8, ", "))
}

// Concerns reports whether the partitions of a host are about a GPU: it is in one, or of a board
// with NVSwitches. On A100 Fabric Manager lists no partition of a GPU that failed or is in MIG mode
// (user guide, "Default GPU Partitions"); from H100 on it lists all.
func (l List) Concerns(f *topology.Function) bool {
	return len(l.Addresses) == 0 || IsSwitched(f) ||
		len(l.modulesAt([]topology.Address{f.LinkEnd()})) > 0
}

// fault begins a text about so many GPUs.
func fault(gpus int) string {
	subject := "its GPU is"
	if gpus != 1 {
		subject = fmt.Sprintf("its %d GPUs are", gpus)
	}
	return subject + " not an NVLink partition, so CUDA may not start (802, system not yet " +
		"initialized)"
}

// name lists the GPUs of a partition by address, those without one by physical id.
func (l List) name(p Partition) string {
	return strings.Join(topology.Map(p.Modules, func(m Module) string {
		if address, isKnown := l.Addresses[m]; isKnown {
			return address.String()
		}
		return fmt.Sprintf("physical id %d", m)
	}), " ")
}

// modulesAt returns the physical ids of GPUs, in ascending order, without those that are not known.
func (l List) modulesAt(gpus []topology.Address) (modules []Module) {
	for module, address := range l.Addresses {
		if slices.Contains(gpus, address) {
			modules = append(modules, module)
		}
	}

	slices.Sort(modules)
	return modules
}

// IsJoined reports whether a GPU of a VM with these GPUs reaches another of them over NVLink: a
// partition of several has it, all of whose GPUs the VM has. Without a list of partitions every GPU
// does, and one that the list has no address of.
func (l List) IsJoined(gpu topology.Address, gpus []topology.Address) bool {
	own, all := l.modulesAt([]topology.Address{gpu}), l.modulesAt(gpus)
	if len(l.Partitions) == 0 || len(own) == 0 {
		return true
	}

	return slices.ContainsFunc(l.Partitions, func(p Partition) bool {
		isMissing := func(m Module) bool { return !slices.Contains(all, m) }
		return len(p.Modules) > 1 && slices.Contains(p.Modules, own[0]) &&
			!slices.ContainsFunc(p.Modules, isMissing)
	})
}
