// Package findings looks for what a user should know about a plan: faults of its devices and of
// the domain that it results in. A finding is a function from a plan to texts, and an entry of
// the table in findings.go. Warnings, the results of doctor and the log are views of findings.
package findings

import (
	"fmt"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Severity says how bad a finding is, in the words of libvirt's virt-host-validate.
type Severity string

// The severities.
const (
	Warn Severity = "WARN" // works, but not as well as possible or as requested
	Fail Severity = "FAIL" // a device is lost, or the VM does not start
)

// Finding is something that a user should know about a plan.
type Finding struct {
	reasons.Warning

	Severity Severity `json:"-"`
	Check    string   `json:"-"` // of doctor, which reports it; "" stands for warnings
}

// Given returns the findings of warnings, which other packages give of what they read or do.
func Given(warnings []reasons.Warning) []Finding {
	return topology.Map(warnings, func(w reasons.Warning) Finding {
		return Finding{Warning: w, Severity: Warn, Check: w.Code.Check()}
	})
}

// one returns a single finding; its entry in the table completes it.
func one(format string, args ...any) []Finding {
	return []Finding{{Warning: reasons.Warning{Text: fmt.Sprintf(format, args...)}}}
}

// about returns a single finding of a device.
func about(id topology.DeviceID, format string, args ...any) []Finding {
	found := one(format, args...)
	found[0].Device = &id
	return found
}

// withRemedy returns a single finding with a remedy of its own.
func withRemedy(remedy, format string, args ...any) []Finding {
	found := one(format, args...)
	found[0].Remedy = remedy
	return found
}
