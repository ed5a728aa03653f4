package findings

import (
	"fmt"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// blockedGroups finds devices whose IOMMU group holds a function that is bound to a driver of the
// host: VFIO then refuses the whole group.
func blockedGroups(plan *placement.Plan) []reasons.Finding {
	var all []reasons.Finding
	for _, d := range plan.Devices {
		if d.IOMMUGroup == nil || d.ID.Kind() != topology.KindPCI {
			continue
		}

		own := plan.Host.Function(d.ID)
		if own != nil && own.BlocksGroup() {
			found := about(d.ID, "%s is bound to %s, which is not a VFIO driver", d.ID, own.Driver)
			found[0].Remedy = BindRemedy(own)
			all = append(all, found...)
		}

		all = append(all, othersInGroup(plan.Host, d.ID, *d.IOMMUGroup)...)
	}

	return all
}

// BindRemedy returns the remedy for a function of a VM that no VFIO driver has. Whoever binds a
// disk or NIC that the node runs on takes it from the node.
func BindRemedy(f *topology.Function) string {
	bind := fmt.Sprintf("driverctl set-override %s vfio-pci", f.Address)
	if f.ServesNode() {
		return fmt.Sprintf("leave %s out of VMs if the node uses this %s (lsblk and ip -details link "+
			"on the node show it); only else %s", f.Address, f.Noun(), bind)
	}

	if f.Driver != "" {
		return fmt.Sprintf("once nothing on the node uses this %s: %s", f.Noun(), bind)
	}

	return "bind it: " + bind
}

// othersInGroup finds the other functions of a device's IOMMU group that the host's drivers hold.
func othersInGroup(host *topology.Host, id topology.DeviceID, group int) []reasons.Finding {
	own, _ := id.PCI()
	var all []reasons.Finding
	for i := range host.Functions {
		other := &host.Functions[i]
		isBlocking := other.BlocksGroup() && *other.IOMMUGroup == group
		if !isBlocking || id == topology.PCIDevice(other.Address) {
			continue
		}

		format := "IOMMU group %d of %s also holds %s, which is bound to %s"
		remedy := fmt.Sprintf("bind this %s of the same card, too: driverctl set-override %s vfio-pci",
			other.Noun(), other.Address)
		if other.ServesNode() || !own.SameDevice(other.Address) {
			format = "IOMMU group %d of %s also holds %s (" + other.Noun() + "), which the node " +
				"uses with %s"
			remedy = fmt.Sprintf("leave %s out of VMs, or put it into another slot; do not bind %s "+
				"to vfio-pci: the node uses it", id, other.Address)
		}

		found := about(id, format, group, id, other.Address, other.Driver)
		found[0].Remedy = remedy
		all = append(all, found...)
	}

	return all
}
