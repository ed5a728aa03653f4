package findings

import (
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/topology"
)

// blockedGroups finds devices whose IOMMU group holds a function that is bound to a driver of the
// host: VFIO then refuses the whole group.
func blockedGroups(plan *placement.Plan) []Finding {
	var all []Finding
	for _, d := range plan.Devices {
		if d.IOMMUGroup == nil || d.ID.Kind() != topology.KindPCI {
			continue
		}

		own := plan.Host.Function(d.ID)
		if own != nil && own.BlocksGroup() {
			all = append(all,
				about(d.ID, "%s is bound to %s, which is not a VFIO driver", d.ID, own.Driver)...)
		}

		all = append(all, othersInGroup(plan.Host, d.ID, *d.IOMMUGroup)...)
	}

	return all
}

// othersInGroup finds the other functions of a device's IOMMU group that the host's drivers hold.
func othersInGroup(host *topology.Host, id topology.DeviceID, group int) []Finding {
	var all []Finding
	for i := range host.Functions {
		other := &host.Functions[i]
		isBlocking := other.BlocksGroup() && *other.IOMMUGroup == group
		if !isBlocking || id == topology.PCIDevice(other.Address) {
			continue
		}

		all = append(all, about(id, "IOMMU group %d of %s also holds %s, which is bound to %s",
			group, id, other.Address, other.Driver)...)
	}

	return all
}
