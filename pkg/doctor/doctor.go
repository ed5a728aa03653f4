package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
)

// Status is what a check found.
type Status string

// The statuses, in the words of libvirt's virt-host-validate.
const (
	Pass Status = "PASS" // as it should be
	Warn Status = "WARN" // works, but not as well as possible or as asked
	Fail Status = "FAIL" // a device is not placed or lost, or the VM does not start
	Note Status = "NOTE" // worth knowing, or not visible from here
)

// Result is one finding of a check.
type Result struct {
	Name   string             `json:"name"` // of the check
	Status Status             `json:"status"`
	Device *topology.DeviceID `json:"device"` // null when it concerns no single device
	Found  string             `json:"found"`
	Hint   string             `json:"hint"` // what to do; "" when there is nothing to do
}

// String formats the result as a line: `FAIL driver-bound: … (hint)`.
func (r Result) String() string {
	line := fmt.Sprintf("%s %s: %s", r.Status, r.Name, r.Found)
	if r.Hint != "" {
		line += " (" + r.Hint + ")"
	}
	return line
}

// Check is one question with a stable name; docs/doctor.md has a section for
// each.
type Check struct {
	Name  string
	needs func(Inputs) bool     // nil: nothing
	run   func(Inputs) []Result // without names
}

// Run runs the check, or skips it when the inputs lack what it needs.
func (c Check) Run(in Inputs) []Result {
	if c.needs != nil && !c.needs(in) {
		return nil
	}
	results := c.run(in)
	for i := range results {
		results[i].Name = c.Name
	}
	return results
}

// Checks returns all checks in the order of docs/doctor.md.
func Checks() []Check {
	return []Check{
		{"sysfs", nil, sysfs},
		{"iommu-enabled", Inputs.hasPCI, iommuEnabled},
		{"host-numa", Inputs.hasPCI, hostNUMA},

		{"driver-bound", nil, driverBound},
		{"iommu-group-viable", nil, groupViable},
		{"numa-node", nil, numaNode},
		{"reset-method", Inputs.hasFunctions, resetMethod},
		{"link-degraded", Inputs.hasHardware, linkDegraded},
		{"acs", Inputs.hasHardware, accessControl},
		{"ats", Inputs.hasHardware, addressTranslation},

		{"mdev-types", Inputs.hasMDEVs, mdevTypes},
		{"mdev-unused", Inputs.hasMDEVs, mdevUnused},

		{"machine-type", Inputs.hasDomain, machineType},
		{"guest-numa", nil, guestNUMA},
		{"placement", Inputs.hasDevices, placed},
		{"layout-fit", Inputs.hasDevices, layoutFit},
		{"strict", Inputs.hasDomain, strict},
		{"warnings", Inputs.hasVM, planWarnings},
		{"requested-devices", Inputs.hasDomain, requested},
		{"variables", nil, variables},
		{"root-complex-annotation", Inputs.hasVMI, rootComplex},
		{"viommu", Inputs.hasDomain, vIOMMU},
		{"launch-security", Inputs.hasDomain, launchSecurity},

		{"bar-window", Inputs.hasDevices, barWindow},
		{"io-space", Inputs.hasDevices, ioSpace},
		{"pci-hole", Inputs.hasDevices, pciHole},

		{"socket-folder", Inputs.hasSockets, socketDirectory},
		{"socket-name", Inputs.hasSockets, socketName},
		{"container-memory", Inputs.hasLimits, containerMemory},
		{"container-cpu", Inputs.hasLimits, containerCPU},
	}
}

// SchemaVersion is the version of Report as JSON. It rises when a field is
// removed or changes its meaning, not when one is added.
const SchemaVersion = 1

// Report is what doctor prints as JSON.
type Report struct {
	SchemaVersion int            `json:"schemaVersion"`
	Counts        map[Status]int `json:"counts"`
	Results       []Result       `json:"results"`
}

// severities are the statuses, the worst first.
func severities() []Status { return []Status{Fail, Warn, Note, Pass} }

// NewReport runs all checks and counts the results by status. The worst results
// come first, those of one status in the order of Checks.
func NewReport(in Inputs) Report {
	r := Report{SchemaVersion: SchemaVersion, Counts: map[Status]int{Pass: 0, Warn: 0, Fail: 0, Note: 0}, Results: []Result{}}
	for _, c := range Checks() {
		r.Results = append(r.Results, c.Run(in)...)
	}
	for _, result := range r.Results {
		r.Counts[result.Status]++
	}
	slices.SortStableFunc(r.Results, func(x, y Result) int {
		return cmp.Compare(slices.Index(severities(), x.Status), slices.Index(severities(), y.Status))
	})
	return r
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

// orPass returns the results, or a PASS when there are none.
func orPass(results []Result, format string, args ...any) []Result {
	if len(results) > 0 {
		return results
	}
	return pass(format, args...)
}

// list formats the first few items, and how many more there are.
func list[T fmt.Stringer](items []T) string {
	const shown = 4
	if more := len(items) - shown; more > 0 {
		return list(items[:shown]) + fmt.Sprintf(" and %d more", more)
	}
	var names []string
	for _, item := range items {
		names = append(names, item.String())
	}
	return strings.Join(names, ", ")
}
