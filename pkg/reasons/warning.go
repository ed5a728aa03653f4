package reasons

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/topology"
)

// Code is a kind of warning.
type Code string

// The kinds of warning; codeTable has their remedies.
const (
	CodeUnknownPolicyKey   Code = "unknown-policy-key"
	CodeBadPolicyValue     Code = "bad-policy-value"
	CodePolicyLocked       Code = "policy-locked"
	CodeUnknownAlias       Code = "unknown-alias"
	CodeBadNodeset         Code = "bad-nodeset"
	CodeUnknownCell        Code = "unknown-cell"
	CodeVIOMMU             Code = "viommu"
	CodeVIOMMURefused      Code = "viommu-refused"
	CodeVIOMMUGroup        Code = "viommu-shared-group"
	CodeSSIDSize           Code = "ssid-size"
	CodeGrace              Code = "grace"
	CodeNVSwitches         Code = "nvswitches"
	CodeCliqueRefused      Code = "gpudirect-clique-refused"
	CodeHypervisorHidden   Code = "hypervisor-hidden"
	CodeLaunchSecurity     Code = "launch-security"
	CodeIOSpace            Code = "io-space"
	CodeMMIOWindow         Code = "mmio-window"
	CodeBudget             Code = "budget-exceeded"
	CodeBrokenRule         Code = "broken-rule"
	CodeCoarserLayout      Code = "coarser-layout"
	CodeFurtherApart       Code = "further-apart"
	CodeGPUDirectOff       Code = "gpudirect-rdma-off"
	CodeSwitchPortSpeed    Code = "switch-port-link-speed"
	CodePortSpeed          Code = "port-link-speed"
	CodePortSpeedRefused   Code = "port-speed-refused"
	CodeSwitchPortHotplug  Code = "switch-port-hotplug"
	CodeHotplugPortsCapped Code = "hotplug-ports-capped"
	CodeNCCLIncomplete     Code = "nccl-topology-incomplete"
	CodeNCCLNoReader       Code = "nccl-topology-no-reader"
	CodeGroupNotViable     Code = "iommu-group-not-viable"
	CodeNoSysfs            Code = "no-sysfs"
	CodeBadSysfs           Code = "bad-sysfs"
	CodeNotAllocated       Code = "device-not-allocated"
	CodeBadDeviceName      Code = "bad-device-name"
	CodeVariableCollision  Code = "variable-collision"
	CodeBadVariable        Code = "bad-variable-value"
	CodeVariableConflict   Code = "variable-conflict"
)

// speedRemedy is that of an emulated port that shows NCCL a false speed.
const speedRemedy = "pass NCCL the host's link speeds: nccl-topology=fwcfg, or the file of " +
	"explain --format nccl"

// codeTable has the remedies, and which check of doctor reports the warning.
func codeTable() []entry[Code] {
	return []entry[Code]{
		{code: CodeUnknownPolicyKey, remedy: "correct or remove the annotation"},
		{code: CodeBadPolicyValue,
			remedy: "correct the annotation; without strict it is ignored until then"},
		{code: CodePolicyLocked, remedy: "ask whoever locked the key with --lock"},
		{code: CodeUnknownAlias,
			remedy: "use the alias of a hostdev, as the domain and explain show it"},
		{code: CodeBadNodeset, remedy: "correct the list of numbers in the domain; it is ignored"},
		{code: CodeUnknownCell, remedy: "use the id of a cell in cpu/numa"},
		{code: CodeVIOMMU,
			remedy: "check the guest's IOMMU groups: with expander buses only an <iommu> of model " +
				"intel is tested", check: "viommu"},
		{code: CodeVIOMMURefused,
			remedy: "viommu=intel is for machine q35, viommu=smmuv3 for aarch64's virt without " +
				"passthrough devices; remove what the domain has of its own", check: "viommu"},
		{code: CodeVIOMMUGroup,
			remedy: "choose layout root or numa, where each device has a root port and a group of " +
				"its own, or pass these devices to one nested guest", check: "viommu"},
		{code: CodeSSIDSize,
			remedy: "the hook writes ssidsize in its place; without the hook, update KubeVirt",
			check:  "viommu"},
		{code: CodeGrace, remedy: "as the warning says", check: "grace"},
		{code: CodeNVSwitches,
			remedy: "give the VM the NVSwitches that its GPUs take in full passthrough, or none " +
				"and have the node's Fabric Manager activate their partition"},
		{code: CodeCliqueRefused,
			remedy: "pass GPUs of one switch whose ports do not redirect peer requests, and let " +
				"the hook see it; else leave gpudirect-clique out", check: "gpudirect-clique"},
		{code: CodeHypervisorHidden, remedy: "remove features.kvm.hidden from the VMI",
			check: "gpudirect-clique"},
		{code: CodeLaunchSecurity,
			remedy: "check that the guest has every device: confidential guests with expander " +
				"buses are not tested", check: "launch-security"},
		{code: CodeIOSpace,
			remedy: "pass fewer through: SeaBIOS stops if more than 14 ports have a device with " +
				"an I/O BAR, and UEFI has room for 9", check: "io-space"},
		{code: CodeMMIOWindow,
			remedy: "give the guest more physical address bits with a host-passthrough CPU, or " +
				"pass fewer devices through"},
		{code: CodeBudget, remedy: Budget.Remedy()},
		{code: CodeBrokenRule, remedy: BrokenRule.Remedy()},
		{code: CodeCoarserLayout,
			remedy: "pass fewer devices through, or set hotplug-ports=0 where controllers go past " +
				"index 31"},
		{code: CodeFurtherApart,
			remedy: "remove the reason why the device stays, so that both are placed"},
		{code: CodeGPUDirectOff,
			remedy: "set port-speed=host with layout auto or mirror; else nccl-topology; else " +
				"NCCL_NET_GDR_LEVEL=PHB in the guest, which does not bring the host's NIC"},
		{code: CodeSwitchPortSpeed, remedy: "set port-speed=host, or " + speedRemedy},
		{code: CodePortSpeed, remedy: "set port-speed=host, or " + speedRemedy},
		{code: CodePortSpeedRefused, remedy: "remove what the text names, or " + speedRemedy},
		{code: CodeSwitchPortHotplug,
			remedy: "choose layout root or numa for a VM with only SR-IOV networks, or boot it " +
				"with SeaBIOS"},
		{code: CodeHotplugPortsCapped,
			remedy: "lower hotplug-ports, or pass fewer devices through"},
		{code: CodeNCCLIncomplete,
			remedy: "place the device with layout numa, root or mirror; NCCL reads what the file " +
				"lacks from the guest's sysfs"},
		{code: CodeNCCLNoReader,
			remedy: "put the output of hook-sidecar cloud-init into the VM's user data, or copy " +
				"the file in the guest by other means"},
		{code: CodeGroupNotViable,
			remedy: "bind every function of the IOMMU group to vfio-pci on the host, or leave the " +
				"device out", check: "iommu-group-viable"},
		{code: CodeNoSysfs, remedy: NoSysfs.Remedy(), check: "sysfs"},
		{code: CodeBadSysfs,
			remedy: "check the host's kernel and firmware; what cannot be read counts as missing",
			check:  "sysfs"},
		{code: CodeNotAllocated,
			remedy: "check the device plugin's environment variable and the resource name in the VMI", check: "requested-devices"},
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
}

// Remedy is the remedy for a warning of this kind.
func (c Code) Remedy() string { return find(codeTable(), c).remedy }

// Check is the check of doctor that reports warnings of this kind; "" stands for warnings.
func (c Code) Check() string { return find(codeTable(), c).check }

// Warning is something that a user should know and that did not stop the plan.
type Warning struct {
	Code   Code               `json:"code"`   // a warning of reasons.md
	Device *topology.DeviceID `json:"device"` // null when it concerns no single device
	Text   string             `json:"text"`   // the particulars
	Remedy string             `json:"remedy"` // what to do
}

// NewWarning returns a warning with its remedy. The device may be nil.
func NewWarning(code Code, device *topology.DeviceID, text string) Warning {
	return Warning{Code: code, Device: device, Text: text, Remedy: code.Remedy()}
}

// NewProblem returns a warning of a part of an input that cannot be used; the rest is used. The
// source is an environment variable, or a path in /sys.
func NewProblem(code Code, source, text string) Warning {
	return NewWarning(code, nil, source+": "+text)
}

// Sort orders warnings by code, device and text, and drops duplicates.
func Sort(warnings []Warning) []Warning {
	slices.SortStableFunc(warnings, func(x, y Warning) int {
		return cmp.Or(cmp.Compare(x.Code, y.Code), compareDevices(x.Device, y.Device),
			cmp.Compare(x.Text, y.Text))
	})
	return slices.CompactFunc(warnings, func(x, y Warning) bool {
		return x.Code == y.Code && x.Text == y.Text
	})
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
