package reasons

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/topology"
)

// Code is a kind of warning, or of finding (package findings).
type Code string

// The kinds of warning that a package gives of what it reads or does; codeTable has their
// remedies.
const (
	CodeUnknownPolicyKey   Code = "unknown-policy-key"
	CodeBadPolicyValue     Code = "bad-policy-value"
	CodePolicyLocked       Code = "policy-locked"
	CodeUnknownAlias       Code = "unknown-alias"
	CodeBadNodeset         Code = "bad-nodeset"
	CodeUnknownCell        Code = "unknown-cell"
	CodeVIOMMURefused      Code = "viommu-refused"
	CodeCliqueRefused      Code = "gpudirect-clique-refused"
	CodeHypervisorHidden   Code = "hypervisor-hidden"
	CodeMMIOWindow         Code = "mmio-window"
	CodeBudget             Code = "budget-exceeded"
	CodeBrokenRule         Code = "broken-rule"
	CodeCoarserLayout      Code = "coarser-layout"
	CodeCompanionsShare    Code = "companions-share"
	CodeFurtherApart       Code = "further-apart"
	CodeLibvirt9           Code = "libvirt-9-moves"
	CodeBusNumber          Code = "bus-number-changes"
	CodePortSpeedRefused   Code = "port-speed-refused"
	CodeHotplugPortsCapped Code = "hotplug-ports-capped"
	CodeNCCLIncomplete     Code = "nccl-topology-incomplete"
	CodeNCCLNoReader       Code = "nccl-topology-no-reader"
	CodeNoSysfs            Code = "no-sysfs"
	CodeBadSysfs           Code = "bad-sysfs"
	CodeNotAllocated       Code = "device-not-allocated"
	CodeBadDeviceName      Code = "bad-device-name"
	CodeVariableCollision  Code = "variable-collision"
	CodeBadVariable        Code = "bad-variable-value"
	CodeVariableConflict   Code = "variable-conflict"
)

// SpeedRemedy is the remedy for an emulated port that shows NCCL a false speed.
const SpeedRemedy = "pass NCCL the host's link speeds: nccl-topology=fwcfg, or the file of " +
	"explain -o nccl"

// codeTable has the remedies, and which check of doctor reports the warning.
var codeTable = []entry[Code]{
	{code: CodeUnknownPolicyKey, remedy: "correct or remove the annotation"},
	{code: CodeBadPolicyValue,
		remedy: "correct the annotation; without strict it is ignored until then"},
	{code: CodePolicyLocked, remedy: "ask whoever locked the key with --lock"},
	{code: CodeUnknownAlias,
		remedy: "use the alias of a hostdev, as the domain and explain show it"},
	{code: CodeBadNodeset, remedy: "correct the list of numbers in the domain; it is ignored"},
	{code: CodeUnknownCell, remedy: "use the id of a cell in cpu/numa"},
	{code: CodeVIOMMURefused,
		remedy: "viommu=intel is for machine q35, viommu=smmuv3 for aarch64's virt without " +
			"passthrough devices; remove what the domain has of its own", check: "viommu"},
	{code: CodeCliqueRefused,
		remedy: "mend on the node what the text names, as doctor's acs says, or leave " +
			"gpudirect-clique out; where ACS cannot be read, serve with a snapshot that root " +
			"took", check: "gpudirect-clique"},
	{code: CodeHypervisorHidden, remedy: "remove features.kvm.hidden from the VMI",
		check: "gpudirect-clique"},
	{code: CodeMMIOWindow,
		remedy: "give the guest more physical address bits with a host-passthrough CPU, or " +
			"pass fewer devices through"},
	{code: CodeBudget, remedy: Budget.Remedy()},
	{code: CodeBrokenRule, remedy: BrokenRule.Remedy()},
	{code: CodeCoarserLayout,
		remedy: "pass fewer devices through, or set hotplug-ports=0 where controllers go past " +
			"index 31"},
	{code: CodeCompanionsShare,
		remedy: "pass fewer devices through, or leave out the other functions of AMD GPUs"},
	{code: CodeFurtherApart,
		remedy: "remove the reason why the device stays, so that both are placed"},
	{code: CodeLibvirt9, remedy: "update libvirt, or choose layout keep"},
	{code: CodeBusNumber,
		remedy: "name NICs in the guest by MAC address, or choose layout keep"},
	{code: CodePortSpeedRefused, remedy: "change what the text names, or " + SpeedRemedy},
	{code: CodeHotplugPortsCapped,
		remedy: "lower hotplug-ports, or pass fewer devices through"},
	{code: CodeNCCLIncomplete,
		remedy: "place the device with layout numa, root, switch or mirror; NCCL reads what the " +
			"file lacks from the guest's sysfs"},
	{code: CodeNCCLNoReader,
		remedy: "put the output of hook-sidecar cloud-init into the VM's user data, or copy " +
			"the file in the guest by other means"},
	{code: CodeNoSysfs, remedy: NoSysfs.Remedy(), check: "sysfs"},
	{code: CodeBadSysfs,
		remedy: "check the host's kernel and firmware; what cannot be read counts as missing",
		check:  "sysfs"},
	{code: CodeNotAllocated,
		remedy: "check the device plugin's environment variable and the resource name in the VMI",
		check:  "requested-devices"},
	{code: CodeBadDeviceName,
		remedy: "rename the device in the VMI, with letters, digits, - and _"},
	{code: CodeVariableCollision,
		remedy: "rename one of the resources, so that their environment variables differ"},
	{code: CodeBadVariable,
		remedy: "correct what the device plugin sets; the rest of the variable is used",
		check:  "variables"},
	{code: CodeVariableConflict, remedy: "set the environment variable once",
		check: "variables"},
}

// Remedy returns the remedy for a finding of this code.
func (c Code) Remedy() string { return find(codeTable, c).remedy }

// Check returns the check of doctor that reports findings of this code; "" stands for warnings.
func (c Code) Check() string { return find(codeTable, c).check }

// IsIn reports whether one of the findings has the code.
func (c Code) IsIn(all []Finding) bool {
	return slices.ContainsFunc(all, func(f Finding) bool { return f.Code == c })
}

// Severity says how bad a finding is, in the words of libvirt's virt-host-validate.
type Severity string

// The severities.
const (
	Warn Severity = "WARN" // works, but not as well as possible or as requested
	Fail Severity = "FAIL" // a device is lost, or the VM does not start
)

// Finding is something that a user should know: what a package met in its input and did without,
// what a plan does not reach, or a fault of what it results in. Warnings, the results of doctor
// and the log are views of findings.
type Finding struct {
	Code   Code               `json:"code"`   // a warning of reasons.md
	Device *topology.DeviceID `json:"device"` // null when it concerns no single device
	Text   string             `json:"text"`   // the particulars
	Remedy string             `json:"remedy"` // what to do
	Page   string             `json:"page"`   // where it is described

	Severity Severity `json:"-"`
	Check    string   `json:"-"` // of doctor, which reports it; "" stands for warnings
}

// Page returns where docs/reasons.md describes a code.
func (c Code) Page() string { return Page("docs/reasons.md#" + string(c)) }

// NewFinding returns a finding of a code of this package. The device may be nil.
func NewFinding(code Code, device *topology.DeviceID, text string) Finding {
	return Finding{
		Code: code, Device: device, Text: text, Remedy: code.Remedy(), Page: code.Page(),
		Severity: Warn, Check: code.Check(),
	}
}

// NewProblem returns the finding of a part of an input that cannot be used; the rest is used. The
// source is an environment variable, or a path in /sys.
func NewProblem(code Code, source, text string) Finding {
	return NewFinding(code, nil, source+": "+text)
}

// Sort orders findings by code, device and text, and drops duplicates.
func Sort(all []Finding) []Finding {
	slices.SortStableFunc(all, Finding.Compare)
	return slices.CompactFunc(all, func(x, y Finding) bool {
		return x.Code == y.Code && x.Text == y.Text
	})
}

// Compare orders findings by code, device and text.
func (f Finding) Compare(other Finding) int {
	return cmp.Or(cmp.Compare(f.Code, other.Code), compareDevices(f.Device, other.Device),
		cmp.Compare(f.Text, other.Text))
}

// compareDevices orders nil before any device.
func compareDevices(x, y *topology.DeviceID) int {
	switch {
	case x == nil && y == nil:
		return 0
	case x == nil:
		return -1
	case y == nil:
		return 1
	}

	return x.Compare(*y)
}
