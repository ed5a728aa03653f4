package placement

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// maxIOPorts is how many ports with an I/O BAR below fit into SeaBIOS's I/O
// space: 4 KiB each. With more it stops without a word (measured, 15 of 15).
const maxIOPorts = 14

// concerns warns of what the plan leaves to the user.
func (b *builder) concerns(t *tree) {
	b.warnOfIOSpace(t)
	b.warnOfGroups()
	if !slices.ContainsFunc(b.devices, func(d *device) bool { return d.Outcome == Placed || d.Reason == reasons.AlreadyAligned }) {
		return
	}
	if b.Domain.VIOMMU {
		b.warn(reasons.CodeVIOMMU, nil, "the domain has a vIOMMU")
	}
	if b.Domain.LaunchSecurity {
		b.warn(reasons.CodeLaunchSecurity, nil, "the domain has launchSecurity")
	}
	b.warnOfSwitchPorts(t)
}

// maxHotplugSwitchPorts is how many downstream ports that can hotplug lose no
// device (measured with OVMF 2022.11: 12 lose none, 16 lose all).
const maxHotplugSwitchPorts = 12

func (b *builder) warnOfSwitchPorts(t *tree) {
	ports, open := 0, 0
	for _, c := range t.domain.Controllers {
		if c.Model == domain.DownstreamPort {
			ports++
			if !c.HotplugOff {
				open++
			}
		}
	}
	if ports > 0 {
		b.warn(reasons.CodeSwitchPortSpeed, nil, "emulated switch ports advertise 2.5 GT/s x1, and NCCL believes them")
	}
	if b.Domain.UEFI && open > maxHotplugSwitchPorts {
		b.warn(reasons.CodeSwitchPortHotplug, nil, fmt.Sprintf("%d switch ports stay hotpluggable, and UEFI may hand over without a BAR for the devices behind them", open))
	}
}

func (b *builder) warnOfIOSpace(t *tree) {
	if b.Domain.UEFI {
		return
	}
	ports := map[string]bool{}
	for _, d := range b.devices {
		if d.ID.Kind() != topology.KindPCI || d.Function == nil ||
			!slices.ContainsFunc(d.Function.BARs, func(bar topology.BAR) bool { return bar.IO }) {
			continue
		}
		port := d.ID.String()
		if d.Address != nil {
			port = fmt.Sprint(d.Address.Bus)
		}
		ports[port] = true
	}
	if len(ports) > maxIOPorts {
		b.warn(reasons.CodeIOSpace, nil, fmt.Sprintf("%d ports have a device with an I/O BAR below and the domain boots with SeaBIOS, which has room for %d",
			len(ports), maxIOPorts))
	}
}

// warnOfGroups names the devices whose IOMMU group holds a function that is
// bound to a driver of the host: VFIO then refuses the whole group (kernel
// Documentation/driver-api/vfio.rst, "group viability").
func (b *builder) warnOfGroups() {
	for _, d := range b.devices {
		if d.IOMMUGroup == nil || d.ID.Kind() != topology.KindPCI {
			continue
		}
		for _, other := range b.Host.Devices {
			if other.IOMMUGroup == nil || *other.IOMMUGroup != *d.IOMMUGroup || other.IsBridge ||
				other.Driver == "" || isVFIO(other.Driver) || other.Driver == "pci-stub" || isVGPU(other) {
				continue
			}
			text := fmt.Sprintf("IOMMU group %d of %s also holds %s, which is bound to %s", *d.IOMMUGroup, d.ID, other.Address, other.Driver)
			if d.ID == topology.PCIDevice(other.Address) {
				text = fmt.Sprintf("%s is bound to %s, which is no VFIO driver", d.ID, other.Driver)
			}
			b.warn(reasons.CodeGroupNotViable, &d.ID, text)
		}
	}
}

// isVGPU reports whether f is a virtual function that NVIDIA's own driver hands
// to VFIO as a vGPU, without a VFIO driver bound to it (KubeVirt
// pkg/virt-handler/device-manager/nvidia.go, shouldPermitNvidia).
func isVGPU(f topology.Device) bool { return f.PhysFn != nil && f.Driver == "nvidia" }

// warnOfUnknownAliases names the aliases that are to be kept and that no
// hostdev has. Those that are not placed, such as USB ones, are kept anyway.
func (b *builder) warnOfUnknownAliases() {
	for _, alias := range b.Policy.Keep {
		known := slices.Contains(b.Domain.HostdevAliases, alias) ||
			slices.ContainsFunc(b.devices, func(d *device) bool { return d.Alias == alias })
		if !known {
			b.warn(reasons.CodeUnknownAlias, nil, fmt.Sprintf("no hostdev has the alias %q that is to be kept", topology.Abridge(alias)))
		}
	}
}

// warnOfCollisions names the variables that stand for several resources of the
// VMI.
func (b *builder) warnOfCollisions() {
	for _, v := range b.Variables {
		if resources := b.resourcesOf(v); len(resources) > 1 {
			b.warn(reasons.CodeVariableCollision, nil, fmt.Sprintf("%s stands for the resources %s of the VMI alike", v.Name, strings.Join(resources, " and ")))
		}
	}
}
