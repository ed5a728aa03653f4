package placement

import (
	"cmp"
	"fmt"
	"slices"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/topology"
)

// Code names a kind of warning; docs/reasons.md has a section for each.
type Code string

// The warnings.
const (
	CodeUnknownPolicyKey   Code = "unknown-policy-key"
	CodeBadPolicyValue     Code = "bad-policy-value"
	CodePolicyLocked       Code = "policy-locked"
	CodeBadNodeset         Code = "bad-nodeset"
	CodeUnknownCell        Code = "unknown-cell"
	CodeVariableCollision  Code = "variable-collision"
	CodeNotAllocated       Code = "device-not-allocated"
	CodeBadDeviceName      Code = "bad-device-name"
	CodeGroupNotViable     Code = "iommu-group-not-viable"
	CodeIOSpace            Code = "io-space"
	CodeVIOMMU             Code = "viommu"
	CodeLaunchSecurity     Code = "launch-security"
	CodeBudget             Code = "budget-exceeded"
	CodeBrokenRule         Code = "broken-rule"
	CodeUnknownAlias       Code = "unknown-alias"
	CodeSwitchPortSpeed    Code = "switch-port-link-speed"
	CodeSwitchPortHotplug  Code = "switch-port-hotplug"
	CodeHotplugPortsCapped Code = "hotplug-ports-capped"
	CodeNCCLIncomplete     Code = "nccl-topology-incomplete"
)

// Codes are all warnings of this package, in the order of the documentation.
func Codes() []Code {
	return []Code{
		CodeUnknownPolicyKey, CodeBadPolicyValue, CodePolicyLocked,
		CodeBadNodeset, CodeUnknownCell, CodeVariableCollision, CodeNotAllocated, CodeBadDeviceName,
		CodeGroupNotViable, CodeIOSpace, CodeVIOMMU, CodeLaunchSecurity, CodeBudget, CodeBrokenRule, CodeUnknownAlias,
		CodeSwitchPortSpeed, CodeSwitchPortHotplug, CodeHotplugPortsCapped, CodeNCCLIncomplete,
	}
}

// Warning is something a user should know that did not stop the plan.
type Warning struct {
	Code   Code
	Device *topology.DeviceID // nil when it concerns no single device
	Text   string
	Remedy string
}

// NewWarning is a warning with its remedy; device is nil when it concerns no
// single one.
func NewWarning(code Code, device *topology.DeviceID, text string) Warning {
	return Warning{Code: code, Device: device, Text: text, Remedy: code.Remedy()}
}

// refusal is a warning for which strict mode fails, on one line.
func (w Warning) refusal() string {
	return fmt.Sprintf("%s: %s (%s)", w.Code, w.Text, w.Remedy)
}

// Remedy is what a user can do about a warning of this kind.
func (c Code) Remedy() string {
	switch c {
	case CodeUnknownPolicyKey:
		return "the keys are layout, strict, add, companions, hotplug-ports, dry-run and nccl-topology"
	case CodeBadPolicyValue:
		return "correct the annotation; where the policy is not strict the value without it holds until then"
	case CodePolicyLocked:
		return "ask whoever runs the sidecar with --lock"
	case CodeBadNodeset:
		return "correct the list of numbers in the domain; it is passed over"
	case CodeUnknownCell:
		return "name an existing cell of cpu/numa"
	case CodeVariableCollision:
		return "rename one of the resources, so that their variables differ"
	case CodeNotAllocated:
		return "check the device plugin's variable and the resource name in the VMI"
	case CodeBadDeviceName:
		return "rename the device in the VMI: letters, digits, - and _"
	case CodeGroupNotViable:
		return "bind every function of the IOMMU group to vfio-pci on the host, or leave the device out"
	case CodeIOSpace:
		return "boot with UEFI: SeaBIOS stops at more than 14 ports with an I/O BAR below"
	case CodeVIOMMU:
		return "placed as usual; a vIOMMU together with expander buses is not tested: check the guest's IOMMU groups"
	case CodeLaunchSecurity:
		return "placed as usual; confidential guests with expander buses are not tested: check that the guest sees each device"
	case CodeBudget:
		return ReasonBudget.Remedy()
	case CodeBrokenRule:
		return ReasonBrokenRule.Remedy()
	case CodeUnknownAlias:
		return "name an alias of a hostdev, as the domain or explain shows it"
	case CodeSwitchPortSpeed:
		return "hand the guest the true speeds: nccl-topology=fwcfg, or the file of explain --format nccl"
	case CodeSwitchPortHotplug:
		return "choose layout root or numa for a VM that has SR-IOV networks only, or boot it with SeaBIOS"
	case CodeHotplugPortsCapped:
		return "lower hotplug-ports, or pass fewer devices through"
	case CodeNCCLIncomplete:
		return "place the device with layout numa, root or mirror; NCCL looks for what the file leaves out in the guest's sysfs"
	case env.CodeBadVariable:
		return "correct what the device plugin writes; the rest of the variable is used"
	case env.CodeVariableConflict:
		return "set the variable once"
	case env.CodeNoSysfs:
		return ReasonNoSysfs.Remedy()
	case env.CodeBadSysfs:
		return "check the host's kernel and firmware; the device counts as without what cannot be read"
	default:
		return ""
	}
}

// AddWarnings adds what was found before the plan: of the policy, and problems
// of the inputs.
func (p *Plan) AddWarnings(warnings []Warning, problems []env.Problem) {
	p.Warnings = append(p.Warnings, warnings...)
	for _, problem := range problems {
		w := NewWarning(Code(problem.Code), nil, problem.Source+": "+problem.Text)
		if id := problem.Device; id != (topology.DeviceID{}) {
			w.Device = &id
		}
		p.Warnings = append(p.Warnings, w)
	}
	p.Warnings = sortWarnings(p.Warnings)
}

// sortWarnings orders warnings by code, device and text, each once.
func sortWarnings(warnings []Warning) []Warning {
	slices.SortStableFunc(warnings, func(x, y Warning) int {
		return cmp.Or(cmp.Compare(x.Code, y.Code), compareDevices(x.Device, y.Device), cmp.Compare(x.Text, y.Text))
	})
	return slices.CompactFunc(warnings, func(x, y Warning) bool { return x.Code == y.Code && x.Text == y.Text })
}

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
