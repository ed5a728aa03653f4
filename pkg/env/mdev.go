package env

import (
	"fmt"
	"path"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// addMDEV reads a mediated device and its parent.
func (r *hostReader) addMDEV(u topology.UUID) {
	if _, seen := r.mdevs[u]; seen {
		return
	}
	r.mdevs[u] = nil
	name, shown := r.mdevNames[u]
	if !shown {
		r.notShown(topology.MediatedDevice(u), mdevDevices)
		return
	}
	dir, ok := r.deviceDir(path.Join(mdevDevices, name))
	if !ok {
		return
	}
	m := &topology.MDEV{
		UUID:       u,
		Type:       r.linkBase(dir + "/mdev_type"),
		IOMMUGroup: r.iommuGroup(dir + "/iommu_group"),
	}
	r.mdevs[u] = m
	// Under devices/virtual the parent is a driver, such as mtty (kernel
	// samples/vfio-mdev), and not a PCI function.
	parent, err := topology.ParseAddress(path.Base(path.Dir(dir)))
	if err != nil {
		return
	}
	m.Parent = &parent
	if _, shown := r.pciNames[parent]; !shown {
		r.problem(reasons.CodeBadSysfs, dir, fmt.Sprintf("the parent %s of this mediated device is not in %s", parent, pciDevices))
		return
	}
	r.addRequested(parent)
}
