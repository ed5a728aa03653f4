package fit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// OfferedDevice is a device that a node offers, by a ResourceSlice or by a device plugin. What is
// not published is empty.
type OfferedDevice struct {
	// in its ResourceSlice; of a device plugin its address
	Name string `json:"name"`
	// that publishes it, or the resource of its device plugin
	Driver  string            `json:"driver"`
	Address string            `json:"address"` // PCI address
	Root    topology.PCIeRoot `json:"root"`    // PCIe root, or several with commas
	NUMA    string            `json:"numa"`    // NUMA node, several with commas, or none
	// free, used, tainted, incomplete: its pool lacks slices; or next: the next VM gets it
	State string `json:"state"`
	// the claim or the VM that uses it, its taints, what its pool lacks, the request that would
	// get it, of a free one what claims have of it, or which device is the same function
	By string `json:"by"`

	pci       topology.DeviceID
	id        deviceID
	published *resourceapi.Device // nil of a device plugin
	uses      []use
	place     place

	isFunction bool // one claim has all of it, and no other device of the same address
}

// isShared reports whether several claims may have the device.
func (d OfferedDevice) isShared() bool {
	return d.published != nil && ptr.Deref(d.published.AllowMultipleAllocations, false)
}

// isHostdev reports whether a VM may get the device by passthrough, which no CPU and no memory is
// (kubernetes-sigs/dra-driver-cpu, dra-driver-memory).
func (d OfferedDevice) isHostdev() bool {
	return d.Driver != "dra.cpu" && d.Driver != "dra.memory"
}

// The states of a device.
const (
	free       = "free"
	used       = "used"
	tainted    = "tainted"
	incomplete = "incomplete"
	next       = "next"
)

// place is where a device is. A driver may publish several PCIe roots or NUMA nodes of a device,
// in a list (KEP-5491): a socket's, or those that are equally near.
type place struct {
	address topology.Address
	roots   []topology.PCIeRoot
	nodes   []topology.NodeID
}

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
	n.partitions = n.findPartitions()
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

// addTwin says of a device that another is the same function.
func (d *OfferedDevice) addTwin(twin OfferedDevice) {
	switch {
	case len(d.uses) == 0 && len(twin.uses) > 0:
		d.State, d.By = used, userOf(twin.uses[0].claim)
	case d.State == free && d.By == "":
		d.By = "the same function as " + twin.Name
	}
}

func userOf(c *resourceapi.ResourceClaim) string { return c.Namespace + "/" + c.Name }

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

// shares says what claims have of a device that several may have.
func (d OfferedDevice) shares() string {
	t := newTaken()
	for _, u := range d.uses {
		t.add(u.result)
	}

	by := words.Counted(len(d.uses), "claim")
	for _, name := range slices.Sorted(maps.Keys(d.published.Capacity)) {
		all := d.published.Capacity[name].Value
		left := t.left(d.id, name, all)
		by += fmt.Sprintf(", %s of %s %s left", left.String(), all.String(), name)
	}

	return by
}

// placeOf reads where a published device is.
func placeOf(d *resourceapi.Device) (at place) {
	for name, a := range d.Attributes {
		texts := a.StringValues
		if a.StringValue != nil {
			texts = []string{*a.StringValue}
		}

		numbers := a.IntValues
		if a.IntValue != nil {
			numbers = []int64{*a.IntValue}
		}

		switch meaning(string(name)) {
		case isAddress:
			for _, text := range texts {
				if address, err := topology.ParseAddress(text); err == nil {
					at.address = address
				}
			}

		case isRoot:
			at.roots = topology.Map(texts, func(text string) topology.PCIeRoot {
				return topology.PCIeRoot(text)
			})

		case isNode:
			for _, number := range numbers {
				// a driver may publish one node under the names of several
				if number >= 0 && !slices.Contains(at.nodes, topology.NodeID(number)) {
					at.nodes = append(at.nodes, topology.NodeID(number))
				}
			}
		}
	}

	slices.Sort(at.nodes)
	return at
}

// property is the kind of place that an attribute names: a PCIe root, a NUMA node, an address.
type property int

const (
	isOther property = iota
	isAddress
	isRoot
	isNode
)

// meaning returns the property that an attribute has, whatever its domain, which some drivers
// choose: resource.kubernetes.io/numaNode, dra.net/numaNode and dra.cpu/numaNodeID are one.
func meaning(name string) property {
	switch name[strings.LastIndex(name, "/")+1:] {
	case "pciAddr", "pciAddress", "pciBusID":
		return isAddress
	case "pciRoot", "pcieRoot":
		return isRoot
	case "numaNode", "numaNodeID":
		return isNode
	}

	return isOther
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
