package bus

import (
	"iter"
	"maps"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/pkg/topology"
)

// Completed returns the guest as libvirt completes it, with an address in every controller and
// device. It is false where libvirt refuses the domain.
func (g Guest) Completed() (libvirt.Guest, bool) {
	whole, err := g.completed()
	return whole, err == nil
}

// WithVersion returns the guest with a version of libvirt.
func (g Guest) WithVersion(v alloc.Version) Guest {
	if v == g.Libvirt.Version {
		return g
	}

	m := g.Libvirt
	m.Version = v
	return g.by(m)
}

// Libvirts returns what libvirt's answer may depend on. The first is the one that Completed asks.
// Versions differ where a controller's index is missing, where libvirt adds a controller, and
// where a bridge has no address; QEMU's builds where the domain leaves the model of a SCSI
// controller to them.
func (g Guest) Libvirts() []alloc.Libvirt {
	hasLSI := []bool{g.Libvirt.HasLSI}
	if slices.ContainsFunc(g.Given.Devices, func(d libvirt.Endpoint) bool {
		return d.Connect == libvirt.EitherWay
	}) {
		hasLSI = append(hasLSI, !g.Libvirt.HasLSI)
	}

	isOpen := func(c domain.Controller) bool {
		return c.Address == nil && c.Model == domain.PCIeToPCIBridge
	}

	// Only these three make the versions differ. Without them one simulation answers for all.
	versions := []alloc.Version{g.Libvirt.Version}
	if len(g.Given.Holes()) > 0 ||
		slices.ContainsFunc(g.Given.Devices, isAddedController) ||
		slices.ContainsFunc(g.Given.Controllers, isOpen) {
		for _, version := range alloc.Versions {
			if version != g.Libvirt.Version {
				versions = append(versions, version)
			}
		}
	}

	var all []alloc.Libvirt
	for _, version := range versions {
		for _, lsi := range hasLSI {
			all = append(all, alloc.Libvirt{
				Version: version, HasLSI: lsi, IsConventional: g.Libvirt.IsConventional,
			})
		}
	}

	return all
}

func isAddedController(d libvirt.Endpoint) bool { return d.Implicit && d.Element == "controller" }

// CompletedBy returns the guest as one of Libvirts completes it. The error says why it refuses the
// domain.
func (g Guest) CompletedBy(m alloc.Libvirt) (libvirt.Guest, error) {
	if m.Version == g.Libvirt.Version && m.HasLSI == g.Libvirt.HasLSI {
		return g.completed()
	}
	return alloc.Simulate(g.Given, m)
}

// wholes yields what each libvirt makes of the guest, with an address in every controller and device,
// the guest's own libvirt first. Where all refuse it, or other rules than alloc's hold, it yields the
// guest as it is.
func (g Guest) wholes() iter.Seq[Guest] {
	return func(yield func(Guest) bool) {
		versions := g.Libvirts()
		if !libvirt.HasExpanderBuses(g.Given.Domain) {
			versions = nil
		}

		isAccepted := false
		for _, m := range versions {
			whole, err := g.CompletedBy(m)
			if err != nil {
				continue
			}
			if isAccepted = true; !yield(New(whole, m)) {
				return
			}
		}

		if !isAccepted {
			yield(g)
		}
	}
}

// Whole returns the tree of the guest as libvirt completes it, in which every device is in its port;
// the guest's own where libvirt refuses the domain, or other rules than alloc's hold.
func (g Guest) Whole() *topology.Tree {
	for whole := range g.wholes() {
		return whole.Tree
	}
	return nil // wholes yields one at least
}

// isOpen reports whether libvirt gives a device an address.
func isOpen(o libvirt.Endpoint) bool { return o.Address == nil && o.Connect != libvirt.NotPCI }

func isOpenHostdev(h domain.Hostdev) bool { return h.Address == nil && !h.Unassigned }

// openPorts returns the indexes of the ports with nothing under them, and of the bridges without
// an address that take the first of these: libvirt adds none for them.
func (g Guest) openPorts() (ports, bridges []int) {
	for _, c := range g.Controllers {
		switch n := g.Node(c.Index); {
		case n.Kind.IsPort() && len(n.Children) == 0:
			ports = append(ports, c.Index)
		case c.Address == nil && isBridge(c):
			bridges = append(bridges, c.Index)
		}
	}

	slices.Sort(ports)
	return ports, bridges
}

// isBridge reports whether a controller without an address takes a port.
func isBridge(c domain.Controller) bool {
	return c.Model == domain.PCIeToPCIBridge || c.Model == domain.UpstreamPort
}

// isFree reports whether the guest has a port of an index, with nothing under it.
func (g Guest) isFree(index int) bool {
	n := g.Node(index)
	return n != nil && n.Kind.IsPort() && len(n.Children) == 0
}

// Settled returns the guest after libvirt has put downstream ports without an address into
// switches, and has plugged unaddressed devices into free ports under expander buses or switches.
// All others go to root ports of the root bus. Given has none of it.
func (g Guest) Settled() Guest {
	// Only what is apart from the root bus changes path types. Without a free port there, or a switch
	// that gets ports, nothing is.
	isLoose := func(c domain.Controller) bool {
		return c.Address == nil && c.Model == domain.DownstreamPort
	}

	ports, _ := g.openPorts()
	if !slices.ContainsFunc(ports, g.isApart) && !slices.ContainsFunc(g.Given.Controllers, isLoose) {
		return g
	}

	whole, isAccepted := g.Completed()
	if !isAccepted {
		return g
	}

	d := *g.Given.Domain
	d.Hostdevs, d.Controllers = slices.Clone(d.Hostdevs), slices.Clone(d.Controllers)
	plugged := libvirt.Guest{Domain: &d, Devices: slices.Clone(g.Devices)}

	// Downstream ports come first, since something may be plugged into them.
	for i, c := range d.Controllers {
		if isLoose(c) {
			d.Controllers[i].Address = whole.Domain.Controllers[i].Address
		}
	}

	// libvirt takes free ports by index. All plugs up to the last one that is apart are settled, not
	// that one alone: the ports before it have to be taken, or libvirt would choose one of them.
	switched := g.as(plugged)
	plugs := switched.plugs(whole)
	last := 0
	for _, p := range plugs {
		if switched.isApart(p.at.Bus) {
			last = max(last, p.at.Bus)
		}
	}

	var bridges []domain.GuestAddress // of those that libvirt adds
	for _, p := range plugs {
		if p.at.Bus > last {
			continue
		}

		switch {
		case p.other != none:
			plugged.Devices[p.other].Address = &p.at
		case p.hostdev != none:
			d.Hostdevs[p.hostdev].Address = &p.at
		case p.bridge != none:
			d.Controllers[p.bridge].Address = &p.at
		default:
			bridges = append(bridges, p.at)
		}
	}

	// Bridges that libvirt adds are not in the domain, so that only the tree gets them.
	settled := g.as(plugged)
	for _, at := range bridges { // each takes a bus number, and no index here
		settled.Tree.Add(settled.Node(at.Bus),
			topology.Node{Kind: topology.Bridge, Slot: at.Slot, Function: at.Function})
	}

	return settled
}

// as returns the guest with the tree of another one, in which more devices have addresses. Given is
// not changed: the hook rewrites it, and libvirt completes it.
func (g Guest) as(other libvirt.Guest) Guest { return g.seen(other, other.Holes()) }

// plug describes one use of a free port: libvirt plugs in a device, a hostdev, a bridge of the
// domain, or else a bridge that it adds.
type plug struct {
	at                     domain.GuestAddress
	other, hostdev, bridge int // positions, or none
}

const none = -1

// plugs returns what takes free ports of the guest when libvirt completes it: devices that come
// before hostdevs, hostdevs, and bridges without an address, those that libvirt adds included.
func (g Guest) plugs(whole libvirt.Guest) (plugs []plug) {
	add := func(at *domain.GuestAddress, other, hostdev, bridge int) {
		if at != nil && g.isFree(at.Bus) {
			plugs = append(plugs, plug{*at, other, hostdev, bridge})
		}
	}

	for i, o := range g.Devices {
		if alloc.IsBeforeHostdevs(o) && o.Address == nil {
			add(whole.Devices[i].Address, i, none, none)
		}
	}

	for i, h := range g.Given.Hostdevs {
		if h.Address == nil {
			add(whole.Domain.Hostdevs[i].Address, none, i, none)
		}
	}

	for i, c := range whole.Domain.Controllers {
		switch {
		case !isBridge(c):
		case i >= len(g.Given.Controllers):
			add(c.Address, none, none, none)
		case g.Given.Controllers[i].Address == nil:
			add(c.Address, none, none, i)
		}
	}

	return plugs
}

// isApart reports whether a port is not on the root bus itself, where all path types are PHB.
func (g Guest) isApart(index int) bool { return g.Node(index).Parent != g.Root() }

// MustStay reports whether a device must keep its address: Windows takes a moved disk offline, and
// a NIC's name comes from its address. Balloon, rng and others may move.
func MustStay(d libvirt.Endpoint) bool {
	return slices.Contains([]string{"disk", "interface", "filesystem", "controller"}, d.Element)
}

// OpenPorts returns ports under the root bus that nothing in the domain names, with the addresses
// that libvirt gives them, by index. Needed are the root ports that devices and bridges without an
// address take, left the ports before the last of these that hold leaving devices only.
func (g Guest) OpenPorts(leaving Devices) (needed, left []domain.Controller) {
	whole, isAccepted := g.Completed()
	if !isAccepted {
		return nil, nil
	}

	// libvirt takes free ports by index, so no device that leaves may leave a free port before the last
	// one that something takes.
	isTaken := g.taken(whole, leaving)
	last := slices.Max(slices.Collect(maps.Keys(isTaken)))
	for _, c := range g.Addressed() {
		n := g.Node(c.Index)
		isPort := c.Model == domain.RootPort || c.Model == domain.DownstreamPort
		switch {
		case !isPort || slices.Contains(g.References, c.Index):
		case isTaken[c.Index]:
			if c.Address != nil && c.Address.Bus == 0 && (n == nil || len(n.Children) == 0) {
				needed = append(needed, c)
			}
		case c.Index < last && n != nil && n.Top() == g.Root() && leaving.HaveAll(n):
			left = append(left, c)
		}
	}

	return needed, left
}

// taken returns the indexes of the buses on which libvirt puts what has no address and has to stay:
// devices, bridges, and hostdevs that are not on the root bus's own ports. Index 0, the root bus,
// is always among them.
func (g Guest) taken(whole libvirt.Guest, leaving Devices) map[int]bool {
	// Positions in the guest are those in libvirt's answer, which appends what it adds.
	all := map[int]bool{0: true}
	for i, o := range g.Given.Devices {
		if at := whole.Devices[i].Address; o.Address == nil && at != nil && MustStay(o) {
			all[at.Bus] = true
		}
	}

	for i, h := range g.Given.Hostdevs {
		at := whole.Domain.Hostdevs[i].Address
		if h.Address == nil && at != nil && !leaving[h.ID] && g.Node(at.Bus) != nil &&
			g.isApart(at.Bus) {
			all[at.Bus] = true
		}
	}

	for i, c := range whole.Domain.Controllers {
		isGiven := i < len(g.Given.Controllers) && g.Given.Controllers[i].Address != nil
		if isBridge(c) && !isGiven && c.Address != nil {
			all[c.Address.Bus] = true
		}
	}

	return all
}

// Addressed returns the controllers by index, those that libvirt adds included, each with the
// address that it has or gets.
func (g Guest) Addressed() []domain.Controller {
	all := slices.Clone(g.Controllers)
	if whole, isAccepted := g.Completed(); isAccepted {
		all = slices.Clone(whole.Domain.Controllers)
	}

	slices.SortFunc(all, func(x, y domain.Controller) int { return x.Index - y.Index })
	return all
}
