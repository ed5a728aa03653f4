package fit

import (
	"cmp"
	"context"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Answer says how often a VM fits.
type Answer struct {
	SchemaVersion int      `json:"schemaVersion"` // 1
	VM            string   `json:"vm"`            // which was asked for
	Now           int      `json:"now"`           // how many such VMs fit beside what runs
	Empty         int      `json:"empty"`         // how many would if nothing ran
	Nodes         []Node   `json:"nodes"`         // by name
	Notes         []string `json:"notes"`         // why the claim is not stricter
	Unread        []string `json:"unread"`        // what is not counted
}

// Node is the answer for a node.
type Node struct {
	Name    string         `json:"name"`    // of the node
	Now     int            `json:"now"`     // how many such VMs fit beside what runs
	Empty   int            `json:"empty"`   // how many would if nothing ran
	Pairs   map[string]int `json:"pairs"`   // pairs of the devices of the next VM, by path type; of the first on the empty node where none fits now
	Plugins *Bounds        `json:"plugins"` // what kubelet may give of device plugins' resources; null where the node's host was not read, or has more than 20 of them
	Why     string         `json:"why"`     // why none fits now; "" where one does
	Devices []Device       `json:"devices"` // by NUMA node and PCIe root
}

// schemaVersion rises when a field of the JSON is removed or changes its meaning, not when
// one is added.
const schemaVersion = 1

// mostVMs is how many VMs are counted on a node where devices are shared without limit.
const mostVMs = 1000

// Count answers for each node.
func (f *Fleet) Count(ctx context.Context, s Shape) (Answer, error) {
	for _, c := range s.Claims {
		for _, r := range c.Spec.Devices.Requests {
			if r.Exactly == nil {
				continue // of several classes, of which the allocator takes the first that it can
			}
			if _, err := f.Get(r.Exactly.DeviceClassName); err != nil {
				return Answer{}, err
			}
		}
	}
	answer := Answer{SchemaVersion: schemaVersion, VM: s.Name, Nodes: make([]Node, len(f.nodes)), Notes: append([]string{}, s.Notes...), Unread: append([]string{}, s.Unread...)}
	if len(s.Needs) > 0 && !slices.ContainsFunc(f.nodes, func(n *corev1.Node) bool { return n.Status.Allocatable != nil }) {
		answer.Unread = append(answer.Unread, "what nodes have beside devices: none was read")
	}
	group := errgroup.Group{}
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, of := range f.nodes {
		group.Go(func() error {
			answer.Nodes[i] = f.node(of).answer(ctx, s)
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return Answer{}, err
	}
	slices.SortFunc(answer.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, n := range answer.Nodes {
		answer.Now += n.Now
		answer.Empty += n.Empty
	}
	return answer, nil
}

func (n *node) answer(ctx context.Context, s Shape) Node {
	empty, first, never := n.emptied().count(ctx, s)
	now, next, why := n.count(ctx, s)
	switch {
	case empty == 0:
		why = never
	case now > 0:
		why = ""
	}
	out := Node{Name: n.Name, Now: now, Empty: empty, Pairs: n.pairs(next), Plugins: n.bounds(s), Why: why, Devices: n.devices}
	if next == nil {
		out.Pairs = n.pairs(first)
	}
	for i, d := range out.Devices {
		if used := n.allocated[d.id]; len(used) > 0 {
			out.Devices[i].State, out.Devices[i].By = "used", used[0].claim
		}
		if request, isTaken := next[d.id]; isTaken {
			out.Devices[i].State, out.Devices[i].By = "taken", request
		}
	}
	slices.SortStableFunc(out.Devices, func(a, b Device) int {
		return cmp.Or(slices.Compare(a.NUMA, b.NUMA), slices.Compare(a.Roots, b.Roots))
	})
	return out
}

// count allocates for one VM after the other until one does not fit. It returns how many do,
// what the first is given, and why not one more fits.
func (n *node) count(ctx context.Context, s Shape) (int, map[structured.DeviceID]string, string) {
	room, why := n.room(s)
	if len(s.Claims) == 0 {
		return room, nil, why
	}
	state := n.used()
	var first map[structured.DeviceID]string
	for times := range room {
		results, why := n.allocate(ctx, s.Claims, state)
		if why != "" {
			return times, first, why
		}
		given := map[structured.DeviceID]string{}
		for _, r := range results {
			for _, d := range r.Devices.Results {
				take(state, d)
				given[structured.MakeDeviceID(d.Driver, d.Pool, d.Device)] = d.Request
			}
		}
		if first == nil {
			first = given
		}
	}
	return room, first, why
}

// pairs counts the pairs of the devices that a VM is given, by path type.
func (n *node) pairs(given map[structured.DeviceID]string) map[string]int {
	pairs := map[string]int{}
	var all []Device
	for _, d := range n.devices {
		if _, isGiven := given[d.id]; !isGiven {
			continue
		}
		for _, other := range all {
			pairs[distance(d, other)]++
		}
		all = append(all, d)
	}
	return pairs
}
