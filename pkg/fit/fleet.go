package fit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podrequests "k8s.io/component-helpers/resource"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/topology"
)

// Fleet is what decides where VMs fit. New indexes it by node and by device, so that counting
// is linear in nodes.
type Fleet struct {
	nodes     []*corev1.Node
	classes   []*resourceapi.DeviceClass
	slices    map[string][]*resourceapi.ResourceSlice // by node, "" for those of several nodes
	allocated map[structured.DeviceID][]allocation
	requested map[string]corev1.ResourceList // by node, of its pods
	hosts     map[string]*topology.Host      // by node
	permitted []v1.PciHostDevice             // what KubeVirt's device plugins have
	features  structured.Features
	cache     *cel.Cache
}

// allocation is a device that a claim has.
type allocation struct {
	resourceapi.DeviceRequestAllocationResult
	claim string
}

// celExpressions is how many compiled selectors the scheduler keeps
// (k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources).
const celExpressions = 10

// New returns the fleet of objects. Without nodes it has those that slices name, and counts
// devices only.
func New(o Objects) *Fleet {
	f := &Fleet{
		nodes: o.Nodes, classes: o.Classes, hosts: o.Hosts, slices: map[string][]*resourceapi.ResourceSlice{},
		allocated: map[structured.DeviceID][]allocation{}, requested: map[string]corev1.ResourceList{},
		// All of Kubernetes 1.36. Where a gate is off, the API server has dropped the fields
		// that it concerns.
		features: structured.Features{
			AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true,
			ListTypeAttributes: true, PartitionableDevices: true, PrioritizedList: true,
		},
		cache: cel.NewCache(celExpressions, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}),
	}
	for _, s := range o.Slices {
		node := ptr.Deref(s.Spec.NodeName, "")
		f.slices[node] = append(f.slices[node], s)
	}
	for _, c := range o.Claims {
		for _, r := range ptr.Deref(c.Status.Allocation, resourceapi.AllocationResult{}).Devices.Results {
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			f.allocated[id] = append(f.allocated[id], allocation{r, c.Namespace + "/" + c.Name})
		}
	}
	for _, k := range o.KubeVirts {
		f.permitted = append(f.permitted, ptr.Deref(k.Spec.Configuration.PermittedHostDevices, v1.PermittedHostDevices{}).PciHostDevices...)
	}
	for _, p := range o.Pods {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		if f.requested[p.Spec.NodeName] == nil {
			f.requested[p.Spec.NodeName] = corev1.ResourceList{}
		}
		for name, q := range podrequests.PodRequests(p, podrequests.PodResourcesOptions{}) {
			need(f.requested[p.Spec.NodeName], name, q)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.slices)) {
		if len(o.Nodes) == 0 && name != "" {
			f.nodes = append(f.nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
	return f
}

// List and Get make a fleet a structured.DeviceClassLister.
func (f *Fleet) List() ([]*resourceapi.DeviceClass, error) { return f.classes, nil }

// Get returns a device class.
func (f *Fleet) Get(name string) (*resourceapi.DeviceClass, error) {
	var names []string
	for _, c := range f.classes {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("invalid device class %q: must be one of %s", name, cmp.Or(strings.Join(names, ", "), "none: the cluster has no DeviceClass"))
}
