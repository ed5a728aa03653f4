package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// kind tells what a node of a tree is.
type kind string

const (
	kindArea     kind = "area"     // a NUMA node or cell
	kindRoot     kind = "root"     // a host bridge, an expander bus or the main bus
	kindPort     kind = "port"     // a root port or a downstream port
	kindSwitch   kind = "switch"   // an upstream port
	kindBridge   kind = "bridge"   // any other bridge
	kindParent   kind = "parent"   // the function that mediated devices are cut from
	kindEndpoint kind = "endpoint" // a passthrough device
)

// node is a part of the tree of the host or of the guest, as pictures show it.
type node struct {
	kind   kind
	key    string // tells it from its siblings, and orders them where that is known
	name   string // what it is called: "pci0000:15", "expander bus 0xe0", an alias
	detail string // an address, "" where the name is one
	device int    // the number of an endpoint
	below  []*node
}

// child is the node below n with this key; it is made when there is none.
func (n *node) child(k kind, key, name, detail string) *node {
	for _, c := range n.below {
		if c.key == key {
			return c
		}
	}
	c := &node{kind: k, key: key, name: name, detail: detail}
	n.below = append(n.below, c)
	return c
}

// endpoints are the endpoints at n and below it, in order.
func (n *node) endpoints() []*node {
	if n.kind == kindEndpoint {
		return []*node{n}
	}
	var all []*node
	for _, c := range n.below {
		all = append(all, c.endpoints()...)
	}
	return all
}

// sortBelow orders the nodes at a depth by their keys.
func (n *node) sortBelow(compare func(a, b *node) int, recurse bool) {
	slices.SortStableFunc(n.below, compare)
	for _, c := range n.below {
		if recurse {
			c.sortBelow(compare, true)
		}
	}
}

// alike reports whether two trees have the same devices in each of their areas.
func alike(a, b *node) bool {
	return slices.EqualFunc(a.below, b.below, func(a, b *node) bool {
		return slices.Equal(a.devices(), b.devices())
	})
}

// devices are the numbers of the endpoints at n and below it, in order.
func (n *node) devices() []int {
	var all []int
	for _, e := range n.endpoints() {
		all = append(all, e.device)
	}
	slices.Sort(all)
	return all
}

func byKey(a, b *node) int { return cmp.Compare(a.key, b.key) }

// hostTree is the part of the host that the devices stand on: NUMA nodes, PCIe
// roots, root ports, switches, devices.
func (r Report) hostTree() *node {
	top := &node{}
	for i, d := range r.Devices {
		at := top.child(kindArea, hostAreaKey(d), hostAreaName(d), "")
		root := "no PCIe root known"
		if d.PCIeRoot != nil {
			root = *d.PCIeRoot
		}
		at = at.child(kindRoot, root, root, "")
		for j, bridge := range d.HostPath {
			at = at.child(hostBridgeKind(j, len(d.HostPath)), bridge, r.short(bridge), "")
		}
		detail := r.short(d.ID)
		if d.Kind == string(topology.KindMDEV) {
			if d.function != nil {
				address := d.function.Address.String()
				at = at.child(kindParent, address, classLabel(d.function.Class), r.short(address))
			}
			detail = d.ID
		}
		leaf := at.child(kindEndpoint, "~"+d.ID, d.title(), detail)
		leaf.device = i
	}
	top.sortBelow(byKey, true)
	return top
}

// hostBridgeKind tells what bridge i of a path of n bridges is: behind the root
// port a switch is a pair, its upstream and its downstream port.
func hostBridgeKind(i, n int) kind {
	switch {
	case i == 0 || i%2 == 0:
		return kindPort
	case i+1 < n:
		return kindSwitch
	}
	return kindBridge
}

// The keys of areas sort by number, what has none last.
const lastKey = "~"

func areaKey(n *int) string {
	if n == nil {
		return lastKey
	}
	return fmt.Sprintf("%08d", *n)
}

func hostAreaKey(d Device) string { return areaKey(d.HostNode) }

func hostAreaName(d Device) string {
	if d.HostNode == nil {
		return "no NUMA node"
	}
	return fmt.Sprintf("NUMA node %d", *d.HostNode)
}

// guestTree is the part of the guest that the devices stand on. Its areas are
// in order, and what is in one in the order of the host's tree, so that the two
// can be read side by side.
func (r Report) guestTree(host *node) *node {
	controllers := map[int]Controller{}
	for _, c := range r.Controllers {
		controllers[c.Index] = c
	}
	top := &node{}
	for _, e := range host.endpoints() {
		d := r.Devices[e.device]
		at := r.guestRoot(top, d, controllers)
		for _, index := range d.GuestPath {
			if c := controllers[index]; c.Model != string(domain.ExpanderBus) {
				at = at.child(guestBridgeKind(c), fmt.Sprint(index), guestBridgeName(c), "")
			}
		}
		leaf := at.child(kindEndpoint, d.ID, d.title(), guestDetail(d))
		leaf.device = e.device
	}
	top.sortBelow(byKey, false)
	return top
}

// guestRoot is the root bus of a device, in the area of its cell.
func (r Report) guestRoot(top *node, d Device, controllers map[int]Controller) *node {
	if len(d.GuestPath) == 0 || controllers[d.GuestPath[0]].Model != string(domain.ExpanderBus) {
		return top.child(kindArea, lastKey, "no NUMA cell", "").child(kindRoot, "main", "main bus", "")
	}
	e := controllers[d.GuestPath[0]]
	area := "no NUMA cell"
	if e.Cell != nil {
		area = fmt.Sprintf("NUMA cell %d", *e.Cell)
	}
	number := fmt.Sprintf("#%d", e.Index)
	if e.BusNr != nil {
		number = fmt.Sprintf("0x%02x", *e.BusNr)
	}
	return top.child(kindArea, areaKey(e.Cell), area, "").child(kindRoot, fmt.Sprint(e.Index), "expander bus", number)
}

func guestBridgeKind(c Controller) kind {
	switch domain.Model(c.Model) {
	case domain.RootPort, domain.DownstreamPort:
		return kindPort
	case domain.UpstreamPort:
		return kindSwitch
	}
	return kindBridge
}

// guestBridgeName is the address that the guest shows, or libvirt's index until
// that is known.
func guestBridgeName(c Controller) string {
	if c.predicted == "" {
		return fmt.Sprintf("index %d", c.Index)
	}
	return guestShort(c.predicted)
}

func guestDetail(d Device) string {
	switch {
	case d.Predicted != nil:
		return guestShort(*d.Predicted)
	case d.GuestAddress != nil:
		return "bus not known yet"
	}
	return "address by libvirt"
}

// guestShort leaves out the PCI domain, which is always 0 in a guest.
func guestShort(address string) string { return strings.TrimPrefix(address, "0000:") }

// short leaves out the PCI domain where all devices of the host have domain 0.
func (r Report) short(address string) string {
	for _, d := range r.Devices {
		if d.Kind == string(topology.KindPCI) && !strings.HasPrefix(d.ID, "0000:") {
			return address
		}
	}
	return guestShort(address)
}

// title is what a device is called: its alias, or what it is.
func (d Device) title() string {
	if d.Alias != nil {
		return *d.Alias
	}
	return "(no alias)"
}

// label is what a device is, in a word.
func (d Device) label() string {
	if d.Kind == string(topology.KindMDEV) {
		return "mdev"
	}
	if d.function == nil {
		return "PCI"
	}
	return classLabel(d.function.Class)
}

// classLabel is what a PCI class is, in a word (PCI Code and ID Assignment
// Specification 1.14, section 1).
func classLabel(class uint32) string {
	switch {
	case class>>8 == 0x0108:
		return "NVMe"
	case class>>8 == 0x0403:
		return "audio"
	case class>>8 == 0x0c03:
		return "USB"
	case class>>16 == 0x01:
		return "disk"
	case class>>16 == 0x02:
		return "NIC"
	case class>>16 == 0x03:
		return "GPU"
	case class>>16 == 0x12:
		return "accel"
	}
	return "PCI"
}
