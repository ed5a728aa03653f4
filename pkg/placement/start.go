package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/placement/cells"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// start is the common input of all layouts.
type start struct {
	Input
	current    bus.Guest           // of the domain as it came
	devices    []PassthroughDevice // by id
	ids        []topology.DeviceID
	cells      cells.Map
	hostTree   *topology.Tree
	hostPlaces []*topology.Node // of the devices in hostTree
	base       domain.Changes   // made in any case
	ports      bus.Ports        // to reserve for hotplug
	without    []without        // what each libvirt makes of the domain without the hook

	// the companions of a whole AMD GPU share a root port, since one for each fits in no layout
	companionsShare bool
}

func newStart(in Input) (start, []reasons.Finding) {
	devices, added, warnings := inventory(in)
	guestCells, unread := cells.Read(in.Domain, in.Host)
	asIs := guestAsIs(in)
	s := start{
		Input: in, current: reserveNamed(asIs).Settled(), devices: devices,
		cells: guestCells, without: withoutHook(asIs),
		base: domain.Changes{
			SetMode:         withoutMode(in.Domain),
			AddHostdevs:     added,
			RenameSSIDSizes: in.Domain.SSIDSizes() > 0,
		},
	}

	s.ports = portsOf(in, s.current, devices)
	for _, d := range devices {
		s.ids = append(s.ids, d.ID)
	}

	s.hostTree = in.Host.Tree(s.ids)
	s.hostPlaces = s.hostTree.Devices(s.ids)
	return s, append(warnings, unread...)
}

// after returns the guest with changes, as the next call reads it. In it nothing is reserved: it has
// the ports for which room was.
func (s start) after(changes domain.Changes) bus.Guest {
	return bus.New(libvirt.NewGuest(s.Domain.After(changes)), s.current.Libvirt)
}

// completed returns the start of the call after one that moves nothing: what must stay has the
// addresses and bus numbers that libvirt gives it without the hook, and the PCI controllers that
// libvirt adds are there. The second result is false if nothing lacks an address, if libvirt refuses
// the domain, or if a controller is on a bus with a higher index: QEMU makes controllers by index,
// and does not start that.
func (s start) completed() (start, bool) {
	if len(s.without) == 0 {
		return s, false
	}

	whole := s.without[0].guest
	for _, c := range whole.Controllers {
		if c.Address != nil && c.Address.Bus >= c.Index {
			return s, false
		}
	}

	s.base.Complete = completions(s.current.Given, whole)
	s.base.AddControllers = whole.Controllers[len(s.Domain.Controllers):]
	s.current = s.after(domain.Changes{
		Complete: s.base.Complete, AddControllers: s.base.AddControllers,
	}).Settled()

	// A hostdev is where it is plugged in, as the next call finds it.
	s.devices = slices.Clone(s.devices)
	for i, d := range s.devices {
		if h := s.current.Hostdev(d.ID); h != nil {
			s.devices[i].current = h.Address
		}
	}

	return s, len(s.base.Complete)+len(s.base.AddControllers) > 0
}

// completions returns what controllers, hostdevs and devices that must stay lack of an address and a
// bus number. Whole is the given guest as libvirt completes it, which appends what it adds.
func completions(given, whole libvirt.Guest) map[domain.Entry]domain.Completion {
	open := map[domain.Entry]domain.Completion{}
	complete := func(e domain.Entry, has, gets *domain.GuestAddress) {
		if has == nil && gets != nil {
			open[e] = domain.Completion{Address: gets}
		}
	}

	first := libvirt.FirstBusNumbers(whole.Domain)
	for i, c := range given.Controllers {
		complete(c.Entry(), c.Address, whole.Controllers[i].Address)
		if c.Model == domain.ExpanderBus && c.BusNr == nil {
			more := open[c.Entry()]
			more.BusNr = new(first[c.Index])
			open[c.Entry()] = more
		}
	}

	for i, h := range given.Hostdevs {
		complete(h.Entry(), h.Address, whole.Hostdevs[i].Address)
	}

	for i, d := range given.Devices {
		if !d.Implicit && bus.MustStay(d) {
			complete(d.Entry(), d.Address, whole.Devices[i].Address)
		}
	}

	return open
}

// withoutMode returns the PCI hostdevs without a mode. KubeVirt writes none, and
// its own plugin pipeline and libvirtxml then fail (libvirtxml domain.go,
// DomainHostdev.UnmarshalXML).
func withoutMode(d *domain.Domain) (ids []topology.DeviceID) {
	for _, h := range d.Hostdevs {
		if h.ID.Kind() == topology.KindPCI && !h.HasMode {
			ids = append(ids, h.ID)
		}
	}

	return ids
}

// guestAsIs returns the guest of the domain as it came.
func guestAsIs(in Input) bus.Guest {
	return bus.New(libvirt.NewGuest(in.Domain), alloc.Libvirt{
		Version: alloc.Libvirt11, IsConventional: in.isConventional,
	})
}

// isConventional reports whether libvirt takes a device of the host for conventional PCI.
func (in Input) isConventional(id topology.DeviceID) bool {
	return hostDevice(in.Host, id).isConventional()
}

// reserveNamed marks controller indexes that iommu, qemu:override or qemu:commandline refer to as
// occupied, if libvirt will make these controllers: up to the last root port that it adds.
func reserveNamed(g bus.Guest) bus.Guest {
	missing := slices.DeleteFunc(slices.Clone(g.References), func(index int) bool {
		return g.Node(index) != nil
	})
	if len(missing) == 0 {
		return g
	}

	last := g.HighestIndex()
	if whole, isAccepted := g.Completed(); isAccepted {
		last = max(last, libvirt.Guest{Domain: whole.Domain}.HighestIndex())
	}

	var named []domain.GuestAddress
	for _, index := range missing {
		if index <= last {
			named = append(named, domain.GuestAddress{Bus: index})
		}
	}

	return g.Reserving(named)
}
