package placement

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/nvlink"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// MaxIOPorts is how many ports with an I/O BAR under them fit into SeaBIOS's I/O
// space: 4 KiB each. With more it stops silently (measured, 15 of 15).
const MaxIOPorts = 14

// Diagnosed is the plan after all of its devices' host has been read, with the
// warnings of that reading, and those about the result.
func (p *Plan) Diagnosed(host *topology.Host, warnings []reasons.Warning) *Plan {
	next := *p
	next.Host, next.Devices = host, slices.Clone(p.Devices)
	for i, d := range next.Devices {
		if now := hostDevice(host, d.ID); now.Function != nil { // else the device is gone by now
			next.Devices[i].Function, next.Devices[i].IOMMUGroup = now.Function, now.IOMMUGroup
		}
	}

	next.Budgets.BARs.Bytes64 = barBytes64(next.Devices)
	next.Warnings = reasons.Sort(slices.Concat(p.Warnings, warnings, concerns(&next)))
	return &next
}

// concerns warns of faults of the devices and of the resulting domain that the plan does not
// mend.
func concerns(p *Plan) []reasons.Warning {
	devices, result := p.Devices, p.result
	var warnings []reasons.Warning
	warn := func(code reasons.Code, format string, args ...any) {
		warnings = append(warnings, reasons.NewWarning(code, nil, fmt.Sprintf(format, args...)))
	}

	if ports := ioPorts(devices); ports > MaxIOPorts && !result.UEFI {
		warn(reasons.CodeIOSpace,
			"%d ports have a device with an I/O BAR under them and the domain boots with SeaBIOS, "+
				"which has room for %d", ports, MaxIOPorts)
	}

	if n := p.input.SSIDSizes; n > 0 {
		warn(reasons.CodeSSIDSize,
			"%d SMMUv3 with ssidSize, as KubeVirt writes it: libvirt 12.7 and later know "+
				"ssidsize, and drop the other without a word", n)
	}

	functions := topology.Map(devices, func(d Decision) *topology.Device { return d.Function })
	if fault := nvlink.SwitchFault(functions); fault != "" {
		warn(reasons.CodeNVSwitches, "%s", fault)
	}

	warnings = slices.Concat(warnings, graceConcerns(p), blockedGroups(p.Host, devices))
	if !slices.ContainsFunc(devices, func(d Decision) bool {
		return d.Outcome == Placed || d.Reason == reasons.AlreadyAligned
	}) {
		return warnings
	}

	warnings = append(warnings, iommuConcerns(p)...)
	if result.LaunchSecurity {
		warn(reasons.CodeLaunchSecurity, "the domain has launchSecurity")
	}

	warnings = append(warnings, ncclConcerns(p)...)

	if open := topology.CountFunc(result.Controllers, isOpenSwitchPort); result.UEFI &&
		open > maxHotplugSwitchPorts {
		warn(reasons.CodeSwitchPortHotplug,
			"%d switch ports stay hotpluggable, and UEFI may end without a BAR for the devices "+
				"under them", open)
	}

	return warnings
}

// ncclConcerns warns where NCCL decides otherwise in the guest than on the host, because of the
// tree or of the links that its ports advertise. The topology file shows it the host's.
func ncclConcerns(p *Plan) []reasons.Warning {
	if p.Policy.NCCLTopology != policy.NCCLTopologyNone {
		return nil
	}

	var warnings []reasons.Warning
	if p.inGuest().IsLimited() && hasSlowUplink(p) {
		warnings = append(warnings,
			reasons.NewWarning(reasons.CodeSwitchPortSpeed, nil, fmt.Sprintf(
				"uplinks of emulated switches advertise %s: NCCL underestimates them", libvirt.DefaultUplink())))
	}

	if outcome := p.GPUDirect(); outcome.Guest < outcome.Host {
		warnings = append(warnings, reasons.NewWarning(reasons.CodeGPUDirectOff, nil, fmt.Sprintf(
			"GPUDirect RDMA is off for %d of %s that use it on the host: NCCL wants GPU and NIC "+
				"under one switch",
			outcome.Host-outcome.Guest, topology.Counted(outcome.Host, "GPU"))))
	}

	return warnings
}

// hasSlowUplink reports whether a switch above a device that NCCL pairs advertises QEMU's default.
func hasSlowUplink(p *Plan) bool {
	isSlow := func(n *topology.Node) bool {
		return n.Kind == topology.UpstreamPort &&
			libvirt.NodeLink(p.result, n) == libvirt.DefaultUplink()
	}
	return slices.ContainsFunc(p.Devices, func(d Decision) bool {
		return d.Function.IsPaired() && slices.ContainsFunc(p.GuestTree.Node(d.ID).Path(), isSlow)
	})
}

// maxHotplugSwitchPorts is how many downstream ports that can hotplug lose no
// device (measured with OVMF 2022.11: 12 lose none, 16 lose all).
const maxHotplugSwitchPorts = 12

func isOpenSwitchPort(c domain.Controller) bool {
	return c.Model == domain.DownstreamPort && !c.HotplugOff
}

// ioPorts counts the ports that have a device with an I/O BAR under them. A
// device without an address will have a port of its own.
func ioPorts(devices []Decision) int {
	ports := map[int]bool{}
	unaddressed := 0
	for _, d := range devices {
		switch {
		case d.ID.Kind() != topology.KindPCI, d.Function == nil, !d.Function.HasIO():
		case d.Address == nil:
			unaddressed++
		default:
			ports[d.Address.Bus] = true
		}
	}

	return len(ports) + unaddressed
}

// blockedGroups warns of devices whose IOMMU group holds a function that is
// bound to a driver of the host: VFIO then refuses the whole group.
func blockedGroups(host *topology.Host, devices []Decision) []reasons.Warning {
	var warnings []reasons.Warning
	for _, d := range devices {
		if d.IOMMUGroup == nil || d.ID.Kind() != topology.KindPCI {
			continue
		}
		for i := range host.Devices {
			other := &host.Devices[i]
			if !other.BlocksGroup() || *other.IOMMUGroup != *d.IOMMUGroup {
				continue
			}

			text := fmt.Sprintf("IOMMU group %d of %s also holds %s, which is bound to %s",
				*d.IOMMUGroup, d.ID, other.Address, other.Driver)
			if d.ID == topology.PCIDevice(other.Address) {
				text = fmt.Sprintf("%s is bound to %s, which is not a VFIO driver", d.ID,
					other.Driver)
			}

			warnings = append(warnings, reasons.NewWarning(reasons.CodeGroupNotViable, &d.ID, text))
		}
	}

	return warnings
}

// barBytes64 is the sum of the 64-bit BARs of devices.
func barBytes64(devices []Decision) (sum uint64) {
	for _, d := range devices {
		if d.ID.Kind() == topology.KindPCI && d.Function != nil {
			for _, bar := range d.Function.LargeBARs() {
				sum += bar.Bytes
			}
		}
	}

	return sum
}

// HasIOMMU reports whether the guest has an IOMMU after Changes.
func (p *Plan) HasIOMMU() bool { return len(p.result.IOMMUs()) > 0 || p.result.CommandLineIOMMU }

// iommuConcerns warns of the limits of the guest's IOMMU.
func iommuConcerns(p *Plan) []reasons.Warning {
	warnings := untestedIOMMUs(p)
	if !p.HasIOMMU() {
		return warnings
	}

	for _, root := range p.GuestTree.Roots {
		for port := range root.Walk() {
			if port.Kind != topology.DownstreamPort ||
				slices.ContainsFunc(port.Parent.Path(), isDownstreamPort) {
				continue
			}

			var devices []string
			parents := map[*topology.Node]bool{}
			for device := range port.Endpoints() {
				devices = append(devices, device.ID.String())
				parents[device.Parent] = true
			}

			if len(parents) > 1 {
				warnings = append(warnings, reasons.NewWarning(reasons.CodeVIOMMUGroup, nil,
					"devices under one port of a switch share an IOMMU group in the guest: "+
						strings.Join(devices, ", ")))
			}
		}
	}

	return warnings
}

// isDownstreamPort reports whether a node is a switch's port. QEMU's have no ACS
// (hw/pci-bridge/xio3130_downstream.c and cxl_downstream.c), so that a guest's kernel puts all
// under one into a group (Linux drivers/iommu/iommu.c, pci_device_group).
func isDownstreamPort(n *topology.Node) bool { return n.Kind == topology.DownstreamPort }

// untestedIOMMUs warns of IOMMUs that are not known to serve devices under expander
// buses. VT-d does (test/boot, TestVIOMMU).
func untestedIOMMUs(p *Plan) []reasons.Warning {
	var warnings []reasons.Warning
	for _, iommu := range p.result.IOMMUs() {
		if iommu.Model != "intel" {
			warnings = append(warnings,
				reasons.NewWarning(reasons.CodeVIOMMU, nil,
					fmt.Sprintf("the domain has a vIOMMU of model %q",
						topology.Abridge(iommu.Model))))
		}
	}

	if p.result.CommandLineIOMMU {
		warnings = append(warnings,
			reasons.NewWarning(reasons.CodeVIOMMU, nil,
				"the domain has a vIOMMU in qemu:commandline, which libvirt does not know"))
	}

	return warnings
}
