package doctor

import (
	"slices"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// variables checks whether the device plugins' environment variables and the domain name
// the same devices. A hook sidecar has no such variables.
func variables(in Inputs) []Result {
	found := in.problems("variables")
	switch {
	case len(in.Variables) == 0 && (in.Plan == nil || in.Node): // they are of one VM
		return found
	case len(in.Variables) == 0 && in.Variables != nil:
		return append(found,
			note("",
				"the compute container has no environment variables PCI_RESOURCE_* or "+
					"MDEV_PCI_RESOURCE_*")...)

	case len(in.Variables) == 0:
		return append(found,
			note("the kubelet sets them in the compute container only; hook-sidecar doctor takes "+
				"them with --env",
				"no environment variables PCI_RESOURCE_* or MDEV_PCI_RESOURCE_*")...)

	case in.Plan == nil:
		return orPass(found, "%s", words.Counted(len(in.Variables), "environment variable"))
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
			found = append(found,
				warn("the pod holds devices that the VM does not use: check the count in the VMI",
					"%s names devices that are not in the domain: %s", v.Name, list(unused))...)
		}
	}

	var missing []topology.DeviceID
	for _, d := range in.Plan.Devices {
		if !named[d.ID] && in.hasVariableFor(d.Resource, d.ID.Kind()) {
			missing = append(missing, d.ID)
		}
	}

	if len(missing) > 0 {
		found = append(found,
			warn("check that the environment variables are those of this VM's compute container",
				"the environment variable of the resource does not name %s", list(missing))...)
	}

	return orPass(found, "the domain has the devices of %s",
		words.Counted(len(in.Variables), "environment variable"))
}

// isUsed reports whether a device of a variable, or another function of it, is in the plan:
// plugins name a whole IOMMU group.
func (in Inputs) isUsed(id topology.DeviceID) bool {
	return slices.ContainsFunc(in.Plan.Devices, func(d placement.Decision) bool {
		a, isPCI := id.PCI()
		b, otherIsPCI := d.ID.PCI()
		return d.ID == id || isPCI && otherIsPCI && a.SameDevice(b)
	})
}

func (in Inputs) hasVariableFor(resource string, kind topology.Kind) bool {
	return resource != "" && slices.ContainsFunc(in.Variables, func(v env.Variable) bool {
		return v.Kind == kind && v.IsFor(resource)
	})
}
