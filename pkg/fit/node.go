package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// node is one node's part of a fleet.
type node struct {
	*Fleet
	*corev1.Node
	published []*resourceapi.ResourceSlice // its own, and those of several nodes
	devices   []Device
	taking    map[string][]Device // by kind of request
}

func (f *Fleet) node(of *corev1.Node) *node {
	n := &node{Fleet: f, Node: of, published: slices.Concat(f.slices[of.Name], f.slices[""]), devices: []Device{}, taking: map[string][]Device{}}
	for _, s := range n.published {
		for _, d := range s.Spec.Devices {
			name, all, selector := s.Spec.NodeName, s.Spec.AllNodes, s.Spec.NodeSelector
			if ptr.Deref(s.Spec.PerDeviceNodeSelection, false) {
				name, all, selector = d.NodeName, d.AllNodes, d.NodeSelector
			}
			if matches, err := structured.NodeMatches(f.features, of, ptr.Deref(name, ""), ptr.Deref(all, false), selector); err == nil && matches {
				n.devices = append(n.devices, newDevice(s, d))
			}
		}
	}
	return n
}

// emptied returns the node as if nothing ran on it. A cordon passes, so it has none.
func (n *node) emptied() *node {
	fleet := *n.Fleet
	fleet.allocated, fleet.requested = nil, nil
	of := n.Node.DeepCopy()
	of.Spec.Unschedulable = false
	return &node{&fleet, of, n.published, n.devices, n.taking}
}

// used returns the state that the allocated claims leave. A device of another node counts
// too: it may use up a counter that devices share.
func (n *node) used() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for _, s := range n.published {
		for _, d := range s.Spec.Devices {
			for _, a := range n.allocated[structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name)] {
				take(state, a.DeviceRequestAllocationResult)
			}
		}
	}
	return state
}

// take marks a device as taken, as the scheduler does: with admin access it stays free.
func take(state structured.AllocatedState, r resourceapi.DeviceRequestAllocationResult) {
	id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
	switch {
	case ptr.Deref(r.AdminAccess, false):
	case r.ShareID != nil:
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
	default:
		state.AllocatedDevices.Insert(id)
	}
}

// searchTime is how long the scheduler searches a node before it leaves it out
// (k8s.io/kube-scheduler config/v1, DynamicResourcesFilterTimeoutDefault).
const searchTime = 10 * time.Second

// allocate allocates devices to a VM's claims, or returns why it cannot.
func (n *node) allocate(ctx context.Context, claims []*resourceapi.ResourceClaim, state structured.AllocatedState) ([]resourceapi.AllocationResult, string) {
	for _, c := range claims {
		if why := n.obstacle(ctx, c, state); why != "" {
			return nil, why
		}
	}
	limited, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	allocator, err := structured.NewAllocator(ctx, n.features, state, n.Fleet, n.published, n.cache)
	var results []resourceapi.AllocationResult
	if err == nil {
		results, err = allocator.Allocate(limited, n.Node, claims)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Sprintf("the search did not end in %s, when the scheduler gives up", searchTime)
	case err != nil:
		return nil, err.Error()
	case len(results) == 0:
		return nil, "the scheduler's allocator finds no devices that meet the whole claim"
	}
	return results, ""
}

// kind names what a request takes: requests of one kind take the same devices.
func kind(r *resourceapi.ExactDeviceRequest) string {
	words := []string{r.DeviceClassName}
	for _, s := range r.Selectors {
		if s.CEL != nil {
			words = append(words, s.CEL.Expression)
		}
	}
	return strings.Join(words, " with ")
}

// takes returns the devices that a request takes, by the scheduler's evaluation of selectors.
// Where one fails, the allocator returns its error.
func (n *node) takes(ctx context.Context, r *resourceapi.ExactDeviceRequest) []Device {
	found, isKnown := n.taking[kind(r)]
	class, err := n.Get(r.DeviceClassName)
	if isKnown || err != nil {
		return found
	}
	for _, d := range n.devices {
		of := cel.Device{Driver: d.Driver, AllowMultipleAllocations: d.published.AllowMultipleAllocations, Attributes: d.published.Attributes, Capacity: d.published.Capacity}
		isRefused := slices.ContainsFunc(slices.Concat(class.Spec.Selectors, r.Selectors), func(s resourceapi.DeviceSelector) bool {
			return s.CEL != nil && !n.meets(ctx, of, s.CEL.Expression)
		})
		if !isRefused {
			found = append(found, d)
		}
	}
	n.taking[kind(r)] = found
	return found
}

func (n *node) meets(ctx context.Context, d cel.Device, expression string) bool {
	compiled := n.cache.GetOrCompile(expression)
	if compiled.Error != nil {
		return false
	}
	matches, _, err := compiled.DeviceMatches(ctx, d)
	return err == nil && matches
}
