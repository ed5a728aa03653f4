package doctor

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// Status is what a check found.
type Status string

// The statuses, in the words of libvirt's virt-host-validate.
const (
	Pass Status = "PASS" // as it should be
	Warn Status = "WARN" // works, and not as well as it could or as asked
	Fail Status = "FAIL" // a device is not placed or lost, or the VM does not start
	Note Status = "NOTE" // to know, or not to be seen from here
)

// Result is one finding of a check.
type Result struct {
	Name   string  `json:"name"` // of the check
	Status Status  `json:"status"`
	Device *string `json:"device"` // PCI address or UUID; null when it concerns no single device
	Found  string  `json:"found"`
	Hint   string  `json:"hint"` // what to do; "" where there is nothing
}

// String is the result as a line: `FAIL driver-bound: … (hint)`.
func (r Result) String() string {
	line := fmt.Sprintf("%s %s: %s", r.Status, r.Name, r.Found)
	if r.Hint != "" {
		line += " (" + r.Hint + ")"
	}
	return line
}

// Check is one question with a name that stays; docs/doctor.md has a section
// for each.
type Check struct {
	Name string
	run  func(Inputs) []finding
}

// Run asks the question. No result means that the inputs have nothing to it.
func (c Check) Run(in Inputs) []Result {
	var results []Result
	for _, f := range c.run(in) {
		r := Result{Name: c.Name, Status: f.status, Found: f.found, Hint: f.hint}
		if f.device != nil {
			r.Device = new(f.device.String())
		}
		results = append(results, r)
	}
	return results
}

// Checks are all checks, in the order of the documentation: the host, its
// devices, the domain, the place where the hook runs.
func Checks() []Check {
	return slices.Concat(hostChecks(), deviceChecks(), linkChecks(), mdevChecks(), domainChecks(), spaceChecks(), containerChecks())
}

// Run runs all checks.
func Run(in Inputs) []Result {
	var results []Result
	for _, c := range Checks() {
		results = append(results, c.Run(in)...)
	}
	return results
}

// SchemaVersion is the version of Report as JSON. It rises when a field goes or
// changes its meaning, not when one is added.
const SchemaVersion = 1

// Report is what doctor prints as JSON.
type Report struct {
	SchemaVersion int            `json:"schemaVersion"`
	Counts        map[Status]int `json:"counts"`
	Results       []Result       `json:"results"`
}

// NewReport runs all checks and counts what they found.
func NewReport(in Inputs) Report {
	r := Report{SchemaVersion: SchemaVersion, Counts: map[Status]int{Pass: 0, Warn: 0, Fail: 0, Note: 0}, Results: []Result{}}
	for _, result := range Run(in) {
		r.Results = append(r.Results, result)
		r.Counts[result.Status]++
	}
	return r
}

// Inputs is what the checks look at. What is not known is nil or empty.
type Inputs struct {
	Host      *topology.Host  // whole, with details; never nil
	Problems  []env.Problem   // of reading the host and the variables
	Domain    *domain.Domain  // with Plan, or nil
	Plan      *placement.Plan // what the hook would do with Domain
	Layout    policy.Layout
	VMI       *env.VMI
	Variables []env.Variable

	HostPhysBits int // physical address bits of the host's CPUs, 0 when not known
	Sockets      *Sockets
	Limits       *env.Limits // of the container
}

// Sockets is what stands in the folder where virt-launcher looks for hooks.
type Sockets struct {
	Folder  string
	Missing bool   // there is no such folder
	Problem string // why it cannot be listed or written to, "" when it can
	Name    string // of our own socket, "" when CONTAINER_NAME is not set
	TooLong bool   // the path of our own socket is longer than a unix socket's can be
	Files   []SocketFile
}

// SocketFile is a file in the folder or in a sidecar's folder below it.
type SocketFile struct {
	Path    string // below the folder
	Socket  bool
	Answers bool // somebody accepts connections
}

// finding is a Result without the name of its check.
type finding struct {
	status Status
	device *topology.DeviceID
	found  string
	hint   string
}

func pass(format string, args ...any) []finding {
	return []finding{{status: Pass, found: fmt.Sprintf(format, args...)}}
}

// note is a finding of status Note.
func note(hint, format string, args ...any) []finding {
	return []finding{{status: Note, found: fmt.Sprintf(format, args...), hint: hint}}
}

func warn(hint, format string, args ...any) []finding {
	return []finding{{status: Warn, found: fmt.Sprintf(format, args...), hint: hint}}
}

func fail(hint, format string, args ...any) []finding {
	return []finding{{status: Fail, found: fmt.Sprintf(format, args...), hint: hint}}
}

// of makes the findings those of one device.
func of(id topology.DeviceID, findings []finding) []finding {
	for i := range findings {
		findings[i].device = &id
	}
	return findings
}

// orPass is the findings, or that all is well where there are none.
func orPass(findings []finding, format string, args ...any) []finding {
	if len(findings) > 0 {
		return findings
	}
	return pass(format, args...)
}

// subjects are the devices to look at, by id: those of the domain and of the
// variables; without any, all that the host offers to guests.
func (in Inputs) subjects() []topology.DeviceID {
	d := in.Domain
	if d == nil {
		d = &domain.Domain{}
	}
	if ids := placement.Candidates(d, in.Variables); len(ids) > 0 || in.Domain != nil {
		return ids
	}
	var ids []topology.DeviceID
	for _, f := range in.Host.Devices {
		if f.IsAssignable() {
			ids = append(ids, topology.PCIDevice(f.Address))
		}
	}
	for _, m := range in.Host.MDEVs {
		ids = append(ids, topology.MediatedDevice(m.UUID))
	}
	return ids
}

// functions are the subjects that are PCI functions which the host shows.
func (in Inputs) functions() []*topology.Device {
	var all []*topology.Device
	for _, id := range in.subjects() {
		if a, isPCI := id.PCI(); isPCI && in.Host.Device(a) != nil {
			all = append(all, in.Host.Device(a))
		}
	}
	return all
}

// hardware are the functions that the subjects are or belong to, each once: a
// mediated device's parent, a virtual function's physical one.
func (in Inputs) hardware() []*topology.Device {
	var all []*topology.Device
	for _, id := range in.subjects() {
		f := in.Host.Function(id)
		if f != nil && f.PhysFn != nil && in.Host.Device(*f.PhysFn) != nil {
			f = in.Host.Device(*f.PhysFn)
		}
		if f != nil && !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

// list writes a few names and how many more there are.
func list[T fmt.Stringer](items []T) string {
	const shown = 4
	var names []string
	for _, item := range items[:min(len(items), shown)] {
		names = append(names, item.String())
	}
	text := strings.Join(names, ", ")
	if more := len(items) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
