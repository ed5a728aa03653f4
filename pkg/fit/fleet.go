package fit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Fleet holds the objects of a cluster, by which VMs fit on its nodes or do not.
type Fleet struct {
	Objects
	pools    []*pool
	users    map[structured.DeviceID]*resourceapi.ResourceClaim // that devices are allocated to
	pods     map[string][]*corev1.Pod                           // that run, by node
	labels   map[string]bool                                    // keys of labels that any node has
	features structured.Features
	cache    *cel.Cache
}

// New returns the fleet of objects.
func New(o Objects) *Fleet {
	f := &Fleet{
		Objects: o,
		pools:   poolsOf(o.Slices),
		users:   map[structured.DeviceID]*resourceapi.ResourceClaim{},
		pods:    map[string][]*corev1.Pod{},
		labels:  map[string]bool{},
		// Those of Kubernetes 1.37 that concern devices which one VM has alone. Where a gate is
		// off, the API server has dropped its fields.
		features: structured.Features{
			AdminAccess:          true,
			CompatibilityGroups:  true,
			DerivedAttributes:    true,
			DeviceTaints:         true,
			ListTypeAttributes:   true,
			PartitionableDevices: true,
			PrioritizedList:      true,
		},
		// as many as the scheduler keeps
		cache: cel.NewCache(10, cel.Features{EnableListTypeAttributes: true}),
	}

	for _, c := range o.Claims {
		for id := range requests(c.Status.Allocation) {
			f.users[id] = c
		}
	}

	for _, p := range o.Pods {
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			f.pods[p.Spec.NodeName] = append(f.pods[p.Spec.NodeName], p)
		}
	}

	for _, n := range o.Nodes {
		for key := range n.Labels {
			f.labels[key] = true
		}
	}

	return f
}

// requests returns the request that each device of an allocation is for.
func requests(a *resourceapi.AllocationResult) map[structured.DeviceID]string {
	requestOf := map[structured.DeviceID]string{}
	for _, r := range ptr.Deref(a, resourceapi.AllocationResult{}).Devices.Results {
		if !ptr.Deref(r.AdminAccess, false) { // which takes nothing
			requestOf[structured.MakeDeviceID(r.Driver, r.Pool, r.Device)] = r.Request
		}
	}

	return requestOf
}

// List and Get make a fleet a structured.DeviceClassLister.
func (f *Fleet) List() ([]*resourceapi.DeviceClass, error) { return f.Classes, nil }

// Get returns a device class.
func (f *Fleet) Get(name string) (*resourceapi.DeviceClass, error) {
	i := slices.IndexFunc(f.Classes, func(c *resourceapi.DeviceClass) bool {
		return c.Name == name
	})
	if i < 0 {
		return nil, fmt.Errorf("there is no DeviceClass %q", words.Abridge(name))
	}
	return f.Classes[i], nil
}

// pool is a pool of a driver's devices, in the slices of its newest generation: a driver that
// publishes a pool anew leaves the others for a while.
type pool struct {
	driver, name string
	slices       []*resourceapi.ResourceSlice
}

// poolsOf returns the pools of slices, in the order of their first slices.
func poolsOf(all []*resourceapi.ResourceSlice) (pools []*pool) {
	type key struct{ driver, name string }
	known := map[key]*pool{}
	for _, s := range all {
		k := key{s.Spec.Driver, s.Spec.Pool.Name}
		p := known[k]
		if p == nil {
			p = &pool{driver: k.driver, name: k.name}
			known[k], pools = p, append(pools, p)
		}

		switch newest := p.generation(); {
		case s.Spec.Pool.Generation > newest:
			p.slices = []*resourceapi.ResourceSlice{s}
		case s.Spec.Pool.Generation == newest:
			p.slices = append(p.slices, s)
		}
	}

	return pools
}

// generation returns the generation of the pool's slices, -1 without any.
func (p *pool) generation() int64 {
	if len(p.slices) == 0 {
		return -1
	}
	return p.slices[0].Spec.Pool.Generation
}

// missing says how many slices of the pool there are where some are not: the scheduler takes no
// device of it then. It is "" of a complete pool.
func (p *pool) missing() string {
	want := p.slices[0].Spec.Pool.ResourceSliceCount
	if int64(len(p.slices)) == want {
		return ""
	}
	return fmt.Sprintf("pool %s of %s has %d of its %s", p.name, p.driver, len(p.slices),
		words.Counted(int(want), "ResourceSlice"))
}

// isShared reports whether several nodes may reach the pool's devices.
func (p *pool) isShared() bool {
	return slices.ContainsFunc(p.slices, func(s *resourceapi.ResourceSlice) bool {
		return s.Spec.NodeName == nil && (!ptr.Deref(s.Spec.PerDeviceNodeSelection, false) ||
			slices.ContainsFunc(s.Spec.Devices, func(d resourceapi.Device) bool {
				return d.NodeName == nil
			}))
	})
}

// devices returns the devices of the pool that a node reaches.
func (p *pool) devices(node *corev1.Node) (found []*resourceapi.Device) {
	for _, s := range p.slices {
		spec := &s.Spec
		isPerDevice := ptr.Deref(spec.PerDeviceNodeSelection, false)
		if !isPerDevice && !reaches(node, spec.NodeName, spec.AllNodes, spec.NodeSelector) {
			continue
		}

		for i := range spec.Devices {
			d := &spec.Devices[i]
			if !isPerDevice || reaches(node, d.NodeName, d.AllNodes, d.NodeSelector) {
				found = append(found, d)
			}
		}
	}

	return found
}

// reaches reports whether a node is one of those that a slice or a device names, as
// k8s.io/dynamic-resource-allocation/structured (internal/stable/pools_stable.go, NodeMatches)
// has it. A selector that cannot be parsed, about which the allocator complains, names none.
func reaches(node *corev1.Node, name *string, all *bool, selector *corev1.NodeSelector) bool {
	switch {
	case ptr.Deref(name, "") != "":
		return *name == node.Name
	case ptr.Deref(all, false):
		return true
	case selector != nil:
		parsed, err := nodeaffinity.NewNodeSelector(selector)
		return err == nil && parsed.Match(node)
	}

	return false
}

// Allocation lists the devices that a running pod got by its claims.
type Allocation struct {
	Claims map[topology.DeviceID]string // claim, request and driver, by device
	// the pairs that it could have with devices of these drivers that are free or its own; ""
	// where none are nearer
	Nearer string
}

// Given returns what claims gave to a pod on a node, which need not be among the objects.
func (f *Fleet) Given(name, namespace, pod string) Allocation {
	n := f.node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	found := Allocation{Claims: map[topology.DeviceID]string{}}
	counts := map[string]int{}
	isPod := func(r resourceapi.ResourceClaimConsumerReference) bool {
		return r.Resource == "pods" && r.Name == pod
	}

	for i, d := range n.devices {
		c := f.users[d.id]
		if c == nil || c.Namespace != namespace || d.Address == "" ||
			!slices.ContainsFunc(c.Status.ReservedFor, isPod) {
			continue
		}

		name := cmp.Or(c.Annotations[resourceapi.PodResourceClaimAnnotation], c.Name)
		found.Claims[d.pci] = fmt.Sprintf("claim %s, request %s, driver %s", name,
			requests(c.Status.Allocation)[d.id], d.Driver)
		counts[d.Driver]++
		n.devices[i].State = free // to be given another
	}

	ids := slices.Collect(maps.Keys(found.Claims))
	bounds := n.bounds(counts)
	if now := pairs(n.host.Tree(ids), ids); bounds != nil &&
		bounds.Best.distance() < now.distance() {
		found.Nearer = fmt.Sprintf("%s in place of %s", bounds.Best, now)
	}

	return found
}
