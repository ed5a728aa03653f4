package doctor

import (
	"slices"

	"hook-sidecar/pkg/placement/request"
	"hook-sidecar/pkg/words"
)

// requested checks whether the domain has the devices that the VMI asks for: those of a resource,
// which a variable may yet name, and the virtual functions of its interfaces.
func requested(in Inputs) []Result {
	if in.VMI == nil {
		return nil
	}

	found := in.found("requested-devices")
	count := len(in.VMI.GPUs) + len(in.VMI.HostDevices)
	for _, i := range in.VMI.Interfaces {
		if i.SRIOV == nil {
			continue
		}

		count++
		if !slices.Contains(in.Plan.Domain().HostdevAliases, request.SRIOVAlias+i.Name) {
			found = append(found, warn("see that the pod's annotation kubevirt.io/network-info names "+
				"the network, and restart the VM: KubeVirt reads it before the start",
				"interface %s of the VMI, a virtual function, has no hostdev in the domain",
				words.OneLine(i.Name))...)
		}
	}

	if count == 0 {
		return nil
	}

	return orPass(found, "%s of the VMI, all in the domain", words.Counted(count, "device"))
}
