package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Tree is the tree of host or guest.
type Tree struct {
	Side   Side
	Areas  []Area
	report Report
}

// Side is the host or the guest.
type Side string

// The sides.
const (
	HostSide  Side = "host"
	GuestSide Side = "guest"
)

// Area is a NUMA node of the host or a cell of the guest, with the paths to its devices.
type Area struct {
	Name    string
	Devices []topology.DeviceID
	*topology.Tree

	numa int // or noNUMA
}

// noNUMA stands for no NUMA node or cell. It comes after all others.
const noNUMA = math.MaxInt

func numaOf(n *topology.Node) int {
	if numa := n.NUMANode(); numa != nil {
		return *numa
	}
	return noNUMA
}

// Trees returns the trees of host and guest, the guest's with the devices in the order of the
// host's, to be read side by side.
func (r Report) Trees() (host, guest Tree) {
	ids := slices.Clone(r.Paths.Devices)
	slices.SortFunc(ids, func(a, b topology.DeviceID) int {
		x, y := r.host.Node(a), r.host.Node(b)
		return cmp.Or(cmp.Compare(numaOf(x), numaOf(y)),
			slices.CompareFunc(rooted(x), rooted(y), compareNodes))
	})

	host, guest = Tree{report: r, Side: HostSide}, Tree{report: r, Side: GuestSide}
	for _, id := range ids {
		host.add(r.host.Node(id))
		guest.add(r.guest.Node(id))
	}

	slices.SortFunc(guest.Areas, func(a, b Area) int { return cmp.Compare(a.numa, b.numa) })
	return host, guest
}

// add adds the path to a device, without ports that libvirt has yet to add.
func (t *Tree) add(device *topology.Node) {
	numa := numaOf(device)
	i := slices.IndexFunc(t.Areas, func(a Area) bool { return a.numa == numa })
	if i < 0 {
		i, t.Areas = len(t.Areas), append(t.Areas, Area{
			Name: t.areaName(numa), numa: numa, Tree: topology.NewTree(0, 0),
		})
	}

	t.Areas[i].Devices = append(t.Areas[i].Devices, device.ID.(topology.DeviceID))
	var at *topology.Node
	for _, n := range rooted(device) {
		if index, isGuest := n.ID.(topology.Index); !isGuest || n.Parent == nil ||
			t.report.controller(index) != nil {
			at = t.Areas[i].Add(at, *n)
		}
	}
}

func (t *Tree) areaName(numa int) string {
	word := "NUMA node"
	if t.Side == GuestSide {
		word = "NUMA cell"
	}

	if numa == noNUMA {
		return "no " + word
	}
	return fmt.Sprintf("%s %d", word, numa)
}

// rooted returns the path to a device from its root, one without a name if none is known.
func rooted(device *topology.Node) []*topology.Node {
	path := device.Path()
	if path[0].Kind == topology.Root {
		return path
	}
	return slices.Insert(path, 0, &topology.Node{Kind: topology.Root, ID: topology.PCIeRoot("")})
}

// compareNodes orders nodes by ID, devices after bridges: Endpoint is the last kind.
func compareNodes(a, b *topology.Node) int {
	if a.Kind != b.Kind && (a.Kind == topology.Endpoint || b.Kind == topology.Endpoint) {
		return cmp.Compare(a.Kind, b.Kind)
	}
	return cmp.Compare(a.ID.String(), b.ID.String())
}

// AreAligned reports whether two trees have the same devices in each of their areas.
func AreAligned(host, guest Tree) bool {
	return slices.EqualFunc(host.Areas, guest.Areas, func(a, b Area) bool {
		return slices.Equal(a.Devices, b.Devices)
	})
}

// Label returns the name of a node, and a detail such as its address.
func (t Tree) Label(n *topology.Node) (name, detail string) {
	switch n.Kind {
	case topology.Root:
		return t.rootLabel(n)
	case topology.UpstreamPort:
		return "switch", t.address(n)
	case topology.Bridge:
		return "bridge", t.address(n)
	case topology.MDEVParent:
		return t.device(n.Children[0]).class().name, t.address(n)
	case topology.Endpoint:
		d := t.device(n)
		if d.Kind == topology.KindMDEV {
			return d.Title(), "mdev " + t.address(n)
		}
		return d.Title(), d.class().name + " " + t.address(n)
	}

	return t.address(n), ""
}

// Memory names the cells of the guest that are a device's own memory, "" for none.
func (t Tree) Memory(n *topology.Node) string {
	if cells := t.device(n).MemoryCells; cells != "" && t.Side == GuestSide {
		return "cells " + words.Abridge(cells)
	}
	return ""
}

func (t Tree) device(n *topology.Node) DeviceReport {
	return t.report.Devices[t.report.Number(n.ID)]
}

func (t Tree) rootLabel(n *topology.Node) (name, detail string) {
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

// address returns where a node is, as lspci shows it.
func (t Tree) address(n *topology.Node) string {
	switch id := n.ID.(type) {
	case topology.Address:
		return t.report.short(id)
	case topology.Index:
		return shortOr(t.report.controller(id).predicted, fmt.Sprintf("index %d", id))
	}

	d := t.device(n)
	switch {
	case t.Side == HostSide:
		return t.report.shortID(d.ID)
	case d.GuestAddress == nil:
		return "no address yet"
	}

	return shortOr(d.Predicted, "bus not known yet")
}

// Link returns the speed of a device's link: on the host the fastest that the device supports, in
// the guest the one that the emulated port above it advertises. "" if it is not known or the guest
// has no such port.
func (r Report) Link(side Side, d DeviceReport) string {
	if side == HostSide {
		return or(d.link, "")
	}

	n := r.guest.Node(d.ID)
	if n.Parent != nil && n.Parent.Kind == topology.MDEVParent {
		n = n.Parent
	}

	if n.Parent == nil || d.GuestAddress == nil || !n.Parent.Kind.IsPort() {
		return ""
	}

	return libvirt.NodeLink(r.plan.Domain(), n.Parent).String()
}
