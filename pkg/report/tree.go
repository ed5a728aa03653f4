package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"hook-sidecar/pkg/topology"
)

// tree is what a picture shows of one side.
type tree struct {
	report      Report
	side        string // hostSide or guestSide
	isBrief     bool   // shortens UUIDs
	isAnonymous bool   // leaves out aliases
	areas       []area
}

const (
	hostSide  = "host"
	guestSide = "guest"
)

// area is a NUMA node of the host or a cell of the guest, with what leads to the
// devices on it.
type area struct {
	numa    int // or noNUMA
	devices []topology.DeviceID
	*topology.Tree
}

// noNUMA stands for no NUMA node or cell. It comes after all others.
const noNUMA = math.MaxInt

func numaOf(n *topology.Node) int {
	if numa := n.NUMANode(); numa != nil {
		return *numa
	}
	return noNUMA
}

// trees are the trees of host and guest. The guest's devices come in the order
// of the host's tree, so that the two can be read side by side.
func (r Report) trees() (left, right tree) {
	ids := slices.Clone(r.Paths.Devices)
	slices.SortFunc(ids, func(a, b topology.DeviceID) int {
		x, y := r.host.Node(a), r.host.Node(b)
		return cmp.Or(cmp.Compare(numaOf(x), numaOf(y)), slices.CompareFunc(rooted(x), rooted(y), compareNodes))
	})
	left, right = tree{report: r, side: hostSide}, tree{report: r, side: guestSide}
	for _, id := range ids {
		left.add(r.host.Node(id))
		right.add(r.guest.Node(id))
	}
	slices.SortFunc(right.areas, func(a, b area) int { return cmp.Compare(a.numa, b.numa) })
	return left, right
}

// add adds the path to a device, but for ports that libvirt has yet to add.
func (t *tree) add(device *topology.Node) {
	numa := numaOf(device)
	i := slices.IndexFunc(t.areas, func(a area) bool { return a.numa == numa })
	if i < 0 {
		i, t.areas = len(t.areas), append(t.areas, area{numa: numa, Tree: topology.NewTree(0, 0)})
	}
	t.areas[i].devices = append(t.areas[i].devices, device.ID.(topology.DeviceID))
	var at *topology.Node
	for _, n := range rooted(device) {
		if index, isGuest := n.ID.(topology.Index); !isGuest || n.Parent == nil || t.report.controller(index) != nil {
			at = t.areas[i].Add(at, *n)
		}
	}
}

// rooted is the path to a device. It begins with a root, one without a name where
// none is known.
func rooted(device *topology.Node) []*topology.Node {
	path := device.Path()
	if path[0].Kind == topology.Root {
		return path
	}
	return slices.Insert(path, 0, &topology.Node{Kind: topology.Root, ID: topology.PCIeRoot("")})
}

// compareNodes orders nodes by ID, and devices after bridges: Endpoint is the
// last kind.
func compareNodes(a, b *topology.Node) int {
	if a.Kind != b.Kind && (a.Kind == topology.Endpoint || b.Kind == topology.Endpoint) {
		return cmp.Compare(a.Kind, b.Kind)
	}
	return cmp.Compare(a.ID.String(), b.ID.String())
}

// areAlike reports whether two trees have the same devices in each of their areas.
func areAlike(left, right tree) bool {
	return slices.EqualFunc(left.areas, right.areas, func(a, b area) bool { return slices.Equal(a.devices, b.devices) })
}

// areaName is what an area is called.
func (t tree) areaName(a area) string {
	word := map[string]string{hostSide: "NUMA node", guestSide: "NUMA cell"}[t.side]
	if a.numa == noNUMA {
		return "no " + word
	}
	return fmt.Sprintf("%s %d", word, a.numa)
}

// class is the kind of a node but for devices, in a picture.
func class(n *topology.Node) string {
	return map[topology.NodeKind]string{
		topology.Root: "root", topology.RootPort: "port", topology.DownstreamPort: "port",
		topology.UpstreamPort: "switch", topology.Bridge: "bridge", topology.MDEVParent: "parent",
	}[n.Kind]
}

// label is what a node is called, and what else there is to say of it.
func (t tree) label(n *topology.Node) (name, detail string) {
	switch n.Kind {
	case topology.Root:
		return t.rootLabel(n)
	case topology.UpstreamPort, topology.Bridge:
		return class(n), t.address(n)
	case topology.MDEVParent:
		return t.device(n.Children[0]).class(), t.address(n)
	case topology.Endpoint:
		d := t.device(n)
		if d.Kind == topology.KindMDEV {
			return title(d.Alias), "mdev " + t.address(n)
		}
		return title(d.Alias), d.class() + " " + t.address(n)
	}
	return t.address(n), ""
}

func (t tree) device(n *topology.Node) Device { return t.report.Devices[t.report.number(n.ID)] }

func (t tree) rootLabel(n *topology.Node) (name, detail string) {
	index, isGuest := n.ID.(topology.Index)
	switch {
	case !isGuest:
		if n.ID.String() == "" {
			return "PCIe root", "not known"
		}
		return n.ID.String(), ""
	case index == 0:
		return "root bus", ""
	}
	if number := t.report.controller(index).BusNr; number != nil {
		return "expander bus", fmt.Sprintf("0x%02x", *number)
	}
	return "expander bus", fmt.Sprintf("#%d", index)
}

// text is a node in a few words.
func (t tree) text(n *topology.Node) string {
	name, detail := t.label(n)
	switch {
	case n.Kind == topology.Endpoint && t.isAnonymous:
		return fmt.Sprintf("#%d %s", t.report.number(n.ID), detail)
	case n.Kind == topology.Endpoint:
		return fmt.Sprintf("#%d %s %s", t.report.number(n.ID), detail, topology.Printable(name))
	case detail == "":
		return name
	}
	return name + " " + detail
}

// address is where a node is, as lspci shows it.
func (t tree) address(n *topology.Node) string {
	switch id := n.ID.(type) {
	case topology.Address:
		return t.report.short(id)
	case topology.Index:
		return shortOr(t.report.controller(id).predicted, fmt.Sprintf("index %d", id))
	}
	d := t.device(n)
	pci, isPCI := d.ID.PCI()
	switch {
	case t.side == guestSide && d.GuestAddress == nil:
		return "no address yet"
	case t.side == guestSide:
		return shortOr(d.Predicted, "bus not known yet")
	case isPCI:
		return t.report.short(pci)
	case t.isBrief:
		return d.ID.String()[:len("4a1f0b5c")]
	}
	return d.ID.String()
}

// short leaves out the PCI domain where all devices of the host have domain 0.
func (r Report) short(a topology.Address) string {
	for _, d := range r.Devices {
		if pci, ok := d.ID.PCI(); a.Domain != 0 || ok && pci.Domain != 0 {
			return a.String()
		}
	}
	return shortOr(&a, "")
}

// shortOr is an address without its PCI domain, or what to write where it is not
// known.
func shortOr(a *topology.Address, unknown string) string {
	if a == nil {
		return unknown
	}
	return fmt.Sprintf("%02x:%02x.%x", a.Bus, a.Device, a.Function)
}

func title(alias *string) string { return or(alias, "(no alias)") }

// kind is what a picture tells apart by tint and shape.
type kind string

const (
	gpu   kind = "gpu" // or another accelerator
	nic   kind = "nic"
	other kind = "other"
)

func (d Device) kind() kind {
	switch d.class() {
	case "GPU", "accel":
		return gpu
	case "NIC":
		return nic
	}
	return other
}

// noun is what a device is called in a sentence.
func (d Device) noun() string {
	if d.Kind == topology.KindMDEV {
		return "mediated device"
	}
	nouns := map[string]string{
		"accel": "accelerator", "NVMe": "NVMe drive", "audio": "audio function", "USB": "USB controller",
		"disk": "disk controller", "PCI": "PCI device",
	}
	return cmp.Or(nouns[d.class()], d.class())
}

// class is what the PCI class of a device, or of a mediated device's parent, is
// called (PCI Code and ID Assignment Specification 1.14, section 1).
func (d Device) class() string {
	if d.function == nil {
		return "PCI"
	}
	subclasses := map[uint32]string{0x0108: "NVMe", 0x0403: "audio", 0x0c03: "USB"}
	classes := map[uint32]string{0x01: "disk", 0x02: "NIC", 0x03: "GPU", 0x12: "accel"}
	return cmp.Or(subclasses[d.function.Class>>8], classes[d.function.Class>>16], "PCI")
}
