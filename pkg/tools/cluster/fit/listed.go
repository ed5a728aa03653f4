package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
)

// Attributes of dra-driver-nvidia-gpu, with its gate FabricManagerPartitioning: the GPU's module
// id, and per size the partition that it is in (site/content/docs/guides/gpu-allocation,
// fabric-manager-partitioning.md).
const (
	moduleAttribute    = "gpu.nvidia.com/gpuModuleID"
	partitionAttribute = "gpu.nvidia.com/partition" // and the size
)

// PartitionsOf returns the NVLink partitions of a node, which need not be among the objects, with
// the addresses of its GPUs as far as they are known. It is empty where nothing says them.
func (f *Fleet) PartitionsOf(name string) (nvlink.List, error) {
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if i := slices.IndexFunc(f.Nodes, func(n *corev1.Node) bool { return n.Name == name }); i >= 0 {
		object = f.Nodes[i]
	}
	return f.node(object).list()
}

// list returns the partitions that a file lists, else those of the node's annotation, else those
// that its driver publishes.
func (n *node) list() (nvlink.List, error) {
	list, isListed := n.Partitions[n.Name]
	if text := n.Annotations[PartitionsAnnotation]; !isListed && text != "" {
		var err error
		if list, err = nvlink.Parse([]byte(text)); err != nil {
			return nvlink.List{}, fmt.Errorf("node %s: annotation %s: %w", n.Name,
				PartitionsAnnotation, err)
		}

		for i := range list.Partitions {
			list.Partitions[i].IsActive = false
		}

		isListed = true
	}

	if !isListed {
		return nvlink.List{
			Partitions: n.publishedPartitions(), Addresses: n.moduleAddresses(),
		}, nil
	}

	// NVML's ids and Fabric Manager's may differ where that knows addresses, as on A100.
	if len(list.Addresses) == 0 {
		list.Addresses = n.moduleAddresses()
	}

	return list, nil
}

// moduleAddresses returns the PCI address per physical id, as far as devices have both.
func (n *node) moduleAddresses() map[nvlink.Module]topology.Address {
	addresses := map[nvlink.Module]topology.Address{}
	for _, d := range n.devices {
		if module, isKnown := moduleOf(d); isKnown {
			addresses[module] = d.place.address
		}
	}

	return addresses
}

// publishedPartitions returns the partitions that devices say they are in. One that lacks a GPU is
// left out: it cannot be activated. The driver gives none to a GPU without a physical id.
func (n *node) publishedPartitions() (found []nvlink.Partition) {
	type key struct{ size, id int }
	members := map[key][]nvlink.Module{}
	for _, d := range n.devices {
		module, isKnown := moduleOf(d)
		if !isKnown {
			continue
		}

		for name, a := range d.published.Attributes {
			size, isPartition := strings.CutPrefix(qualify(string(name), d.Driver),
				partitionAttribute)
			gpus, err := strconv.Atoi(size)
			if isPartition && err == nil && a.IntValue != nil {
				k := key{gpus, int(*a.IntValue)}
				members[k] = append(members[k], module)
			}
		}
	}

	for k, modules := range members {
		slices.Sort(modules)
		if modules = slices.Compact(modules); len(modules) == k.size {
			found = append(found, nvlink.Partition{ID: k.id, Modules: modules})
		}
	}

	slices.SortFunc(found, func(a, b nvlink.Partition) int { return cmp.Compare(a.ID, b.ID) })
	return found
}

// moduleOf returns the physical id that a device with an address publishes.
func moduleOf(d OfferedDevice) (nvlink.Module, bool) {
	if d.published == nil || d.Address == "" {
		return 0, false
	}

	for _, value := range d.values(moduleAttribute) {
		if module, err := strconv.Atoi(value); err == nil {
			return nvlink.Module(module), true
		}
	}

	return 0, false
}
