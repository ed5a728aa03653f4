// Package doctor checks whether a host, an environment and a domain are fit for passthrough
// placement, with a hint if they are not. A check is a name and a function from Inputs to
// Results. It reads no files and has no clock.
package doctor

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/kubevirt"
)

// Check is one question with a stable name; docs/doctor.md has a section for each.
type Check struct {
	Name  string
	needs func(Inputs) bool     // nil: nothing
	run   func(Inputs) []Result // without names
	perVM bool                  // once per VM, not once per host
}

// Run runs the check, or skips it if the inputs do not meet its condition.
func (c Check) Run(in Inputs) []Result {
	if !c.perVM || len(in.Others) == 0 {
		return c.runOn(in)
	}

	var all []Result
	for _, vm := range in.vms() {
		one := in
		one.VMInputs, one.Others = vm, nil
		results := c.runOn(one)
		for i := range results {
			results[i].VM = vm.Name
		}

		all = append(all, results...)
	}

	return all
}

func (c Check) runOn(in Inputs) []Result {
	if c.needs != nil && !c.needs(in) {
		return nil
	}

	results := c.run(in)
	for i := range results {
		results[i].Name = c.Name
	}

	return results
}

// The checks of the host, of each VM and of the container of a hook.
var (
	hostChecks = []Check{
		{Name: "sysfs", run: sysfs},
		{Name: "iommu-enabled", needs: Inputs.hasPCI, run: iommuEnabled},
		{Name: "host-numa", needs: Inputs.hasPCI, run: hostNUMA},

		{Name: "shared-device", needs: Inputs.hasOthers, run: sharedDevice},
		{Name: "driver-bound", run: driverBound},
		{Name: "iommu-group-viable", run: groupViable},
		{Name: "numa-node", run: numaNode},
		{Name: "reset-method", needs: Inputs.hasFunctions, run: resetMethod},
		{Name: "link-degraded", needs: Inputs.hasHardware, run: linkDegraded},
		{Name: "acs", needs: Inputs.hasHardware, run: accessControl},
		{Name: "ats", needs: Inputs.hasHardware, run: addressTranslation},
		{Name: "atomics-path", needs: Inputs.hasHardware, run: atomicsPath},

		{Name: "mdev-types", needs: Inputs.hasVGPUs, run: mdevTypes},
		{Name: "mdev-unused", needs: Inputs.hasVGPUs, run: mdevUnused},
		{Name: "vgpu-capacity", needs: Inputs.hasPCI, run: vgpuCapacity},
	}

	vmChecks = []Check{
		{Name: "vmi-of-domain", needs: Inputs.hasBoth, run: vmiOfDomain},
		{Name: "machine-type", needs: Inputs.hasDomain, run: machineType},
		{Name: "guest-numa", run: guestNUMA},
		{Name: "vcpu-nodes", needs: Inputs.hasDevices, run: vcpuNodes},
		{Name: "placement", needs: Inputs.hasDevices, run: placed},
		{Name: "layout-fit", needs: Inputs.hasDevices, run: layoutFit},
		{Name: "strict", needs: Inputs.hasDomain, run: strict},
		{Name: "warnings", needs: Inputs.hasVM, run: planWarnings},
		{Name: "requested-devices", needs: Inputs.hasDomain, run: requested},
		{Name: "variables", run: variables},
		{Name: "root-complex-annotation", needs: Inputs.hasVMI, run: rootComplex},
		{Name: "viommu", needs: Inputs.hasDomain, run: vIOMMU},
		{Name: "locked-memory", needs: Inputs.hasDevices, run: lockedMemory},
		{Name: "gpudirect-clique", needs: Inputs.hasDomain, run: cliques},
		{Name: "nccl-topology", needs: Inputs.hasDevices, run: ncclTopology},
		{Name: "atomics", needs: Inputs.hasDevices, run: atomics},
		{Name: "port-speed", needs: Inputs.hasPortHelp, run: switchPorts},
		{Name: "answer-kept", needs: Inputs.isAnswered, run: answerKept},
		{Name: "launch-security", needs: Inputs.hasDomain, run: launchSecurity},
		{Name: "start-time", needs: Inputs.hasDevices, run: startTime},

		{Name: "bar-window", needs: Inputs.hasDevices, run: barWindow},
		{Name: "io-space", needs: Inputs.hasDevices, run: ioSpace},
		{Name: "pci-hole", needs: Inputs.hasDevices, run: pciHole},
		{Name: "grace", needs: Inputs.hasDevices, run: grace},
	}

	containerChecks = []Check{
		{Name: "socket-folder", needs: Inputs.hasSockets, run: socketDirectory},
		{Name: "socket-name", needs: Inputs.hasSockets, run: socketName},
		{Name: "container-memory", needs: Inputs.hasLimits, run: containerMemory},
		{Name: "container-cpu", needs: Inputs.hasLimits, run: containerCPU},
	}
)

// installationChecks are the checks of a cluster, in the order of docs/doctor.md.
var installationChecks = []Check{
	{Name: "cluster-read", run: clusterRead},
	{Name: "kubevirt-version", run: kubeVirtVersion},
	{Name: "feature-gates", run: featureGates},
	{Name: "plugin-hooks", run: pluginHooks},
	{Name: "plugin-pci", run: pluginPCI},
	{Name: "plugin-objects", run: pluginObjects},
	{Name: "plugin-settings", run: pluginSettings},
}

// Checks returns all checks in the order of docs/doctor.md.
func Checks() []Check {
	return slices.Concat(hostChecks, perVM(vmChecks), containerChecks)
}

// perVM returns checks that run once per VM.
func perVM(checks []Check) []Check {
	each := slices.Clone(checks)
	for i := range each {
		each[i].perVM = true
	}
	return each
}

// InstallationChecks returns the checks of a cluster, in the order of docs/doctor.md.
func InstallationChecks() []Check { return slices.Clone(installationChecks) }

// SchemaVersion is the version of Report as JSON. It rises when a field is
// removed or changes its meaning, not when one is added.
const SchemaVersion = 1

// Report is the JSON of doctor.
type Report struct {
	SchemaVersion int            `json:"schemaVersion"` // 1
	Counts        map[Status]int `json:"counts"`        // results by status
	Results       []Result       `json:"results"`       // the worst first
}

// NewReport runs all checks but those of a cluster.
func NewReport(in Inputs) Report { return runAll(Checks(), in) }

// NewInstallationReport runs the checks of a cluster.
func NewInstallationReport(in kubevirt.Installation) Report {
	return runAll(InstallationChecks(), Inputs{Installation: in})
}

func runAll(checks []Check, in Inputs) Report {
	var results []Result
	for _, c := range checks {
		results = append(results, c.Run(in)...)
	}
	return OfResults(results)
}

// OfResults returns the report of results, such as those of several VMs, and counts them by
// status. The worst come first, those of one status in the order of the checks.
func OfResults(results []Result) Report {
	r := Report{
		SchemaVersion: SchemaVersion,
		Counts:        map[Status]int{Pass: 0, Warn: 0, Fail: 0, Note: 0},
		Results:       append([]Result{}, results...),
	}

	for _, result := range r.Results {
		r.Counts[result.Status]++
	}

	severities := []Status{Fail, Warn, Note, Pass}
	slices.SortStableFunc(r.Results, func(x, y Result) int {
		return cmp.Compare(slices.Index(severities, x.Status), slices.Index(severities, y.Status))
	})

	return r
}

// Problems returns the results that are not as they should be.
func (r Report) Problems() []Result {
	return slices.DeleteFunc(slices.Clone(r.Results), func(result Result) bool {
		return result.Status == Pass
	})
}
