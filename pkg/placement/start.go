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
	without    []without        // the hook, with each libvirt

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

// after returns the guest with changes. In it nothing is reserved: it has the ports for which room was.
func (s start) after(changes domain.Changes) bus.Guest {
	return s.current.After(s.Domain.After(changes))
}

// completed returns the start in which the domain's controllers have the addresses and bus numbers
// that libvirt gives them without the hook. It is false where they have them, libvirt refuses the
// domain, or puts one under a controller that QEMU makes later.
func (s start) completed() (start, bool) {
	if len(s.without) == 0 {
		return s, false
	}

	given := s.without[0].guest
	first := libvirt.FirstBusNumbers(given.Domain)
	open := map[int]domain.Completion{}
	for i, c := range s.Domain.Controllers {
		more := domain.Completion{}
		if at := given.Controllers[i].Address; c.Address == nil && at != nil {
			if at.Bus >= c.Index { // QEMU does not start
				return s, false
			}
			more.Address = at
		}

		if c.Model == domain.ExpanderBus && c.BusNr == nil {
			more.BusNr = new(first[c.Index])
		}

		if more != (domain.Completion{}) {
			open[c.Index] = more
		}
	}

	s.base.Complete = open
	s.current = s.after(domain.Changes{Complete: open}).Settled()
	return s, len(open) > 0
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
