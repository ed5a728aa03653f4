package fit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
)

// The state of a partition beside free, used and next.
const blocked = "blocked"

// nodeWithPartitions returns a node with the NVLink partitions of its GPUs.
func (f *Fleet) nodeWithPartitions(object *corev1.Node) *node {
	n := f.node(object)
	n.partitions = n.findPartitions()
	return n
}

// findPartitions returns the partitions of the node's GPUs, by ID. One is left out if the address
// of a GPU is not known. Where some or all cannot be told, n.problem says why.
func (n *node) findPartitions() (found []Partition) {
	list, err := n.list()
	if err != nil {
		n.problem = err.Error()
	}

	for _, p := range list.Partitions {
		places := sets.New[topology.DeviceID]()
		for _, module := range p.Modules {
			if address, isKnown := list.Addresses[module]; isKnown {
				places.Insert(topology.PCIDevice(address))
			}
		}

		if places.Len() == len(p.Modules) {
			found = append(found, n.partition(p.ID, places, p.IsActive))
		}
	}

	found = slices.DeleteFunc(found, func(p Partition) bool { return p.devices.Len() == 0 })
	if problem := problemOf(list, found); problem != "" {
		n.problem = fmt.Sprintf("node %s: %s", n.Name, problem)
	}

	slices.SortFunc(found, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(len(b.GPUs), len(a.GPUs)))
	})

	n.setStates(found)
	return found
}

// problemOf says why partitions of a list are not those that were found among the devices of its
// node; "" where they are.
func problemOf(list nvlink.List, found []Partition) string {
	var unknown []string
	for _, module := range list.Modules() {
		if _, isKnown := list.Addresses[module]; !isKnown {
			unknown = append(unknown, fmt.Sprint(module))
		}
	}

	switch {
	case len(list.Partitions) == 0:
		return ""
	case len(list.Addresses) == 0:
		return "the list has no PCI addresses: fill in pciBusId (" +
			reasons.Page("docs/devices.md#nvlink-partitions") + " shows how), or have the driver publish " +
			moduleAttribute
	case len(found) == 0:
		return "it offers no GPU at an address of the list: check that the list is of this node, " +
			"and read the node with --snapshot if a device plugin gives its GPUs"
	case len(unknown) > 0:
		return "those with a GPU whose pciBusId the list lacks, physicalId " +
			strings.Join(unknown, ", ")
	}

	return ""
}

// partition returns the partition of the GPUs at these places, as if nothing used them. A GPU may
// be published as several devices: NVIDIA's driver offers each for containers and for VMs until one
// of the two is prepared.
func (n *node) partition(id int, places sets.Set[topology.DeviceID], isActive bool) Partition {
	p := Partition{
		ID:       id,
		GPUs:     []string{},
		State:    free,
		places:   places,
		isActive: isActive,
		devices:  sets.New[deviceID](),
	}

	for _, d := range n.devices {
		if d.Address != "" && places.Has(d.pci) {
			p.devices.Insert(n.idOf(d))
		}
	}

	for place := range places {
		p.GPUs = append(p.GPUs, place.String())
	}

	slices.Sort(p.GPUs)
	p.key = fmt.Sprint(id, p.GPUs)
	return p
}

// setStates says of partitions which VM uses or blocks them. One with a GPU that the node does not
// offer is blocked by that.
func (n *node) setStates(partitions []Partition) {
	places := sets.New[topology.DeviceID]() // of all partitions
	for _, p := range partitions {
		places = places.Union(p.places)
	}

	offered := sets.New[topology.DeviceID]()
	heldBy := map[string]sets.Set[topology.DeviceID]{}
	for _, d := range n.devices {
		offered.Insert(d.pci)
		if d.State != used || !places.Has(d.pci) {
			continue
		}
		if heldBy[d.By] == nil {
			heldBy[d.By] = sets.New[topology.DeviceID]()
		}
		heldBy[d.By].Insert(d.pci)
	}

	for i := range partitions {
		p := &partitions[i]
		var users []string
		for user, held := range heldBy {
			if held.HasAny(p.places.UnsortedList()...) {
				users = append(users, user)
			}
		}

		slices.Sort(users)
		p.By = strings.Join(users, ", ")

		missing := topology.Map(p.places.Difference(offered).UnsortedList(),
			topology.DeviceID.String)
		slices.Sort(missing)

		switch {
		case len(missing) > 0:
			p.State = blocked
			p.By = strings.Join(missing, ", ") + ", which the node does not offer"
		case len(users) == 1 && heldBy[users[0]].Equal(p.places):
			p.State = used
		case len(users) > 0:
			p.State = blocked
		}
	}
}

// gpus returns the devices of all partitions, and those of their driver and product that are in
// none: on A100 Fabric Manager lists no partition of a GPU that failed or is in MIG mode.
func (n *node) gpus() sets.Set[deviceID] {
	all := sets.New[deviceID]()
	for _, p := range n.partitions {
		all = all.Union(p.devices)
	}

	products := sets.New[string]()
	for _, d := range n.devices {
		if all.Has(n.idOf(d)) {
			products.Insert(productOf(d))
		}
	}

	for _, d := range n.devices {
		if products.Has(productOf(d)) {
			all.Insert(n.idOf(d))
		}
	}

	return all
}

// productOf returns the driver of a device and the model that it publishes, if it does.
func productOf(d OfferedDevice) string {
	if d.published == nil {
		return d.Driver
	}
	return fmt.Sprint(d.Driver, d.values(d.Driver+"/productName"))
}

// usable returns the partitions of which no GPU is in use, the best to take first: the one that
// leaves the most others of the largest size, then of the next. One that overlaps an active
// partition cannot be activated, unless nothing runs.
func (n *node) usable(t taken, isEmpty bool) []Partition {
	isFree := func(p Partition, others sets.Set[topology.DeviceID]) bool {
		if t.has(p.devices.UnsortedList()...) || p.places.HasAny(others.UnsortedList()...) {
			return false
		}
		return isEmpty || !slices.ContainsFunc(n.partitions, func(q Partition) bool {
			return q.isActive && q.key != p.key && q.places.HasAny(p.places.UnsortedList()...)
		})
	}

	left := func(p Partition) map[int]int {
		sizes := map[int]int{}
		for _, q := range n.partitions {
			if isFree(q, p.places) {
				sizes[len(q.GPUs)]++
			}
		}

		return sizes
	}

	var found []Partition
	leaves := map[string]map[int]int{} // by a partition's key
	for _, p := range n.partitions {
		if isFree(p, nil) {
			found, leaves[p.key] = append(found, p), left(p)
		}
	}

	slices.SortStableFunc(found, func(a, b Partition) int {
		return compareSizes(leaves[b.key], leaves[a.key])
	})

	return found
}

// compareSizes compares numbers of partitions by size, the largest size first.
func compareSizes(a, b map[int]int) int {
	sizes := sets.KeySet(a).Union(sets.KeySet(b)).UnsortedList()
	slices.Sort(sizes)
	slices.Reverse(sizes)

	for _, size := range sizes {
		if c := cmp.Compare(a[size], b[size]); c != 0 {
			return c
		}
	}

	return 0
}

// shown returns the node's partitions with the VMs that get them.
func (n *node) shown(order []Partition) []Partition {
	found := slices.Clone(n.partitions)
	if found == nil {
		found = []Partition{}
	}

	for i := range found {
		p := &found[i]
		vm := slices.IndexFunc(order, func(q Partition) bool { return q.key == p.key })
		active := slices.IndexFunc(found, func(q Partition) bool {
			return q.isActive && q.key != p.key && q.places.HasAny(p.places.UnsortedList()...)
		})

		switch {
		case vm >= 0:
			p.State, p.By = next, fmt.Sprintf("VM %d", vm+1)
		case p.State == free && active >= 0:
			p.State, p.By = blocked, fmt.Sprintf("partition %d, which is active", found[active].ID)
		case p.State == free && p.isActive:
			p.By = "active"
		}
	}

	return found
}

// publishesPartitions reports whether any device says in which partition of a size it is.
func (f *Fleet) publishesPartitions(size int) bool {
	name := fmt.Sprint(partitionAttribute, size)
	return slices.ContainsFunc(f.Slices, func(s *resourceapi.ResourceSlice) bool {
		return slices.ContainsFunc(s.Spec.Devices, func(d resourceapi.Device) bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(d.Attributes)),
				func(key resourceapi.QualifiedName) bool {
					return qualify(string(key), s.Spec.Driver) == name
				})
		})
	})
}
