package fit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"hook-sidecar/pkg/topology"
)

// counted is how often a VM fits on a node.
type counted struct {
	times int
	first map[deviceID]string // the requests of the devices that the first VM gets
	why   string              // not one more fits

	order []Partition // of the GPUs of the VMs, in their order; nil where that is not known
}

// count allocates for one VM after the other until one does not fit, beside what runs or as if
// nothing did.
func (n *node) count(ctx context.Context, s Shape, isEmpty bool) counted {
	room, why := n.room(s, isEmpty)
	if len(s.Claims) == 0 {
		times, order, shortage := n.countPartitions(s, room, isEmpty)
		return counted{times: times, why: cmp.Or(shortage, why), order: order}
	}

	claims, has := s.Claims, results(nil)
	if s.isOnce && room > 0 {
		room = 1
		if !isEmpty {
			if claims, has, why = n.unallocated(s.Claims); why != "" {
				return counted{why: why}
			}
		}
	}

	if len(claims) == 0 {
		return counted{times: room, why: why, first: has.requests()}
	}

	c := n.fill(ctx, claims, n.pools, offer{n.inUse(isEmpty), room, isEmpty})
	c.why = cmp.Or(c.why, why)
	if c.times > 0 {
		maps.Copy(c.first, has.requests())
	}

	return c
}

// countPartitions counts VMs whose GPUs a device plugin gives: at most one per free partition of
// their number. It returns those partitions, in the order of VMs.
func (n *node) countPartitions(s Shape, room int, isEmpty bool) (int, []Partition, string) {
	size := 0
	resources := sets.New[string]()
	for _, d := range n.devices {
		if d.published == nil && s.Devices[d.Driver] > 0 &&
			slices.ContainsFunc(n.partitions, func(p Partition) bool {
				return p.places.Has(d.pci)
			}) {
			resources.Insert(d.Driver)
		}
	}

	for resource := range resources {
		size += s.Devices[resource]
	}

	if size == 0 {
		return room, nil, ""
	}

	t := n.inUse(isEmpty)
	for _, d := range n.devices {
		if d.State == used && !isEmpty {
			t.block(n.idOf(d))
		}
	}

	var order []Partition
	for range room {
		usable := n.usable(t, isEmpty)
		i := slices.IndexFunc(usable, func(p Partition) bool { return len(p.GPUs) == size })
		if i < 0 {
			return len(order), order, noPartition
		}

		t.block(usable[i].devices.UnsortedList()...)
		order = append(order, usable[i])
	}

	return len(order), order, ""
}

// noPartition is why no VM more fits whose GPUs have to be a partition.
const noPartition = "no free GPUs are an NVLink partition of the size that the VM needs"

// unallocated returns those of claims that have no devices yet, what the others have, and why these
// are not for another VM on the node: they are reserved, or cannot be reached from it.
func (n *node) unallocated(claims []*resourceapi.ResourceClaim) (
	open []*resourceapi.ResourceClaim, has results, why string,
) {
	for _, c := range claims {
		if c.Status.Allocation == nil {
			open = append(open, c)
			continue
		}

		if len(c.Status.ReservedFor) > 0 {
			return nil, nil, fmt.Sprintf("claim %s is reserved for %s %s", c.Name,
				c.Status.ReservedFor[0].Resource, c.Status.ReservedFor[0].Name)
		}

		if on := c.Status.Allocation.NodeSelector; on != nil && !reaches(n.Node, nil, nil, on) {
			return nil, nil, fmt.Sprintf("claim %s has devices of another node", c.Name)
		}

		has = append(has, c.Status.Allocation.Devices.Results...)
	}

	return open, has, ""
}

// offer limits the devices of a node that VMs may take.
type offer struct {
	taken   taken // not these, to which fill adds what VMs get
	room    int   // for so many VMs
	isEmpty bool  // as if nothing ran
}

// fill lets the scheduler's allocator allocate the devices of pools to one VM after the other,
// until one gets none. Where they take GPUs of partitions, those of a VM are one.
func (n *node) fill(
	ctx context.Context, claims []*resourceapi.ResourceClaim, pools []*pool, o offer,
) counted {
	if n.takesGPUs(ctx, claims) {
		return n.fillPartitions(ctx, claims, pools, o)
	}

	c := counted{}
	for c.times < o.room {
		got, why := n.allocate(ctx, claims, pools, o.taken)
		if why != "" {
			c.why = why
			return c
		}

		n.take(got, o.taken)
		c.times++
		if c.times == 1 {
			c.first = got.requests()
		}
	}

	return c
}

// takesGPUs reports whether VMs take GPUs of partitions: an empty node would give them some.
func (n *node) takesGPUs(ctx context.Context, claims []*resourceapi.ResourceClaim) bool {
	if len(n.partitions) == 0 {
		return false
	}

	all := n.gpus()
	got, why := n.allocate(ctx, claims, n.pools, newTaken())
	if why != "" {
		return false // it says what is missing
	}

	return slices.ContainsFunc(slices.Collect(maps.Keys(got.requests())), all.Has)
}

// fillPartitions does what fill does where the GPUs of a VM have to be a partition.
func (n *node) fillPartitions(
	ctx context.Context, claims []*resourceapi.ResourceClaim, pools []*pool, o offer,
) counted {
	c := counted{}
	for c.times < o.room {
		got, partition, why := n.allocatePartition(ctx, claims, pools, o)
		if why != "" {
			c.why = why
			return c
		}

		n.take(got, o.taken)
		c.times, c.order = c.times+1, append(c.order, partition)
		if c.times == 1 {
			c.first = got.requests()
		}
	}

	return c
}

// allocatePartition allocates devices to one VM whose GPUs are exactly those of a partition: the
// scheduler's allocator sees no others.
func (n *node) allocatePartition(
	ctx context.Context, claims []*resourceapi.ResourceClaim, pools []*pool, o offer,
) (results, Partition, string) {
	// the cause, if there are too few in any case
	_, why := n.allocate(ctx, claims, pools, o.taken)
	if why != "" {
		return nil, Partition{}, why
	}

	all := n.gpus()
	for _, p := range n.usable(o.taken, o.isEmpty) {
		t := o.taken.clone()
		t.block(all.Difference(p.devices).UnsortedList()...)
		got, why := n.allocate(ctx, claims, pools, t)
		if why == "" && n.covers(got.requests(), p) {
			return got, p, ""
		}
	}

	return nil, Partition{}, noPartition
}

// covers reports whether devices have each GPU of a partition.
func (n *node) covers(got map[deviceID]string, p Partition) bool {
	places := sets.New[topology.DeviceID]()
	for _, d := range n.devices {
		if _, isGiven := got[d.id]; isGiven && p.devices.Has(d.id) {
			places.Insert(d.pci)
		}
	}

	return places.Equal(p.places)
}
