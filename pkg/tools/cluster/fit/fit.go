// Package fit counts how often a VM with passthrough devices fits on each node of a cluster,
// and says how near to each other its devices would be, on the host and in the guest. Devices
// of Dynamic Resource Allocation are allocated by the scheduler's own code
// (k8s.io/dynamic-resource-allocation, structured), so the scheduler will do the same.
//
// objects.go reads a cluster's objects, shape.go makes of a VM what it needs, fleet.go and node.go
// of the cluster what it offers. room.go counts CPUs, memory and what else a node has, allocate.go
// the devices of claims, by the allocator of allocator.go; obstacle.go says what they lack; pairs.go
// and bounds.go say how near devices are; wish.go writes a claim; check.go compares one with what a
// VM got.
// The package reads no cluster.
package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Answer says how often a VM fits.
type Answer struct {
	// 2; it rises when a field is removed or changes its meaning
	SchemaVersion int    `json:"schemaVersion"`
	VM            string `json:"vm"` // its name
	// how many such VMs fit beside what runs; a device that several nodes reach counts once
	Now   int    `json:"now"`
	Empty int    `json:"empty"` // how many would if nothing ran
	Nodes []Node `json:"nodes"` // by name
	// what was not counted or read, and why the claim is not stricter
	Notes []string `json:"notes"`
	// the version as which the allocator acts, and what says that it is the cluster's; "" of a VM
	// without claims
	Kubernetes string `json:"kubernetes"`
}

// Node is the answer for a node.
type Node struct {
	Name  string `json:"name"`  // of the node
	Now   int    `json:"now"`   // how many such VMs fit beside what runs
	Empty int    `json:"empty"` // how many would if nothing ran
	// pairs of the devices of the next VM, by path type; of the first on the empty node where
	// none fits now
	Pairs  PathCounts    `json:"pairs"`
	Layout policy.Layout `json:"layout"` // that the hook would choose for them; "" without any
	// their pairs in a guest of that layout, with a NUMA cell per NUMA node
	Guest PathCounts `json:"guest"`
	// what kubelet may give of device plugins' resources; null where the node's host was not
	// read, or too few are free
	Plugins *Bounds         `json:"plugins"`
	Why     string          `json:"why"`     // why none fits now; "" where one does
	Devices []OfferedDevice `json:"devices"` // by NUMA node and PCIe root

	// NVLink partitions of its GPUs, as far as they are known
	Partitions []Partition `json:"partitions"`

	order         []Partition // that the VMs get which fit now
	gpusOfUnknown int         // GPUs of a VM that have to be a partition, where none is known
}

// Count answers for each node, or for the one that the objects single out.
func (f *Fleet) Count(ctx context.Context, s Shape) (Answer, error) {
	answer := Answer{
		SchemaVersion: 2, VM: s.Name, Nodes: []Node{}, Notes: append([]string{}, s.Notes...),
	}

	if len(s.Claims) > 0 {
		f.allocator = newAllocator(gatesOf(f.version.minor()).with(gatesOfSlices(f.Slices)).with(
			gatesOfClaims(s.Claims)))
		answer.Kubernetes = f.version.String()
		answer.Notes = append(answer.Notes, f.gateNotes(s.Claims)...)
		answer.Notes = append(answer.Notes, f.notes...)
	}

	objects := slices.SortedFunc(slices.Values(f.Nodes), func(a, b *corev1.Node) int {
		return cmp.Compare(a.Name, b.Name)
	})
	if f.Only != "" {
		objects = slices.DeleteFunc(objects, func(n *corev1.Node) bool { return n.Name != f.Only })
	}

	var unread, problems []string
	known := map[string]answered{}
	for _, object := range objects {
		n := f.node(object)
		if _, isListed := n.Partitions[n.Name]; isListed && len(n.partitions) == 0 {
			return answer, errors.New("count NVLink partitions: " + n.problem)
		}

		onNode, err := n.answer(ctx, s, known)
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return answer, err
		}

		if onNode.Empty > 0 && len(s.Devices) > 0 && f.Hosts[n.Name] == nil {
			unread = append(unread, n.Name)
		}

		if n.problem != "" {
			problems = append(problems, "NVLink partitions not counted: "+n.problem)
		}

		answer.Nodes = append(answer.Nodes, onNode)
		answer.Now += onNode.Now
		answer.Empty += onNode.Empty
	}

	answer.Notes = append(answer.Notes, problems...)
	answer.Notes = append(answer.Notes, partitionNotes(answer.Nodes, s)...)
	answer.Notes = append(answer.Notes, unknownNotes(answer.Nodes)...)

	if shared := f.sharedPools(objects); len(shared) > 0 && len(s.Claims) > 0 {
		nodes := topology.Map(objects, f.node)
		answer.Now, answer.Empty = total(ctx, nodes, s, false), total(ctx, nodes, s, true)
		answer.Notes = append(answer.Notes,
			"devices that several nodes reach count once in the sum: "+
				words.FirstOf(shared, 10, ", "))
	}

	if s.isOnce {
		answer.Now, answer.Empty = min(answer.Now, 1), min(answer.Empty, 1)
	}

	if len(unread) > 0 {
		answer.Notes = append(answer.Notes,
			"not read, so how near the devices of plugins would be is unknown: node "+
				words.FirstOf(unread, 10, ", "))
	}

	return answer, ctx.Err()
}

// answer counts VMs on one node, as if no other took a device that both reach, unless the answer
// for a node that is like it is known.
func (n *node) answer(ctx context.Context, s Shape, known map[string]answered) (Node, error) {
	like := n.likeness(s)
	if a, isKnown := known[like]; isKnown && like != "" {
		return a.of(n), nil
	}

	empty := n.count(ctx, s, true)
	now := n.count(ctx, s, false)
	out := Node{
		Name:    n.Name,
		Now:     now.times,
		Empty:   empty.times,
		Pairs:   PathCounts{},
		Guest:   PathCounts{},
		Plugins: n.bounds(s.Devices),
	}

	first := now.first
	switch {
	case now.times > 0:
	case empty.times == 0:
		out.Why = empty.why
	default:
		first, out.Why = empty.first, now.why
	}

	out.Devices = n.listed(first, now.times > 0)
	out.Partitions, out.order = n.shown(now.order), now.order
	out.gpusOfUnknown = n.gpusOfUnknownPartitions(s, first)
	out, err := n.near(out, first)
	if !strings.HasPrefix(out.Why, allocatorSays) { // which may name a device of this node
		known[like] = answered{n, first, out}
	}

	return out, err
}

// listed returns the passthrough devices of the node, those of the next VM with their requests.
func (n *node) listed(first map[deviceID]string, isNow bool) []OfferedDevice {
	devices := make([]OfferedDevice, 0, len(n.devices))
	for _, d := range n.devices {
		if request, isGiven := first[d.id]; isGiven && isNow {
			d.State, d.By = next, request
		}
		if d.isHostdev() {
			devices = append(devices, d)
		}
	}

	return devices
}

// near returns the answer with how near the devices of the next VM are.
func (n *node) near(out Node, first map[deviceID]string) (Node, error) {
	var ids []topology.DeviceID
	var chosen []OfferedDevice
	for _, d := range n.devices {
		if _, isGiven := first[d.id]; !isGiven {
			continue
		}

		chosen = append(chosen, d)
		if d.Address != "" && !slices.Contains(ids, d.pci) {
			ids = append(ids, d.pci)
		}
	}

	host := n.host
	if n.Hosts[n.Name] == nil {
		host = hostOf(chosen) // among these a device of several places is settled
	}

	return out.near(host, ids)
}

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

// total counts VMs on all nodes, where a device that several reach is taken once: first those that
// need none of these, then the others.
func total(ctx context.Context, nodes []*node, s Shape, isEmpty bool) int {
	all := 0
	t := newTaken()
	rooms := make([]int, len(nodes))
	for i, n := range nodes {
		if !isEmpty {
			n.addUses(t)
		}
		rooms[i], _ = n.room(s, isEmpty)
	}

	for i, n := range nodes {
		c := n.fill(ctx, s.Claims, n.local(), offer{t, rooms[i], isEmpty})
		all, rooms[i] = all+c.times, rooms[i]-c.times
	}

	for i, n := range nodes {
		all += n.fill(ctx, s.Claims, n.pools, offer{t, rooms[i], isEmpty}).times
	}

	return all
}

// sharedPools names the pools that several nodes reach, if any of these nodes does.
func (f *Fleet) sharedPools(nodes []*corev1.Node) (names []string) {
	for _, p := range f.pools[""] {
		if p.isShared() && slices.ContainsFunc(nodes, func(n *corev1.Node) bool {
			return len(p.devices(n)) > 0
		}) {
			names = append(names, "pool "+p.name+" of "+p.driver)
		}
	}

	return names
}
