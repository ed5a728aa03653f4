package fit

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/topology"
)

// node is a cluster node and the devices that it offers.
type node struct {
	*Fleet
	*corev1.Node
	pools    []*pool                    // that have a device for it
	devices  []OfferedDevice            // by NUMA node and PCIe root
	host     *topology.Host             // as it was read, else as its devices show it
	matching map[string][]OfferedDevice // by kind of request, see candidates
	twins    map[deviceID][]deviceID    // the other devices that are the same function

	partitions []Partition // NVLink partitions of its GPUs, by ID
	problem    string      // why they were not read; "" where they were, or where nothing has them
}

// Partition is an NVLink partition of a node: a VM's GPUs are one, or CUDA does not start in it.
type Partition struct {
	ID   int      `json:"id"`   // that Fabric Manager has given it
	GPUs []string `json:"gpus"` // PCI addresses
	// free; used: a VM has exactly its GPUs; blocked: VMs use some of its GPUs, or an overlapping
	// partition is active; or next: a VM counted here gets it
	State string `json:"state"`
	// what uses or blocks it: VMs, or GPUs that the node does not offer; or which VM gets it:
	// "VM 1" is the next; "active" of a free one that Fabric Manager has connected, though no VM is
	// known to have it
	By string `json:"by"`

	key      string // of the partition on its node
	devices  sets.Set[deviceID]
	places   sets.Set[topology.DeviceID]
	isActive bool
}

// node returns a node with its devices. nodeWithPartitions adds what these make up.
func (f *Fleet) node(object *corev1.Node) *node {
	n := &node{
		Fleet: f, Node: object,
		devices: []OfferedDevice{}, matching: map[string][]OfferedDevice{},
	}
	for _, p := range f.pools.of(object.Name) {
		published := p.devices(object)
		if len(published) > 0 {
			n.pools = append(n.pools, p)
		}

		for _, d := range published {
			n.devices = append(n.devices, f.offer(p, d))
		}
	}

	n.host = f.Hosts[object.Name]

	if n.host == nil {
		n.host = hostOf(n.devices)
	} else {
		n.devices = append(n.devices, n.pluginDevices()...)
	}

	slices.SortStableFunc(n.devices, func(a, b OfferedDevice) int {
		return cmp.Or(cmp.Compare(a.NUMA, b.NUMA), cmp.Compare(a.Root, b.Root))
	})

	n.findTwins()
	return n
}

// findTwins finds devices that are one function: AMD's driver publishes a virtual function as one
// for containers and one for VMs. Devices that count on shared counters or may be shared are told
// apart by their driver, and those of several nodes may be anywhere.
func (n *node) findTwins() {
	n.twins = map[deviceID][]deviceID{}
	same := map[topology.DeviceID][]int{}
	for i, d := range n.devices {
		if d.isFunction {
			same[d.pci] = append(same[d.pci], i)
		}
	}

	for _, indexes := range same {
		for _, i := range indexes {
			for _, j := range indexes {
				if i != j {
					n.devices[i].addTwin(n.devices[j])
					n.twins[n.devices[i].id] = append(n.twins[n.devices[i].id], n.devices[j].id)
				}
			}
		}
	}
}

// offer returns a device of a pool.
func (f *Fleet) offer(p *pool, published *resourceapi.Device) OfferedDevice {
	at := placeOf(published)
	d := OfferedDevice{
		Name: published.Name, Driver: p.driver, State: free,
		id: newDeviceID(p.driver, p.name, published.Name), published: published,
		uses: f.usesOf(p, published.Name), place: at,
	}

	d.Root = topology.PCIeRoot(strings.Join(topology.Map(at.roots, topology.PCIeRoot.String), ","))
	nodes := topology.Map(at.nodes, func(n topology.NodeID) string {
		return topology.OnNode(n).String()
	})

	d.NUMA = cmp.Or(strings.Join(nodes, ","), topology.Affinity{}.String())
	if at.address != (topology.Address{}) {
		d.Address, d.pci = at.address.String(), topology.PCIDevice(at.address)
		d.isFunction = !p.isShared() && !d.isShared() && len(published.ConsumesCounters) == 0
	}

	taints := taintsOf(published, nil)
	switch {
	case len(d.uses) > 0 && !d.isShared():
		d.State, d.By = used, userOf(d.uses[0].claim)
	case p.missing() != "":
		d.State, d.By = incomplete, p.missing()
	case taints != "":
		d.State, d.By = tainted, taints
	case len(d.uses) > 0:
		d.By = d.shares()
	}

	return d
}

// hostOf returns a host with published devices. A device that is at several places is at that
// which most of the others share.
func hostOf(devices []OfferedDevice) *topology.Host {
	h := &topology.Host{}
	for i, d := range devices {
		if d.published == nil || d.Address == "" {
			continue
		}

		shares := func(isAt func(place) bool) int {
			return topology.CountFunc(devices, func(other OfferedDevice) bool {
				return other.id != devices[i].id && isAt(other.place)
			})
		}

		at := topology.Function{Address: d.place.address}
		if len(d.place.roots) > 0 {
			at.Root = mostShared(d.place.roots, func(root topology.PCIeRoot) int {
				return shares(func(p place) bool { return slices.Contains(p.roots, root) })
			})
		}

		if len(d.place.nodes) > 0 {
			at.Node = topology.OnNode(mostShared(d.place.nodes, func(node topology.NodeID) int {
				return shares(func(p place) bool { return slices.Contains(p.nodes, node) })
			}))
		}

		h.Functions = append(h.Functions, at)
	}

	slices.SortStableFunc(h.Functions, func(a, b topology.Function) int {
		return a.Address.Compare(b.Address)
	})

	return h
}

// mostShared returns the value that most others share, of several the first.
func mostShared[T any](values []T, shares func(T) int) T {
	if len(values) == 1 {
		return values[0]
	}
	return slices.MaxFunc(values, func(a, b T) int { return cmp.Compare(shares(a), shares(b)) })
}

// pluginDevices returns the devices of the host that KubeVirt's device plugins give out.
func (n *node) pluginDevices() (devices []OfferedDevice) {
	for _, k := range n.KubeVirts {
		permitted := ptr.Deref(k.Spec.Configuration.PermittedHostDevices, v1.PermittedHostDevices{})
		for _, p := range permitted.PciHostDevices {
			for _, f := range n.host.Functions {
				if !strings.EqualFold(p.PCIVendorSelector, f.IDs()) {
					continue
				}

				d := OfferedDevice{
					Name: f.Address.String(), Address: f.Address.String(), Driver: p.ResourceName,
					Root: f.Root, NUMA: f.Node.String(), State: free,
					pci: topology.PCIDevice(f.Address),
				}

				if d.By = n.Held[HostDevice{n.Name, d.pci}]; d.By != "" {
					d.State = used
				}

				devices = append(devices, d)
			}
		}
	}

	return devices
}

// listed returns the passthrough devices of the node, those of the next VM with their requests.
func (n *node) listed(first map[deviceID]string, isNow bool) []OfferedDevice {
	devices := make([]OfferedDevice, 0, len(n.devices))
	for _, d := range n.devices {
		if request, isGiven := first[d.id]; isGiven && isNow {
			d.State, d.By = next, request
		}
		if d.isHostdev() {
			devices = append(devices, d)
		}
	}

	return devices
}

// idOf returns the id of a device, also of a device plugin.
func (n *node) idOf(d OfferedDevice) deviceID {
	if d.published != nil {
		return d.id
	}
	return newDeviceID(d.Driver, n.Name, d.Name)
}
