package doctor

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

func domainChecks() []Check {
	return []Check{
		{"machine-type", machineType},
		{"guest-numa", guestNUMA},
		{"placement", placed},
		{"requested-devices", requested},
		{"variables", variables},
		{"root-complex-annotation", rootComplex},
		{"viommu", vIOMMU},
		{"launch-security", launchSecurity},
	}
}

// hasDevices reports whether there is a domain with devices to place.
func (in Inputs) hasDevices() bool { return in.Plan != nil && len(in.Plan.Devices) > 0 }

func machineType(in Inputs) []finding {
	if in.Domain == nil {
		return nil
	}
	if !placement.SupportedMachine(in.Domain) {
		return fail(reasons.Machine.Remedy(), "machine %q has no expander buses", in.Domain.Machine)
	}
	return pass("%s", in.Domain.Machine)
}

// guestNUMA asks whether the guest has NUMA cells, and where it has none which
// of the three things is missing that KubeVirt makes them of (KubeVirt
// pkg/virt-launcher/virtwrap/converter/vcpu, guestMappingPassthrough).
func guestNUMA(in Inputs) []finding {
	switch {
	case in.Domain == nil && in.VMI == nil, in.Domain != nil && !in.hasDevices():
		return nil
	case in.Domain == nil && len(in.missingForNUMA()) > 0:
		return in.noCells("the guest will have no NUMA cells")
	case in.Domain == nil:
		return pass("the VMI asks for guest NUMA cells")
	case len(in.Domain.Cells) == 0:
		return in.noCells("the guest has no NUMA cells")
	case len(in.Domain.Memnodes) == 0 && len(in.Domain.Pins) == 0:
		return warn("bind cells to nodes with numatune/memnode, or pin the vCPUs", "nothing says on which host nodes the %s of the guest are",
			topology.Counted(len(in.Domain.Cells), "NUMA cell"))
	}
	return pass("%s", topology.Counted(len(in.Domain.Cells), "guest NUMA cell"))
}

// noCells is a FAIL with layout numa, which has then nowhere to place a device.
// The others place devices that share a PCIe root together all the same.
func (in Inputs) noCells(found string) []finding {
	hint := reasons.NoGuestNUMA.Remedy()
	if missing := in.missingForNUMA(); len(missing) > 0 {
		hint = "set " + strings.Join(missing, " and ") + " in the VMI"
	}
	if in.Layout == policy.LayoutNUMA {
		return fail(hint, "%s, so that layout numa has nowhere to place a device", found)
	}
	hint, _, _ = strings.Cut(hint, ";") // behind it stands that this layout needs no cells
	return warn(hint, "%s, and so it sees no NUMA node of a device", found)
}

// missingForNUMA are the fields of the VMI that KubeVirt wants before it makes
// NUMA cells, and that are not set.
func (in Inputs) missingForNUMA() []string {
	if in.VMI == nil {
		return nil
	}
	var missing []string
	if !in.VMI.DedicatedCPU {
		missing = append(missing, "spec.domain.cpu.dedicatedCpuPlacement")
	}
	if !in.VMI.Hugepages {
		missing = append(missing, "spec.domain.memory.hugepages")
	}
	if !in.VMI.GuestMappingPassthrough {
		missing = append(missing, "spec.domain.cpu.numa.guestMappingPassthrough")
	}
	return missing
}

// placed asks whether the hook finds a place for each device. Devices without
// one are told of together where they have the reason in common.
func placed(in Inputs) []finding {
	if !in.hasDevices() {
		return nil
	}
	kept := 0
	unplaced := map[reasons.Reason][]topology.DeviceID{}
	for _, d := range in.Plan.Devices {
		switch d.Outcome {
		case placement.Kept:
			kept++
		case placement.Unplaced:
			unplaced[d.Reason] = append(unplaced[d.Reason], d.ID)
		}
	}
	var found []finding
	for _, reason := range reasons.Reasons() {
		switch ids := unplaced[reason]; {
		case len(ids) == 1:
			found = append(found, of(ids[0], fail(reason.Remedy(), "%s is not placed: %s", ids[0], reason))...)
		case len(ids) > 1:
			found = append(found, fail(reason.Remedy(), "%s are not placed: %s", list(ids), reason)...)
		}
	}
	return orPass(found, "layout %s: %d placed, %d kept", in.Plan.Policy.Layout, len(in.Plan.Devices)-kept, kept)
}

// requested asks whether each device that the VMI asks for is there.
func requested(in Inputs) []finding {
	if in.VMI == nil || in.Plan == nil || len(in.VMI.GPUs)+len(in.VMI.HostDevices) == 0 {
		return nil
	}
	var found []finding
	for _, w := range in.Plan.Warnings {
		if w.Code == reasons.CodeNotAllocated {
			found = append(found, warn(w.Remedy, "%s", w.Text)...)
		}
	}
	return orPass(found, "%s of the VMI, all in the domain", topology.Counted(len(in.VMI.GPUs)+len(in.VMI.HostDevices), "device"))
}

// variables asks whether the variables of device plugins and the domain name
// the same devices. In a hook sidecar there are none.
func variables(in Inputs) []finding {
	var found []finding
	for _, p := range in.Problems {
		if p.Code == env.CodeBadVariable || p.Code == env.CodeVariableConflict {
			found = append(found, warn(reasons.Code(p.Code).Remedy(), "%s: %s", p.Source, p.Text)...)
		}
	}
	if len(in.Variables) == 0 {
		if in.Domain == nil && len(found) == 0 {
			return nil
		}
		return append(found, note("the kubelet sets them in the compute container only; give them with --env", "no PCI_RESOURCE_* or MDEV_PCI_RESOURCE_* variables here")...)
	}
	if in.Plan == nil {
		return orPass(found, "%s", topology.Counted(len(in.Variables), "variable"))
	}
	named := map[topology.DeviceID]bool{}
	for _, v := range in.Variables {
		var unused []topology.DeviceID
		for _, id := range v.IDs {
			named[id] = true
			if !in.isUsed(id) {
				unused = append(unused, id)
			}
		}
		if len(unused) > 0 {
			found = append(found, warn("the pod holds them and the VM has no use of them: check the count in the VMI", "%s names what the domain has not: %s", v.Name, list(unused))...)
		}
	}
	var missing []topology.DeviceID
	for _, d := range in.Plan.Devices {
		if !named[d.ID] && in.hasVariableFor(d.Resource, d.ID.Kind()) {
			missing = append(missing, d.ID)
		}
	}
	if len(missing) > 0 {
		found = append(found, warn("are the variables those of this VM's compute container?", "the variable of its resource does not name %s", list(missing))...)
	}
	return orPass(found, "%s name the devices of the domain", topology.Counted(len(in.Variables), "variable"))
}

// isUsed reports whether a device of a variable is in the plan, or is another
// function of one that is: plugins name a whole IOMMU group.
func (in Inputs) isUsed(id topology.DeviceID) bool {
	return slices.ContainsFunc(in.Plan.Devices, func(d placement.Decision) bool {
		a, isPCI := id.PCI()
		b, otherIsPCI := d.ID.PCI()
		return d.ID == id || isPCI && otherIsPCI && a.SameDevice(b)
	})
}

func (in Inputs) hasVariableFor(resource string, kind topology.Kind) bool {
	prefix := env.PCIResourcePrefix
	if kind == topology.KindMDEV {
		prefix = env.MDEVResourcePrefix
	}
	return resource != "" && slices.ContainsFunc(in.Variables, func(v env.Variable) bool {
		return v.Name == env.VariableName(prefix, resource)
	})
}

func rootComplex(in Inputs) []finding {
	if in.VMI == nil {
		return nil
	}
	if in.VMI.Annotations[placement.RootComplexAnnotation] == "true" {
		return warn("remove the annotation: the hook moves nothing with it", "the VMI has the annotation %s", placement.RootComplexAnnotation)
	}
	return pass("not set")
}

func vIOMMU(in Inputs) []finding {
	if in.Domain == nil {
		return nil
	}
	if in.Domain.VIOMMU {
		return warn(reasons.CodeVIOMMU.Remedy(), "the domain has a vIOMMU")
	}
	return pass("the domain has none")
}

func launchSecurity(in Inputs) []finding {
	if in.Domain == nil {
		return nil
	}
	if in.Domain.LaunchSecurity {
		return warn(reasons.CodeLaunchSecurity.Remedy(), "the domain has launchSecurity")
	}
	return pass("the domain has none")
}

// onMainBus reports whether a device of the plan stands on the main bus.
func (in Inputs) onMainBus(d placement.Decision) bool {
	if len(d.GuestPath) == 0 {
		return true
	}
	return !slices.ContainsFunc(in.Plan.Controllers, func(c placement.Controller) bool {
		return c.Index == d.GuestPath[0] && c.Model == domain.ExpanderBus
	})
}
