// Package fit counts how often a VM with passthrough devices fits on each node of a cluster,
// and says how near to each other its devices would be, on the host and in the guest. Devices
// of Dynamic Resource Allocation are allocated by the scheduler's own code
// (k8s.io/dynamic-resource-allocation, structured), so the scheduler will do the same.
//
// objects.go reads a cluster's objects, shape.go makes of a VM what it needs, fleet.go and node.go
// of the cluster what it offers. count.go counts VMs on a node: room.go CPUs, memory and what else
// it has, allocate.go the devices of claims, by the allocator of allocator.go; obstacle.go says what
// they lack, partitions.go which GPUs are one NVLink partition. pairs.go, bounds.go and near.go say
// how near devices are; wish.go writes a claim; check.go compares one with what a VM got.
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

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

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
		n := f.nodeWithPartitions(object)
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
		nodes := topology.Map(objects, f.nodeWithPartitions)
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

// gateNotes names the feature gates that claims need and that are off by default in the cluster's
// version, though nothing in the cluster shows that they are on.
func (f *Fleet) gateNotes(claims []*resourceapi.ResourceClaim) (notes []string) {
	on := gatesOf(f.version.minor()).with(gatesOfSlices(f.Slices))
	needs := gatesOfClaims(claims)
	maps.DeleteFunc(needs, func(name string, isNeeded bool) bool { return !isNeeded || on[name] })
	if len(needs) == 0 {
		return nil
	}

	names := strings.Join(slices.Sorted(maps.Keys(needs)), ", ")
	return []string{fmt.Sprintf("counted as with feature gate %s, which Kubernetes 1.%d has off "+
		"by default: without it the API server drops what needs it from the claim", names,
		f.version.minor())}
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
