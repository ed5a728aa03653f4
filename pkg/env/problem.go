package env

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/topology"
)

// Problem is something in an input that cannot be used. The rest of the input
// is used nevertheless.
type Problem struct {
	Code   string            // kebab case, documented in docs/reasons.md
	Device topology.DeviceID // that sysfs does not show; zero when it concerns no single device
	Source string            // the variable, or the file below /sys: "PCI_RESOURCE_NVIDIA_COM_GPU"
	Text   string            // what is wrong, without the whole payload
}

// The codes of problems.
const (
	CodeBadVariable      = "bad-variable-value" // part of a variable is not used
	CodeVariableConflict = "variable-conflict"  // a variable is given twice with different values
	CodeNoSysfs          = "no-sysfs"           // sysfs does not show a device
	CodeBadSysfs         = "bad-sysfs"          // a file of sysfs cannot be read or says nonsense
)

// sortProblems orders problems by what they say, each once, so that no order
// of devices or files shows through.
func sortProblems(problems []Problem) []Problem {
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.Source, b.Source), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text),
		)
	})
	return slices.Compact(problems)
}
