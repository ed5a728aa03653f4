package reasons

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/topology"
)

// Problem is a part of an input that cannot be used. The rest of the input is
// used.
type Problem struct {
	Code   Code              // bad-variable-value, variable-conflict, no-sysfs or bad-sysfs
	Device topology.DeviceID // the device that sysfs does not show; else zero
	Source string            // the environment variable, or the path in /sys: "PCI_RESOURCE_NVIDIA_COM_GPU"
	Text   string            // what is wrong, abridged
}

// Warning returns the problem as a warning of a plan.
func (p Problem) Warning() Warning {
	w := NewWarning(p.Code, nil, p.Source+": "+p.Text)
	if p.Device != (topology.DeviceID{}) {
		w.Device = &p.Device
	}
	return w
}

// Warnings returns problems as warnings.
func Warnings(problems []Problem) []Warning {
	warnings := make([]Warning, len(problems))
	for i, p := range problems {
		warnings[i] = p.Warning()
	}
	return warnings
}

// SortProblems sorts problems and removes duplicates, so that the result does not
// depend on the order of devices or files.
func SortProblems(problems []Problem) []Problem {
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.Source, b.Source), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text),
		)
	})
	return slices.Compact(problems)
}
