package doctor

import (
	"fmt"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Status is the verdict of a check.
type Status string

// The statuses, in the words of libvirt's virt-host-validate.
const (
	Pass Status = "PASS" // as it should be
	Warn Status = "WARN" // works, but not as well as possible or as requested
	Fail Status = "FAIL" // a device is not placed or lost, or the VM does not start
	Note Status = "NOTE" // worth knowing, or not visible from here
)

// Result is one finding of a check.
type Result struct {
	Name   string             `json:"name"`   // of the check
	Status Status             `json:"status"` // PASS, NOTE, WARN or FAIL
	Device *topology.DeviceID `json:"device"` // null when it concerns no single device
	Found  string             `json:"found"`  // the finding
	Hint   string             `json:"hint"`   // what to do; "" when there is nothing to do
	VM     string             `json:"vm"`     // "" for the host, and where one VM is given
}

// String formats the result as a line: `FAIL driver-bound: … (hint)`.
func (r Result) String() string {
	line := fmt.Sprintf("%s %s: %s", r.Status, r.Name, r.Found)
	if r.VM != "" {
		line = fmt.Sprintf("%s %s: %s: %s", r.Status, r.Name, r.VM, r.Found)
	}

	if r.Hint != "" {
		line += " (" + r.Hint + ")"
	}

	return line
}

func pass(format string, args ...any) []Result       { return result(Pass, "", format, args...) }
func note(hint, format string, args ...any) []Result { return result(Note, hint, format, args...) }
func warn(hint, format string, args ...any) []Result { return result(Warn, hint, format, args...) }
func fail(hint, format string, args ...any) []Result { return result(Fail, hint, format, args...) }

func result(status Status, hint, format string, args ...any) []Result {
	return []Result{{Status: status, Found: fmt.Sprintf(format, args...), Hint: hint}}
}

// about makes the results those of one device.
func about(id topology.DeviceID, results []Result) []Result {
	for i := range results {
		results[i].Device = &id
	}
	return results
}

// orPass returns the results, or a PASS if there are none.
func orPass(results []Result, format string, args ...any) []Result {
	if len(results) > 0 {
		return results
	}
	return pass(format, args...)
}

// list formats the first few items, and how many more there are.
func list[T fmt.Stringer](items []T) string {
	return words.FirstOf(topology.Map(items, T.String), 4, ", ")
}

// areOrIs formats devices as the subject of a sentence.
func areOrIs(ids []topology.DeviceID) string {
	if len(ids) == 1 {
		return ids[0].String() + " is"
	}
	return list(ids) + " are"
}
