package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
	"hook-sidecar/pkg/words/lazyregexp"
)

// vgpu is a part of a GPU: a mediated device, or a virtual function with a type.
type vgpu struct {
	id   topology.DeviceID
	gpu  topology.Address // the physical function
	kind string           // "nvidia-232", "1428 (NVIDIA H200X-141C)"
}

func (in Inputs) hasVGPUs() bool { return len(in.Host.MDEVs) > 0 || len(in.vgpus()) > 0 }

// vgpus returns the vGPUs of the host that have a GPU.
func (in Inputs) vgpus() []vgpu {
	var all []vgpu
	for _, m := range in.Host.MDEVs {
		if m.Parent != nil {
			all = append(all, vgpu{
				topology.MediatedDevice(m.UUID), in.physical(*m.Parent), cmp.Or(m.Type, "unknown"),
			})
		}
	}

	for _, f := range in.Host.Functions {
		if f.Details != nil && f.Details.VGPU != nil && f.Details.VGPU.Type != 0 {
			all = append(all, vgpu{
				topology.PCIDevice(f.Address), in.physical(f.Address), in.typeName(f),
			})
		}
	}

	return all
}

// physical returns the physical function of a virtual one, which since Ampere is the parent
// of a mediated device.
func (in Inputs) physical(a topology.Address) topology.Address {
	if f := in.Host.FunctionAt(a); f != nil && f.PhysFn != nil {
		return *f.PhysFn
	}
	return a
}

// typeName returns the type of a virtual function with its name, which the GPU lists as long
// as it can be created.
func (in Inputs) typeName(f topology.Function) string {
	number := fmt.Sprint(f.Details.VGPU.Type)
	for _, other := range in.Host.Functions {
		if other.Details == nil || other.Details.VGPU == nil {
			continue
		}
		for _, t := range other.Details.VGPU.Creatable {
			if t.ID == f.Details.VGPU.Type && t.Name != "" {
				return number + " (" + words.OneLine(t.Name) + ")"
			}
		}
	}

	return number
}

func byGPU(all []vgpu) ([]topology.Address, map[topology.Address][]vgpu) {
	gpus := map[topology.Address][]vgpu{}
	for _, v := range all {
		gpus[v.gpu] = append(gpus[v.gpu], v)
	}
	return slices.SortedFunc(maps.Keys(gpus), topology.Address.Compare), gpus
}

func typesOf(vgpus []vgpu) []string {
	names := map[string]bool{}
	for _, v := range vgpus {
		names[v.kind] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// mdevTypes checks whether each GPU has one type of vGPU: in equal-size mode, the default,
// all have the frame buffer size of the first (NVIDIA vGPU software user guide).
func mdevTypes(in Inputs) []Result {
	gpus, vgpus := byGPU(in.vgpus())
	var found []Result
	for _, gpu := range gpus {
		if types := typesOf(vgpus[gpu]); len(types) > 1 {
			found = append(found,
				about(topology.PCIDevice(gpu),
					warn("use types of one size, unless the GPU is in mixed-size mode: in "+
						"equal-size mode all its vGPUs have the size of the first",
						"%s has vGPUs of the types %s", gpu, strings.Join(types, " and ")))...)
		}
	}

	if len(gpus) == 0 {
		return nil
	}

	return orPass(found, "%s with vGPUs of one type each", words.Counted(len(gpus), "device"))
}

// mdevUnused reports the vGPUs that no domain uses: the GPU keeps their type and room.
func mdevUnused(in Inputs) []Result {
	used := in.subjects()
	isUsed := func(id topology.DeviceID) bool { return slices.Contains(used, id) }
	all := in.vgpus()
	if in.Plan == nil {
		return note("pass --domain to see which ones it does not use, or the directory of the "+
			"domains of all VMs of the node", "%s on the host", words.Counted(max(len(all),
			len(in.Host.MDEVs)), "vGPU"))
	}

	const remove = "echo 1 > /sys/bus/mdev/devices/UUID/remove, or echo 0 > " +
		"nvidia/current_vgpu_type of the virtual function"
	report, whose, hint := note, "the domain does not use", "if no other VM uses them either: "+
		remove+", before the GPU can get another type"
	if in.Node {
		report, whose, hint = warn, "no domain uses", "if these are the domains of all VMs of the "+
			"node: "+remove
	}

	gpus, vgpus := byGPU(slices.DeleteFunc(all, func(v vgpu) bool { return isUsed(v.id) }))
	var found []Result
	for _, gpu := range gpus {
		found = append(found,
			about(topology.PCIDevice(gpu),
				report(hint, "%s %s of %s, and it keeps its type: %s", whose,
					words.Counted(len(vgpus[gpu]), "vGPU"), gpu,
					strings.Join(typesOf(vgpus[gpu]),
						" and ")))...)
	}

	for _, m := range in.Host.MDEVs {
		if id := topology.MediatedDevice(m.UUID); m.Parent == nil && !isUsed(id) {
			found = append(found,
				about(id,
					note("", "%s %s: type %s, no PCI device above it", whose, id,
						cmp.Or(m.Type, "unknown")))...)
		}
	}

	return orPass(found, "%s, all used",
		words.Counted(max(len(all), len(in.Host.MDEVs)), "vGPU"))
}

// vgpuCapacity checks whether each GPU can create the vGPUs that its type promises: no list
// shows the vGPUs that a killed VM or vGPU manager did not return.
func vgpuCapacity(in Inputs) []Result {
	_, vgpus := byGPU(in.vgpus())
	var found []Result
	gpus := in.supported()
	for _, gpu := range slices.SortedFunc(maps.Keys(gpus), topology.Address.Compare) {
		types := typesOf(vgpus[gpu])
		switch s := gpus[gpu]; {
		case len(types) == 0 && s.creatable == 0:
			found = append(found,
				about(topology.PCIDevice(gpu),
					warn(staleHint+"; with MIG, create GPU instances first",
						"%s has no vGPU, and none can be created", gpu))...)

		// What a type promises is for a GPU that has that type alone, and not for MIG.
		case len(types) == 1 && !isMIG(s.types[types[0]].name):
			mdevType, exist := s.types[types[0]], len(vgpus[gpu])
			if have := exist + mdevType.available; have < mdevType.most {
				found = append(found,
					about(topology.PCIDevice(gpu),
						warn(staleHint,
							"%s gives %d of %d vGPUs of type %s: %d exist, %d can be created",
							gpu, have, mdevType.most, types[0], exist, mdevType.available))...)
			}
		}
	}

	if len(gpus) == 0 {
		return nil
	}

	return orPass(found, "%s as the types promise", words.Counted(len(gpus), "device"))
}

const staleHint = "look for a process that still holds the GPU (nvidia-smi vgpu -q); once no VM of " +
	"the node has a vGPU, restart nvidia-vgpu-mgr or reset the GPU"

// isMIG reports whether a type is backed by MIG: A100-1-5C has the number of its slices,
// which depends on the GPU instances.
func isMIG(name string) bool { return migSlices.MatchString(name) }

var migSlices = lazyregexp.New(`-[0-9]+-[0-9]+[A-Z]`)

// supported has the vGPUs that a GPU can create, with all its functions.
type supported struct {
	creatable int // of any type
	types     map[string]vgpuType
}

type vgpuType struct {
	name            string
	available, most int // most is 0 if not known
}

// supported returns the vGPUs that each GPU can create, by physical function, for GPUs that
// show it.
func (in Inputs) supported() map[topology.Address]*supported {
	gpus := map[topology.Address]*supported{}
	for _, f := range in.Host.Functions {
		d := f.Details
		if d == nil || d.VGPU == nil &&
			!slices.ContainsFunc(d.MDEVTypes, func(t topology.MDEVType) bool {
				return t.Available != nil
			}) {
			continue
		}

		gpu := in.physical(f.Address)
		s := cmp.Or(gpus[gpu], &supported{types: map[string]vgpuType{}})
		gpus[gpu] = s
		if d.VGPU != nil {
			s.creatable += len(d.VGPU.Creatable)
		}

		for _, t := range d.MDEVTypes {
			if t.Available != nil {
				s.creatable += *t.Available
				s.types[t.ID] = vgpuType{
					name: t.Name, available: s.types[t.ID].available + *t.Available, most: t.Max,
				}
			}
		}
	}

	return gpus
}
