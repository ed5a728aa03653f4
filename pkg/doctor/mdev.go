package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
)

// byGPU groups mediated devices by physical function, and returns the functions
// by address. Since Ampere the parent of a mediated device is a virtual function
// of the GPU.
func byGPU(host *topology.Host, mdevs []topology.MDEV) ([]topology.Address, map[topology.Address][]topology.MDEV) {
	gpus := map[topology.Address][]topology.MDEV{}
	for _, m := range mdevs {
		if m.Parent == nil {
			continue
		}
		gpu := *m.Parent
		if parent := host.Device(gpu); parent != nil && parent.PhysFn != nil {
			gpu = *parent.PhysFn
		}
		gpus[gpu] = append(gpus[gpu], m)
	}
	return slices.SortedFunc(maps.Keys(gpus), topology.Address.Compare), gpus
}

// typesOf returns the sorted types of mediated devices.
func typesOf(mdevs []topology.MDEV) []string {
	names := map[string]bool{}
	for _, m := range mdevs {
		names[cmp.Or(m.Type, "unknown")] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// mdevTypes checks whether each GPU has one type of vGPU. In equal-size mode,
// the default, all vGPUs of a GPU have the frame buffer size of the first
// (NVIDIA vGPU software user guide).
func mdevTypes(in Inputs) []Result {
	gpus, mdevs := byGPU(in.Host, in.Host.MDEVs)
	var found []Result
	for _, gpu := range gpus {
		if types := typesOf(mdevs[gpu]); len(types) > 1 {
			found = append(found, about(topology.PCIDevice(gpu), warn("use types of one size, unless the GPU is in mixed-size mode: in equal-size mode all its vGPUs have the size of the first",
				"%s has mediated devices of the types %s", gpu, strings.Join(types, " and ")))...)
		}
	}
	if len(gpus) == 0 {
		return nil
	}
	return orPass(found, "%s with mediated devices of one type each", topology.Counted(len(gpus), "device"))
}

// mdevUnused reports mediated devices that the domain does not use. A GPU keeps
// its type as long as it has one.
func mdevUnused(in Inputs) []Result {
	if in.Plan == nil {
		return note("pass --domain to see which ones it does not use", "%s on the host", topology.Counted(len(in.Host.MDEVs), "mediated device"))
	}
	used := in.subjects()
	unused := slices.DeleteFunc(slices.Clone(in.Host.MDEVs), func(m topology.MDEV) bool { return slices.Contains(used, topology.MediatedDevice(m.UUID)) })
	gpus, mdevs := byGPU(in.Host, unused)
	var found []Result
	for _, gpu := range gpus {
		found = append(found, about(topology.PCIDevice(gpu), note("if no other VM uses them either: echo 1 > /sys/bus/mdev/devices/UUID/remove, before the GPU can get another type",
			"the domain does not use %s of %s: type %s", topology.Counted(len(mdevs[gpu]), "mediated device"), gpu, strings.Join(typesOf(mdevs[gpu]), " and ")))...)
	}
	for _, m := range unused {
		if m.Parent == nil {
			id := topology.MediatedDevice(m.UUID)
			found = append(found, about(id, note("", "the domain does not use %s: type %s, no PCI device above it", id, cmp.Or(m.Type, "unknown")))...)
		}
	}
	return orPass(found, "%s, all used by the domain", topology.Counted(len(in.Host.MDEVs), "mediated device"))
}
