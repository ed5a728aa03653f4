package bus

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
)

// openPorts are the indexes of the ports with nothing under them, and of the bridges without
// an address that take the first of these: libvirt adds none for them.
func (g Guest) openPorts() (ports, bridges []int) {
	for _, c := range g.Controllers {
		switch n := g.Node(c.Index); {
		case n.Kind.IsPort() && len(n.Children) == 0:
			ports = append(ports, c.Index)
		case c.Address == nil && (c.Model == domain.PCIeToPCIBridge || c.Model == domain.UpstreamPort):
			bridges = append(bridges, c.Index)
		}
	}
	slices.Sort(ports)
	return ports, bridges
}

// freePorts are the indexes of the ports that devices without an address find free.
func (g Guest) freePorts() []int {
	ports, bridges := g.openPorts()
	taken := len(bridges)
	if libvirt.LacksBridge(g.Others) {
		taken++
	}
	return ports[min(taken, len(ports)):]
}

// Settled is the guest in which the devices without an address that libvirt plugs into free
// ports under expander buses or switches, and those before them, are there. All others go to root
// ports of the root bus. Source has none of it.
func (g Guest) Settled() Guest {
	ports := g.freePorts()
	if !slices.ContainsFunc(ports, g.isApart) {
		return g
	}
	d, others := *g.Source, slices.Clone(g.Others)
	d.Hostdevs = slices.Clone(d.Hostdevs)
	var waiting []**domain.GuestAddress
	for i := range others {
		if others[i].IsBeforeHostdevs() && others[i].Address == nil {
			waiting = append(waiting, &others[i].Address)
		}
	}
	for i, h := range d.Hostdevs {
		if h.Address == nil && !h.Unassigned {
			waiting = append(waiting, &d.Hostdevs[i].Address)
		}
	}
	count := 0
	for i := range min(len(waiting), len(ports)) {
		if g.isApart(ports[i]) {
			count = i + 1
		}
	}
	for i, address := range waiting[:count] {
		*address = &domain.GuestAddress{Bus: ports[i]}
	}
	settled := New(&d, others)
	settled.Source, settled.plugged = g.Source, ports[:count]
	return settled
}

// isApart reports whether a port is not on the root bus itself, where all path types are PHB.
func (g Guest) isApart(index int) bool { return g.Node(index).Parent != g.Root() }

// LastPlugged is the highest index of a port in which Settled has a device that stays.
func (g Guest) LastPlugged(leaving Devices) int {
	for _, index := range slices.Backward(g.plugged) {
		if leaving.OthersUnder(g.Node(index)) {
			return index
		}
	}
	return 0
}

// AwaitedPorts are the root ports that libvirt adds for the devices without an address that come
// before hostdevs, with their addresses, and the highest index that these devices, and bridges
// without an address, take.
func (g Guest) AwaitedPorts() (added []domain.Controller, last int) {
	count := topology.CountFunc(g.Others, func(o libvirt.Device) bool { return o.IsBeforeHostdevs() && o.Address == nil })
	open, _ := g.openPorts()
	free := g.freePorts()
	if count <= len(free) {
		taken := open[:len(open)-len(free)+count]
		return nil, slices.Max(append([]int{0}, taken...))
	}
	added = g.RootPorts(g.AddedPorts())
	return added[:min(len(added), count-len(free))], libvirt.MaxIndex
}
