package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
)

func mdevChecks() []Check {
	return []Check{
		{"mdev-types", mdevTypes},
		{"mdev-unused", mdevUnused},
	}
}

// byGPU are the mediated devices that pass the filter, by the physical function
// that they are parts of, which come in order of address. From Ampere on the
// parent is a virtual function of the GPU.
func byGPU(host *topology.Host, filter func(topology.MDEV) bool) ([]topology.Address, map[topology.Address][]topology.MDEV) {
	gpus := map[topology.Address][]topology.MDEV{}
	for _, m := range host.MDEVs {
		if m.Parent == nil || !filter(m) {
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

// types are the types of mediated devices, each once, in order.
func types(mdevs []topology.MDEV) []string {
	names := map[string]bool{}
	for _, m := range mdevs {
		names[cmp.Or(m.Type, "of unknown type")] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// mdevTypes asks whether each GPU is cut into one type of vGPU. In equal-size
// mode, the default, all vGPUs of a GPU have the frame buffer of the first
// (NVIDIA vGPU software user guide).
func mdevTypes(in Inputs) []finding {
	gpus, mdevs := byGPU(in.Host, func(topology.MDEV) bool { return true })
	var found []finding
	for _, gpu := range gpus {
		if names := types(mdevs[gpu]); len(names) > 1 {
			found = append(found, of(topology.PCIDevice(gpu), warn("keep to types of one size, unless the GPU is in mixed-size mode: it starts no vGPU of another size than the first",
				"%s has mediated devices of the types %s", gpu, strings.Join(names, " and ")))...)
		}
	}
	if len(gpus) == 0 {
		return nil
	}
	return orPass(found, "%s with mediated devices of one type each", topology.Counted(len(gpus), "device"))
}

// mdevUnused tells of mediated devices that the domain does not use. As long
// as one is there, its GPU keeps its type.
func mdevUnused(in Inputs) []finding {
	if len(in.Host.MDEVs) == 0 {
		return nil
	}
	if in.Domain == nil {
		return note("give the domain with --domain to see which it does not use", "%s on the host", topology.Counted(len(in.Host.MDEVs), "mediated device"))
	}
	used := in.subjects()
	gpus, mdevs := byGPU(in.Host, func(m topology.MDEV) bool {
		return !slices.Contains(used, topology.MediatedDevice(m.UUID))
	})
	var found []finding
	for _, gpu := range gpus {
		unused := mdevs[gpu]
		found = append(found, of(topology.PCIDevice(gpu), note("if no other VM uses them either: echo 1 > /sys/bus/mdev/devices/UUID/remove, before the GPU can get another type",
			"%s of %s not used here: type %s", topology.Counted(len(unused), "mediated device"), gpu, strings.Join(types(unused), " and ")))...)
	}
	for _, m := range in.Host.MDEVs {
		if id := topology.MediatedDevice(m.UUID); m.Parent == nil && !slices.Contains(used, id) {
			found = append(found, of(id, note("", "%s is not used here: type %s, no PCI device above it", id, cmp.Or(m.Type, "unknown")))...)
		}
	}
	return orPass(found, "%s, all of this domain", topology.Counted(len(in.Host.MDEVs), "mediated device"))
}
