package fit

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Fleet is what decides where VMs fit. New indexes it by node, so that counting is linear in
// nodes.
type Fleet struct {
	nodes    []*corev1.Node
	classes  []*resourceapi.DeviceClass
	slices   map[string][]*resourceapi.ResourceSlice // by node, "" for those of several nodes
	claims   map[poolID][]*resourceapi.ResourceClaim // allocated, by the pools of their devices
	pods     map[string][]*corev1.Pod                // by node
	features structured.Features
	cache    *cel.Cache
}

// poolID names a pool of devices.
type poolID struct{ driver, pool string }

// celExpressions is how many compiled selectors the scheduler keeps
// (k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources).
const celExpressions = 10

// New returns the fleet of objects. Without nodes it has those that slices name, and counts
// devices only.
func New(o Objects) *Fleet {
	f := &Fleet{
		nodes: o.Nodes, classes: o.Classes, slices: map[string][]*resourceapi.ResourceSlice{},
		claims: map[poolID][]*resourceapi.ResourceClaim{}, pods: map[string][]*corev1.Pod{},
		// All that is beta or stable in Kubernetes 1.36. Where a gate is off, the API server
		// has dropped the fields that it would concern.
		features: structured.Features{
			AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true,
			PartitionableDevices: true, PrioritizedList: true, ListTypeAttributes: hasLists(o.Slices),
		},
	}
	f.cache = cel.NewCache(celExpressions, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: f.features.ListTypeAttributes})
	for _, s := range o.Slices {
		var node string
		if s.Spec.NodeName != nil {
			node = *s.Spec.NodeName
		}
		f.slices[node] = append(f.slices[node], s)
	}
	for _, c := range o.Claims {
		pools := map[poolID]bool{}
		if c.Status.Allocation != nil {
			for _, r := range c.Status.Allocation.Devices.Results {
				pools[poolID{r.Driver, r.Pool}] = true
			}
		}
		for id := range pools {
			f.claims[id] = append(f.claims[id], c)
		}
	}
	for _, p := range o.Pods {
		f.pods[p.Spec.NodeName] = append(f.pods[p.Spec.NodeName], p)
	}
	for _, name := range slices.Sorted(maps.Keys(f.slices)) {
		if len(o.Nodes) == 0 && name != "" {
			f.nodes = append(f.nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
	return f
}

// hasLists reports whether an attribute is a list. That is alpha in Kubernetes 1.36, and
// makes the scheduler take another allocator.
func hasLists(all []*resourceapi.ResourceSlice) bool {
	for _, s := range all {
		for _, d := range s.Spec.Devices {
			for _, a := range d.Attributes {
				if len(a.StringValues)+len(a.VersionValues)+len(a.IntValues)+len(a.BoolValues) > 0 {
					return true
				}
			}
		}
	}
	return false
}

// List and Get make a fleet a structured.DeviceClassLister.
func (f *Fleet) List() ([]*resourceapi.DeviceClass, error) { return f.classes, nil }

// Get returns a device class.
func (f *Fleet) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, c := range f.classes {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("there is no DeviceClass %q", name)
}
