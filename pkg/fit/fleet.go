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
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/topology"
)

// Fleet is what decides where VMs fit. New indexes it by node, so that counting is linear in
// nodes.
type Fleet struct {
	nodes    []*corev1.Node
	classes  []*resourceapi.DeviceClass
	slices   map[string][]*resourceapi.ResourceSlice // by node, "" for those of several nodes
	claims   map[poolID][]*resourceapi.ResourceClaim // allocated, by the pools of their devices
	pods     map[string][]*corev1.Pod                // by node
	hosts    map[string]*topology.Host               // by node
	features structured.Features
	cache    *cel.Cache

	permitted []v1.PciHostDevice // what KubeVirt's device plugins have
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
		nodes: o.Nodes, classes: o.Classes, hosts: o.Hosts, slices: map[string][]*resourceapi.ResourceSlice{},
		claims: map[poolID][]*resourceapi.ResourceClaim{}, pods: map[string][]*corev1.Pod{},
		// All of Kubernetes 1.36. Where a gate is off, the API server has dropped the fields
		// that it concerns.
		features: structured.Features{
			AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true,
			ListTypeAttributes: true, PartitionableDevices: true, PrioritizedList: true,
		},
		cache: cel.NewCache(celExpressions, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}),
	}
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
	for _, k := range o.KubeVirts {
		if permitted := k.Spec.Configuration.PermittedHostDevices; permitted != nil {
			f.permitted = append(f.permitted, permitted.PciHostDevices...)
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

// List and Get make a fleet a structured.DeviceClassLister.
func (f *Fleet) List() ([]*resourceapi.DeviceClass, error) { return f.classes, nil }

// Get returns a device class.
func (f *Fleet) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, c := range f.classes {
		if c.Name == name {
			return c, nil
		}
	}
	var names []string
	for _, c := range f.classes {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("invalid device class %q: must be one of %s", name, cmp.Or(strings.Join(names, ", "), "none: the cluster has no DeviceClass"))
}

// check checks that the classes of a claim exist.
func (f *Fleet) check(claim *resourceapi.ResourceClaim) error {
	for _, r := range claim.Spec.Devices.Requests {
		if r.Exactly == nil {
			continue
		}
		if _, err := f.Get(r.Exactly.DeviceClassName); err != nil {
			return err
		}
	}
	return nil
}
