package fit

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Fleet holds the objects of a cluster, by which VMs fit on its nodes or do not.
type Fleet struct {
	Objects
	pools     reachable
	uses      map[poolKey][]use // what claims have of a pool
	pods      map[string][]*Pod // by node
	labels    map[string]bool   // keys of labels that any node has
	version   version
	allocator allocator
}

// use is what a claim has.
type use struct {
	claim  *resourceapi.ResourceClaim
	result resourceapi.DeviceRequestAllocationResult
}

// New returns the fleet of objects.
func New(o Objects) *Fleet {
	o.Slices = withTaintRules(o.Slices, o.TaintRules)
	f := &Fleet{
		Objects: o,
		pools:   reachableOf(poolsOf(o.Slices)),
		uses:    map[poolKey][]use{},
		pods:    map[string][]*Pod{},
		labels:  map[string]bool{},
		version: o.version(),
	}

	f.allocator = newAllocator(gatesOf(f.version.minor()).with(gatesOfSlices(o.Slices)))

	for _, c := range o.Claims {
		for _, r := range ptr.Deref(c.Status.Allocation,
			resourceapi.AllocationResult{}).Devices.Results {
			if !ptr.Deref(r.AdminAccess, false) { // which takes nothing
				pool := poolKey{r.Driver, r.Pool}
				f.uses[pool] = append(f.uses[pool], use{c, r})
			}
		}
	}

	for _, p := range o.Pods {
		f.pods[p.Node] = append(f.pods[p.Node], p)
	}

	for _, n := range o.Nodes {
		for key := range n.Labels {
			f.labels[key] = true
		}
	}

	return f
}

// withTaintRules returns slices with the taints that rules add to their devices, as the scheduler
// sees them (k8s.io/dynamic-resource-allocation resourceslice/tracker). Slices that no rule is about
// stay as they are.
func withTaintRules(
	all []*resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule,
) []*resourceapi.ResourceSlice {
	if len(rules) == 0 {
		return all
	}

	return topology.Map(all, func(s *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
		tainted := *s
		for _, rule := range rules {
			tainted.Spec.Devices = withTaint(&tainted, rule)
		}
		return &tainted
	})
}

// withTaint returns the devices of a slice, with the taint of a rule where it is about them.
func withTaint(
	s *resourceapi.ResourceSlice, rule *resourceapi.DeviceTaintRule,
) []resourceapi.Device {
	devices, selector := s.Spec.Devices, rule.Spec.DeviceSelector
	is := func(wanted *string, name string) bool { return wanted == nil || *wanted == name }
	if selector == nil || !is(selector.Driver, s.Spec.Driver) ||
		!is(selector.Pool, s.Spec.Pool.Name) {
		return devices
	}

	isSelected := func(d resourceapi.Device) bool { return is(selector.Device, d.Name) }
	if !slices.ContainsFunc(devices, isSelected) {
		return devices
	}

	return topology.Map(devices, func(d resourceapi.Device) resourceapi.Device {
		if isSelected(d) {
			d.Taints = append(slices.Clip(d.Taints), rule.Spec.Taint)
		}
		return d
	})
}

// usesOf returns what claims have of a device.
func (f *Fleet) usesOf(p *pool, device string) (found []use) {
	for _, u := range f.uses[p.key()] {
		if u.result.Device == device {
			found = append(found, u)
		}
	}
	return found
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

// poolKey names a pool in the cluster.
type poolKey struct{ driver, name string }

func (p *pool) key() poolKey { return poolKey{p.driver, p.name} }

// reachable are pools by the one node whose slices they have, and those of several nodes under "".
type reachable map[string][]*pool

func reachableOf(pools []*pool) reachable {
	r := reachable{}
	for _, p := range pools {
		only := ptr.Deref(p.slices[0].Spec.NodeName, "")
		for _, s := range p.slices {
			if ptr.Deref(s.Spec.NodeName, "") != only {
				only = ""
			}
		}

		r[only] = append(r[only], p)
	}

	return r
}

// of returns the pools that a node may reach.
func (r reachable) of(node string) []*pool { return slices.Concat(r[node], r[""]) }

// poolsOf returns the pools of slices, in the order of their first slices.
func poolsOf(all []*resourceapi.ResourceSlice) (pools []*pool) {
	known := map[poolKey]*pool{}
	for _, s := range all {
		k := poolKey{s.Spec.Driver, s.Spec.Pool.Name}
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
