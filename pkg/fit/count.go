package fit

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
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
	Plugins *Bounds        `json:"plugins"` // what kubelet may give of device plugins' resources; null where the node's host was not read
	Why     string         `json:"why"`     // why none fits now; "" where one does
	Devices []Device       `json:"devices"` // by NUMA node and PCIe root
}

// Device is a device of a node. What its driver does not publish is "".
type Device struct {
	Name    string `json:"name"`    // in its ResourceSlice
	Driver  string `json:"driver"`  // that publishes it
	Address string `json:"address"` // PCI address
	Root    string `json:"root"`    // PCIe root
	NUMA    string `json:"numa"`    // NUMA node
	State   string `json:"state"`   // free, used, or taken: by the next VM
	By      string `json:"by"`      // the claim that uses it, or the request that would take it
}

// schemaVersion rises when a field of the JSON is removed or changes its meaning, not when
// one is added.
const schemaVersion = 1

// mostVMs is how many VMs are counted on a node where devices are shared without limit.
const mostVMs = 1000

// Count answers for each node.
func (f *Fleet) Count(ctx context.Context, s Shape) (Answer, error) {
	if len(s.Claims)+len(s.Needs) == 0 {
		return Answer{}, errors.New("count VMs: the VM needs no device, and no CPU or memory")
	}
	for _, c := range s.Claims {
		if err := f.check(c); err != nil {
			return Answer{}, err
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
	state, claims := n.used()
	out := Node{Name: n.Name, Pairs: map[string]int{}, Plugins: n.bounds(s)}
	empty, first, whyNever := n.count(ctx, s, false, unused())
	now, next, why := n.count(ctx, s, true, state)
	switch out.Now, out.Empty = now, empty; {
	case empty == 0:
		out.Why = whyNever
	case now == 0:
		out.Why = why
	}
	if next == nil {
		n.pairs(first, out.Pairs)
	}
	n.pairs(next, out.Pairs)
	out.Devices = n.show(claims, next)
	return out
}

// count allocates for one VM after the other until one does not fit. It returns how many do,
// what the first is given, and why not one more fits.
func (n *node) count(ctx context.Context, s Shape, besides bool, state structured.AllocatedState) (int, map[structured.DeviceID]string, string) {
	room, why := n.room(s, besides)
	if len(s.Claims) == 0 {
		return room, nil, why
	}
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

// pairs counts the pairs of devices by path type.
func (n *node) pairs(given map[structured.DeviceID]string, into map[string]int) {
	var all []*device
	for _, d := range n.devices {
		if _, isGiven := given[d.id]; !isGiven {
			continue
		}
		for _, other := range all {
			into[distance(d, other)]++
		}
		all = append(all, d)
	}
}

// show returns the node's devices, with the claims that use them and the requests that would
// take them.
func (n *node) show(claims map[structured.DeviceID]*resourceapi.ResourceClaim, next map[structured.DeviceID]string) []Device {
	all := []Device{}
	for _, d := range n.devices {
		out := Device{
			Name: d.Name, Driver: d.driver, Address: strings.Join(d.addresses, ","),
			Root: strings.Join(d.roots, ","), NUMA: strings.Join(d.numa, ","), State: "free",
		}
		if c := claims[d.id]; c != nil {
			out.State, out.By = "used", c.Namespace+"/"+c.Name
		}
		if request, isTaken := next[d.id]; isTaken {
			out.State, out.By = "taken", request
		}
		all = append(all, out)
	}
	slices.SortStableFunc(all, func(a, b Device) int { return cmp.Or(cmp.Compare(a.NUMA, b.NUMA), cmp.Compare(a.Root, b.Root)) })
	return all
}
