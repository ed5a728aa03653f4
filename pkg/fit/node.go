package fit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	podrequests "k8s.io/component-helpers/resource"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/topology"
)

// Device is one that a node offers, by a ResourceSlice or by a device plugin. What is not
// published is empty.
type Device struct {
	Name    string            `json:"name"`    // in its ResourceSlice; of a device plugin its address
	Driver  string            `json:"driver"`  // that publishes it, or the resource of its device plugin
	Address string            `json:"address"` // PCI address
	Root    topology.PCIeRoot `json:"root"`    // PCIe root
	NUMA    string            `json:"numa"`    // NUMA node, or none
	State   string            `json:"state"`   // free, used, or taken: by the next VM
	By      string            `json:"by"`      // the claim or the VM that uses it, or the request that would take it

	pci       topology.DeviceID
	id        structured.DeviceID
	published *resourceapi.Device // nil of a device plugin
}

// The states of a device.
const free, used, taken = "free", "used", "taken"

// Fleet holds the objects of a cluster, by which VMs fit on its nodes or do not.
type Fleet struct {
	Objects
	users    map[structured.DeviceID]*resourceapi.ResourceClaim // that devices are allocated to
	features structured.Features
	cache    *cel.Cache
}

// New returns the fleet of objects.
func New(o Objects) *Fleet {
	f := &Fleet{
		Objects: o, users: map[structured.DeviceID]*resourceapi.ResourceClaim{},
		// Those of Kubernetes 1.36 that concern devices which one VM has alone. Where a gate is
		// off, the API server has dropped its fields.
		features: structured.Features{AdminAccess: true, DeviceTaints: true, ListTypeAttributes: true, PartitionableDevices: true, PrioritizedList: true},
		cache:    cel.NewCache(10, cel.Features{EnableListTypeAttributes: true}), // as many as the scheduler keeps
	}
	newest := map[structured.DeviceID]int64{} // generation of a pool, of which an update may leave slices
	pool := func(s *resourceapi.ResourceSlice) structured.DeviceID {
		return structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, "")
	}
	for _, s := range o.Slices {
		newest[pool(s)] = max(newest[pool(s)], s.Spec.Pool.Generation)
	}
	f.Slices = slices.DeleteFunc(slices.Clone(o.Slices), func(s *resourceapi.ResourceSlice) bool { return s.Spec.Pool.Generation < newest[pool(s)] })
	for _, c := range o.Claims {
		for id := range requests(c.Status.Allocation) {
			f.users[id] = c
		}
	}
	return f
}

// requests returns the request that each device of an allocation is for.
func requests(a *resourceapi.AllocationResult) map[structured.DeviceID]string {
	of := map[structured.DeviceID]string{}
	for _, r := range ptr.Deref(a, resourceapi.AllocationResult{}).Devices.Results {
		if !ptr.Deref(r.AdminAccess, false) { // which takes nothing
			of[structured.MakeDeviceID(r.Driver, r.Pool, r.Device)] = r.Request
		}
	}
	return of
}

// List and Get make a fleet a structured.DeviceClassLister.
func (f *Fleet) List() ([]*resourceapi.DeviceClass, error) { return f.Classes, nil }

// Get returns a device class.
func (f *Fleet) Get(name string) (*resourceapi.DeviceClass, error) {
	i := slices.IndexFunc(f.Classes, func(c *resourceapi.DeviceClass) bool { return c.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no DeviceClass %q", topology.Abridge(name))
	}
	return f.Classes[i], nil
}

// node is a node with what it offers.
type node struct {
	*Fleet
	*corev1.Node
	published []*resourceapi.ResourceSlice
	devices   []Device            // by NUMA node and PCIe root
	host      *topology.Host      // as it was read, else as its devices show it
	taking    map[string][]Device // by kind of request
}

func (f *Fleet) node(of *corev1.Node) *node {
	n := &node{Fleet: f, Node: of, devices: []Device{}, host: &topology.Host{}, taking: map[string][]Device{}}
	for _, s := range f.Slices {
		if ptr.Deref(s.Spec.NodeName, of.Name) != of.Name { // others are of several nodes, or of this one
			continue
		}
		n.published = append(n.published, s)
		for _, published := range s.Spec.Devices {
			d := Device{Name: published.Name, Driver: s.Spec.Driver, id: structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, published.Name), published: &published}
			if claim := f.users[d.id]; claim != nil {
				d.By = claim.Namespace + "/" + claim.Name
			}
			at := place(published)
			n.offer(d, at)
			n.host.Devices = append(n.host.Devices, at)
		}
	}
	slices.SortFunc(n.host.Devices, func(a, b topology.Device) int { return a.Address.Compare(b.Address) })
	if host := f.Hosts[of.Name]; host != nil {
		n.host = host
		n.offerPlugins()
	}
	slices.SortStableFunc(n.devices, func(a, b Device) int { return cmp.Or(cmp.Compare(a.NUMA, b.NUMA), cmp.Compare(a.Root, b.Root)) })
	return n
}

// offer adds a device that is at a place of the host.
func (n *node) offer(d Device, at topology.Device) {
	d.Root, d.NUMA, d.State = at.Root, at.Node.String(), free
	if d.By != "" {
		d.State = used
	}
	if at.Address != (topology.Address{}) {
		d.Address, d.pci = at.Address.String(), topology.PCIDevice(at.Address)
	}
	n.devices = append(n.devices, d)
}

// place returns where a device of a ResourceSlice is.
func place(d resourceapi.Device) (at topology.Device) {
	for name, a := range d.Attributes {
		text := ptr.Deref(a.StringValue, strings.Join(a.StringValues, ","))
		switch meaning(string(name)) {
		case "address":
			if address, err := topology.ParseAddress(text); err == nil {
				at.Address = address
			}
		case "root":
			at.Root = topology.PCIeRoot(text)
		case "NUMA node":
			if node := ptr.Deref(a.IntValue, append(a.IntValues, -1)[0]); node >= 0 {
				at.Node = topology.OnNode(topology.NodeID(node))
			}
		}
	}
	return at
}

// meaning returns the property that an attribute has, whatever its domain, which some drivers
// choose: resource.kubernetes.io/numaNode, dra.net/numaNode and dra.cpu/numaNodeID are one.
func meaning(name string) string {
	return map[string]string{
		"pciAddr": "address", "pciAddress": "address", "pciBusID": "address",
		"pciRoot": "root", "pcieRoot": "root",
		"numaNode": "NUMA node", "numaNodeID": "NUMA node",
	}[name[strings.LastIndex(name, "/")+1:]]
}

// offerPlugins adds the devices of the host that KubeVirt's device plugins give out.
func (n *node) offerPlugins() {
	for _, k := range n.KubeVirts {
		for _, p := range ptr.Deref(k.Spec.Configuration.PermittedHostDevices, v1.PermittedHostDevices{}).PciHostDevices {
			for _, f := range n.host.Devices {
				if strings.EqualFold(p.PCIVendorSelector, f.IDs()) {
					n.offer(Device{Name: f.Address.String(), Driver: p.ResourceName, By: n.Held[n.Name+" "+f.Address.String()]}, f)
				}
			}
		}
	}
}

// allocate has the scheduler's allocator allocate devices to a VM's claims, which are in use from
// then on. It returns the request that each is for, or why it cannot.
func (n *node) allocate(ctx context.Context, claims []*resourceapi.ResourceClaim, inUse sets.Set[structured.DeviceID]) (map[structured.DeviceID]string, string) {
	if why := n.obstacle(ctx, claims, inUse); why != "" {
		return nil, why
	}
	// The scheduler searches a node so long (k8s.io/kube-scheduler config/v1, DynamicResourcesFilterTimeoutDefault).
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	allocator, err := structured.NewAllocator(ctx, n.features, structured.AllocatedState{AllocatedDevices: inUse}, n.Fleet, n.published, n.cache)
	var results []resourceapi.AllocationResult
	if err == nil {
		results, err = allocator.Allocate(ctx, n.Node, claims)
	}
	switch {
	case err != nil:
		return nil, "the scheduler's allocator: " + err.Error()
	case len(results) == 0:
		return nil, "no free devices meet the claim's constraints"
	}
	given := map[structured.DeviceID]string{}
	for _, result := range results {
		maps.Copy(given, requests(&result))
	}
	inUse.Insert(slices.Collect(maps.Keys(given))...)
	return given, ""
}

// takes returns the devices that a request takes, by the scheduler's evaluation of selectors, and
// a name of their kind, and those of which a selector fails: the allocator returns its error.
func (n *node) takes(ctx context.Context, r *resourceapi.ExactDeviceRequest, class *resourceapi.DeviceClass) ([]Device, string) {
	kind, selectors := r.DeviceClassName, r.Selectors
	for _, s := range selectors {
		kind += " with " + ptr.Deref(s.CEL, resourceapi.CELDeviceSelector{}).Expression
	}
	if found, isKnown := n.taking[kind]; isKnown {
		return found, kind
	}
	selectors = slices.Concat(class.Spec.Selectors, selectors)
	n.taking[kind] = slices.DeleteFunc(slices.Clone(n.devices), func(d Device) bool {
		return d.published == nil || slices.ContainsFunc(selectors, func(s resourceapi.DeviceSelector) bool {
			selector := n.cache.GetOrCompile(ptr.Deref(s.CEL, resourceapi.CELDeviceSelector{}).Expression)
			if selector.Error != nil {
				return false
			}
			matches, _, err := selector.DeviceMatches(ctx, cel.Device{Driver: d.Driver, Attributes: d.published.Attributes, Capacity: d.published.Capacity})
			return err == nil && !matches
		})
	})
	return n.taking[kind], kind
}

// obstacle returns of which devices fewer are free than claims need, or which lack an
// attribute that they have to share. The allocator gives no cause, and searches exhaustively
// where it cannot succeed.
func (n *node) obstacle(ctx context.Context, claims []*resourceapi.ResourceClaim, inUse sets.Set[structured.DeviceID]) string {
	needed := map[string]int64{}
	for _, claim := range claims {
		for _, request := range claim.Spec.Devices.Requests {
			r := request.Exactly
			if r == nil || r.AdminAccess != nil || r.AllocationMode == resourceapi.DeviceAllocationModeAll {
				continue // only the allocator knows
			}
			class, err := n.Get(r.DeviceClassName)
			if err != nil {
				return err.Error()
			}
			devices, kind := n.takes(ctx, r, class)
			left := slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return inUse.Has(d.id) })
			if needed[kind] += r.Count; int64(len(left)) < needed[kind] {
				return fmt.Sprintf("%d %s are free, fewer than are needed", len(left), kind)
			}
			for _, c := range claim.Spec.Devices.Constraints {
				if c.MatchAttribute == nil || len(c.Requests) > 0 && !slices.Contains(c.Requests, request.Name) {
					continue
				}
				if isPublished, other := publishes(left, string(*c.MatchAttribute)); !isPublished {
					return fmt.Sprintf("%s has no %s%s", kind, *c.MatchAttribute, other)
				}
			}
		}
	}
	return ""
}

// publishes reports whether devices have an attribute, and under which other name they have the
// same thing.
func publishes(devices []Device, attribute string) (isPublished bool, other string) {
	for _, d := range devices {
		for name := range d.published.Attributes {
			qualified := string(name)
			if !strings.Contains(qualified, "/") {
				qualified = d.Driver + "/" + qualified
			}
			if qualified == attribute {
				return true, ""
			}
			if meaning(qualified) != "" && meaning(qualified) == meaning(attribute) {
				other = ", its driver publishes " + qualified + ": matchAttribute compares one name"
			}
		}
	}
	return false, other
}

// room returns how often a VM fits on the node but for its claims, and what limits it. An empty
// node has no cordon.
func (n *node) room(s Shape, isEmpty bool) (int, string) {
	if n.Spec.Unschedulable && !isEmpty {
		return 0, "it is cordoned"
	}
	isHard := func(t *corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != corev1.TaintNodeUnschedulable
	}
	if t, isRefused := scheduling.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, s.Tolerations, isHard, true); isRefused {
		return 0, "the VM does not tolerate its taint " + t.ToString()
	}
	room, why := 1000, "" // where nothing limits them
	for _, name := range slices.Sorted(maps.Keys(s.Needs)) {
		need, left := s.Needs[name], n.Status.Allocatable[name].DeepCopy()
		for _, p := range n.Pods {
			if !isEmpty && p.Spec.NodeName == n.Name && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				left.Sub(podrequests.PodRequests(p, podrequests.PodResourcesOptions{})[name])
			}
		}
		if times := int(left.AsApproximateFloat64() / need.AsApproximateFloat64()); times < room && !need.IsZero() {
			room, why = max(times, 0), fmt.Sprintf("%s of %s are free, and %s are needed", left.String(), name, need.String())
		}
	}
	return room, why
}
