package fit

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/fleet"
)

// boards are the partition tables of testdata.
var boards = []string{"hgx-a100", "hgx-h100", "hgx-b200"}

func partitionsOf(t testing.TB, board string) nvlink.List {
	t.Helper()
	list, err := nvlink.Parse(expect.File(t, "../../../../testdata/partitions/"+board+".json"))
	expect.NoError(t, err)
	return list
}

// hgx is a node with eight GPUs and NICs, of which each GPU has a random physical id and some are
// used.
type hgx struct {
	Objects
	list   nvlink.List
	module []nvlink.Module // per GPU
	used   sets.Set[nvlink.Module]
}

func newHGX(t testing.TB, random *rand.Rand, board string) hgx {
	t.Helper()
	h := hgx{
		Objects: objects(t, "x86-2n8g-hgx-h100", fleet.NVIDIA(), fleet.SRIOV()),
		list:    partitionsOf(t, board),
		used:    sets.New[nvlink.Module](),
	}

	for i := range random.Perm(8) {
		h.module = append(h.module, nvlink.Module(i+1))
	}

	random.Shuffle(8, func(i, j int) { h.module[i], h.module[j] = h.module[j], h.module[i] })

	for i := range 8 {
		if random.IntN(4) == 0 {
			h.Claims = append(h.Claims, fleet.Allocated(fmt.Sprint("c", i), h.Slices[0], i))
			h.used.Insert(h.module[i])
		}
	}

	return h
}

// publish lets the driver publish physical ids, and the partitions that each GPU is in.
func (h hgx) publish(withPartitions bool) {
	for i := range h.Slices[0].Spec.Devices {
		attributes := h.Slices[0].Spec.Devices[i].Attributes
		module := int64(h.module[i])
		attributes["gpuModuleID"] = resourceapi.DeviceAttribute{IntValue: &module}

		for _, p := range h.list.Partitions {
			if id := int64(p.ID); withPartitions && slices.Contains(p.Modules, h.module[i]) {
				attributes[resourceapi.QualifiedName(fmt.Sprint("partition",
					len(p.Modules)))] = resourceapi.DeviceAttribute{
					IntValue: &id,
				}
			}
		}
	}
}

// annotate gives the node its annotation.
func (h hgx) annotate(text string) {
	h.Nodes[0].Annotations = map[string]string{PartitionsAnnotation: text}
}

// fmpm returns what fmpm -l prints of partitions.
func fmpm(list nvlink.List) string {
	type gpu struct {
		Module  nvlink.Module `json:"physicalId"`
		Address string        `json:"pciBusId"`
	}

	type partition struct {
		ID    int   `json:"partitionId"`
		Count int   `json:"numGpus"`
		GPUs  []gpu `json:"gpuInfo"`
	}

	var all []partition
	for _, p := range list.Partitions {
		gpus := topology.Map(p.Modules, func(m nvlink.Module) gpu {
			if address, isKnown := list.Addresses[m]; isKnown {
				return gpu{m, "0000" + address.String()}
			}
			return gpu{m, "00000000:00:00.0"}
		})
		all = append(all, partition{p.ID, len(gpus), gpus})
	}

	text, _ := json.Marshal(map[string]any{"partitionInfo": all}) // which always can
	return string(text)
}

// sharedSlice returns a device that all nodes reach and no VM takes.
func sharedSlice(t testing.TB) *resourceapi.ResourceSlice {
	t.Helper()
	o, err := parse("kind: ResourceSlice\nspec: {driver: x, pool: {name: net, generation: 1, " +
		"resourceSliceCount: 1}, allNodes: true, devices: [{name: d}]}")
	expect.NoError(t, err)
	return o.Slices[0]
}

// fits counts, by trying all sets of partitions of a size, how many VMs could run side by side.
func (h hgx) fits(size int) int {
	var free []nvlink.Partition
	for _, p := range h.list.Partitions {
		if len(p.Modules) == size && !h.used.HasAny(p.Modules...) {
			free = append(free, p)
		}
	}

	best := 0
	for set := range 1 << len(free) {
		taken, count := sets.New[nvlink.Module](), 0
		for i, p := range free {
			if set>>i&1 == 1 {
				taken.Insert(p.Modules...)
				count++
			}
		}

		if taken.Len() == count*size {
			best = max(best, count)
		}
	}

	return best
}

// legal reports whether addresses are those of a partition.
func (h hgx) legal(addresses []string) bool {
	modules := topology.Map(addresses, func(address string) nvlink.Module {
		i := slices.IndexFunc(h.Slices[0].Spec.Devices, func(d resourceapi.Device) bool {
			return *d.Attributes["resource.kubernetes.io/pciBusID"].StringValue == address
		})
		return h.module[i]
	})

	slices.Sort(modules)
	return slices.ContainsFunc(h.list.Partitions, func(p nvlink.Partition) bool {
		return slices.Equal(p.Modules, modules)
	})
}

// newTwoBoards is a node with two A100 boards, 16 GPUs, of which some are used.
func newTwoBoards(t testing.TB, random *rand.Rand) hgx {
	t.Helper()
	gpus, _ := fleet.Host(t, hostFile("x86-2n8g-hgx-h100"))
	for i := range 8 {
		second := gpus[i]
		second.Address = strings.Replace(second.Address, "0000:", "0001:", 1)
		second.Root = strings.Replace(second.Root, "0000:", "0001:", 1)
		gpus = append(gpus, second)
	}

	h := hgx{
		Objects: Objects{
			Nodes:   []*corev1.Node{fleet.Node("node")},
			Slices:  []*resourceapi.ResourceSlice{fleet.NVIDIA().Slice("node", gpus)},
			Classes: []*resourceapi.DeviceClass{fleet.NVIDIA().DeviceClass()},
		},
		list: partitionsOf(t, "hgx-a100-two"),
		used: sets.New[nvlink.Module](),
	}

	for i, module := range random.Perm(16) {
		h.module = append(h.module, nvlink.Module(module+1))
		address, err := topology.ParseAddress(gpus[i].Address)
		expect.NoError(t, err)
		h.list.Addresses[h.module[i]] = address

		if random.IntN(8) == 0 {
			h.Claims = append(h.Claims, fleet.Allocated(fmt.Sprint("c", i), h.Slices[0], i))
			h.used.Insert(h.module[i])
		}
	}

	h.Partitions = map[string]nvlink.List{"node": h.list}
	return h
}
