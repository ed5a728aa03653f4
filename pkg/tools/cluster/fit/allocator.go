package fit

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// This file alone knows the scheduler's allocator: its types change with Kubernetes.

// deviceID names a device in the cluster.
type deviceID = structured.DeviceID

func newDeviceID(driver, pool, device string) deviceID {
	return structured.MakeDeviceID(driver, pool, device)
}

// idOfResult returns the device of a result.
func idOfResult(r resourceapi.DeviceRequestAllocationResult) deviceID {
	return newDeviceID(r.Driver, r.Pool, r.Device)
}

// taken is what of the cluster's devices is allocated: whole devices, and shares of those that
// several claims may have.
type taken struct{ state structured.AllocatedState }

func newTaken() taken {
	return taken{structured.AllocatedState{
		AllocatedDevices:         sets.New[deviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}}
}

func (t taken) clone() taken {
	return taken{structured.AllocatedState{
		AllocatedDevices:         t.state.AllocatedDevices.Clone(),
		AllocatedSharedDeviceIDs: t.state.AllocatedSharedDeviceIDs.Clone(),
		AggregatedCapacity:       t.state.AggregatedCapacity.Clone(),
	}}
}

// add takes what a claim got, as the scheduler counts it (kubernetes
// pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go).
func (t taken) add(r resourceapi.DeviceRequestAllocationResult) {
	id := idOfResult(r)
	switch {
	case ptr.Deref(r.AdminAccess, false): // which takes nothing
		return
	case r.ShareID == nil:
		t.block(id)
		return
	}

	share := structured.MakeSharedDeviceID(id, r.ShareID)
	isNew := !t.state.AllocatedSharedDeviceIDs.Has(share) // several nodes may reach the device
	t.state.AllocatedSharedDeviceIDs.Insert(share)
	if isNew && r.ConsumedCapacity != nil {
		t.state.AggregatedCapacity.Insert(
			structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
	}
}

// block takes whole devices.
func (t taken) block(ids ...deviceID) { t.state.AllocatedDevices.Insert(ids...) }

// has reports whether any of the devices is taken as a whole.
func (t taken) has(ids ...deviceID) bool { return t.state.AllocatedDevices.HasAny(ids...) }

// left returns how much of a device's capacity nobody has.
func (t taken) left(id deviceID, name resourceapi.QualifiedName, all resource.Quantity,
) resource.Quantity {
	left := all.DeepCopy()
	if consumed := t.state.AggregatedCapacity[id][name]; consumed != nil {
		left.Sub(*consumed)
	}
	return left
}

// allocator runs the scheduler's.
type allocator struct {
	features structured.Features
	cache    *cel.Cache
}

// newAllocator returns the allocator of a cluster with some feature gates.
func newAllocator(on gates) allocator {
	a := allocator{
		// as many as the scheduler keeps
		cache: cel.NewCache(10, cel.Features{EnableListTypeAttributes: true}),
	}

	for name, feature := range a.gates() {
		*feature = on[name]
	}

	return a
}

// gates returns the switches of the allocator by the feature gates that they follow.
func (a *allocator) gates() map[string]*bool {
	f := &a.features
	return map[string]*bool{
		"DRAAdminAccess":               &f.AdminAccess,
		"DRAConsumableCapacity":        &f.ConsumableCapacity,
		"DRADerivedAttributes":         &f.DerivedAttributes,
		"DRADeviceBindingConditions":   &f.DeviceBindingAndStatus,
		"DRADeviceCompatibilityGroups": &f.CompatibilityGroups,
		"DRADeviceTaints":              &f.DeviceTaints,
		"DRAFractionalCapacityRange":   &f.FractionalCapacityRange,
		"DRAListTypeAttributes":        &f.ListTypeAttributes,
		"DRAOptionalNodeOperations":    &f.OptionalNodeOperations,
		"DRAPartitionableDevices":      &f.PartitionableDevices,
		"DRAPrioritizedList":           &f.PrioritizedList,
	}
}

// allocate returns what claims get of slices on a node beside what is taken; nothing where they
// get not all that they request.
func (a allocator) allocate(
	ctx context.Context, classes structured.DeviceClassLister, node *corev1.Node,
	published []*resourceapi.ResourceSlice, claims []*resourceapi.ResourceClaim, t taken,
) (results []resourceapi.DeviceRequestAllocationResult, err error) {
	run, err := structured.NewAllocator(ctx, a.features, t.state, classes, published, a.cache)
	if err != nil {
		return nil, err
	}

	perClaim, err := run.Allocate(ctx, node, claims)
	for _, result := range perClaim {
		results = append(results, result.Devices.Results...)
	}

	return results, err
}

// matches reports whether a device meets all selectors, by the scheduler's evaluation. One that
// fails to evaluate counts as met: the allocator reports its error.
func (a allocator) matches(
	ctx context.Context, driver string, d *resourceapi.Device,
	selectors []resourceapi.DeviceSelector,
) bool {
	fails := func(s resourceapi.DeviceSelector) bool {
		selector := a.cache.GetOrCompile(ptr.Deref(s.CEL,
			resourceapi.CELDeviceSelector{}).Expression)
		if selector.Error != nil {
			return false
		}

		matches, _, err := selector.DeviceMatches(ctx, cel.Device{
			Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations,
			Attributes: d.Attributes, Capacity: d.Capacity,
		})

		return err == nil && !matches
	}

	return !slices.ContainsFunc(selectors, fails)
}

// tolerates reports whether any toleration is for a taint.
func tolerates(tolerations []resourceapi.DeviceToleration, taint resourceapi.DeviceTaint) bool {
	return slices.ContainsFunc(tolerations, func(t resourceapi.DeviceToleration) bool {
		return resourceclaim.ToleratesTaint(t, taint)
	})
}

// gates are the feature gates of Kubernetes that are on.
type gates map[string]bool

// defaultSince has, by feature gate, the minor version of Kubernetes 1 since which it is on by
// default; those that are not here are not in Latest (kubernetes pkg/features/kube_features.go,
// and what k8s.io/api resource/v1 says of each field).
var defaultSince = map[string]int{
	"DRAAdminAccess":             34,
	"DRAPrioritizedList":         34,
	"DRAConsumableCapacity":      36,
	"DRADeviceBindingConditions": 36,
	"DRADeviceTaints":            36,
	"DRAPartitionableDevices":    36,
}

// The minor versions of Kubernetes 1 that the allocator can act as: those that serve
// resource.k8s.io/v1.
const (
	Oldest = 34
	Latest = 37
)

// gatesOf returns the gates that are on by default in a minor version.
func gatesOf(minor int) gates {
	on := gates{}
	for name, since := range defaultSince {
		on[name] = since <= minor
	}
	return on
}

// with returns gates with others.
func (g gates) with(others gates) gates {
	all := maps.Clone(g)
	for name, isOn := range others {
		all[name] = all[name] || isOn
	}
	return all
}

// gatesOfSlices returns the gates whose fields slices have: where a gate is off, the API server
// drops its fields.
func gatesOfSlices(all []*resourceapi.ResourceSlice) gates {
	on := gates{}
	for _, s := range all {
		on["DRAOptionalNodeOperations"] = on["DRAOptionalNodeOperations"] ||
			len(s.Spec.SkipNodeOperations) > 0
		on["DRAPartitionableDevices"] = on["DRAPartitionableDevices"] ||
			len(s.Spec.SharedCounters) > 0 || s.Spec.PerDeviceNodeSelection != nil

		for _, d := range s.Spec.Devices {
			on.addDevice(d)
		}
	}

	return on
}

// addDevice adds the gates whose fields a device has.
func (g gates) addDevice(d resourceapi.Device) {
	add := func(name string, has bool) { g[name] = g[name] || has }
	add("DRAPartitionableDevices", len(d.ConsumesCounters) > 0)
	add("DRADeviceTaints", len(d.Taints) > 0)
	add("DRAConsumableCapacity", d.AllowMultipleAllocations != nil)
	add("DRADeviceBindingConditions", len(d.BindingConditions) > 0)

	for _, c := range d.ConsumesCounters {
		add("DRADeviceCompatibilityGroups", len(c.CompatibilityGroups) > 0)
	}

	for _, a := range d.Attributes {
		add("DRAListTypeAttributes", len(a.StringValues)+len(a.IntValues)+len(a.BoolValues)+
			len(a.VersionValues) > 0)
	}

	for _, c := range d.Capacity {
		if c.RequestPolicy == nil {
			continue
		}

		add("DRAConsumableCapacity", true)
		if r := c.RequestPolicy.ValidRange; r != nil {
			for _, q := range []*resource.Quantity{r.Min, r.Max, r.Step} {
				add("DRAFractionalCapacityRange", q != nil && q.MilliValue()%1000 != 0)
			}
		}
	}
}

// gatesOfClaims returns the gates whose fields claims have.
func gatesOfClaims(claims []*resourceapi.ResourceClaim) gates {
	on := gates{}
	add := func(name string, has bool) { on[name] = on[name] || has }
	for _, claim := range claims {
		for _, r := range claim.Spec.Devices.Requests {
			add("DRAPrioritizedList", len(r.FirstAvailable) > 0)
			add("DRAAdminAccess", r.Exactly != nil && ptr.Deref(r.Exactly.AdminAccess, false))

			for _, w := range alternatives(r) {
				add("DRAConsumableCapacity", w.Capacity != nil)
				add("DRADeviceTaints", len(w.Tolerations) > 0)
				add("DRADerivedAttributes", len(w.DerivedAttributes) > 0)
			}
		}
	}

	return on
}
