// Package alloc does what libvirt does with a domain whose devices have no PCI addresses: it adds
// root ports and bridges, and gives every controller and device an address. It is written along
// libvirt's own stages, for machines with PCI Express (q35 and virt), and compared with real
// libvirts on random domains.
//
// libvirt goes through the devices twice (src/qemu/qemu_domain_address.c,
// qemuDomainAssignPCIAddresses). The first pass adds buses as devices need them, and forgets the
// addresses. The second pass, with a controller for each of these buses, gives the addresses. So a
// bridge that had a port of its own in the first pass takes the first free port in the second.
package alloc

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
)

// Version describes how a version of libvirt gives addresses, where versions differ.
type Version struct {
	Name string // the versions

	// AppendsControllers is true where controllers that libvirt adds get their addresses after all
	// others, else they get them by index (src/conf/domain_conf.c, virDomainDefAddController:
	// VIR_APPEND_ELEMENT_COPY in 9.0, virDomainControllerInsert in 11.3).
	AppendsControllers bool

	// AddsPortForBridge is true where a bridge to conventional PCI without an address, and
	// without a free port, gets a root port. Else the domain is refused (measured).
	AddsPortForBridge bool

	// PrefersVirtioSCSI is true where a SCSI controller without a model is virtio-scsi on aarch64's
	// virt, whatever QEMU has (measured).
	PrefersVirtioSCSI bool

	// CopiesSCSIModel is true where a SCSI controller that libvirt adds has the model of the
	// domain's first one (measured).
	CopiesSCSIModel bool
}

// The versions that differ.
var (
	Libvirt9  = Version{Name: "9.0", AppendsControllers: true}
	Libvirt11 = Version{Name: "11.3"}
	Libvirt12 = Version{
		Name: "12.8", AddsPortForBridge: true, PrefersVirtioSCSI: true, CopiesSCSIModel: true,
	}
)

// Versions are all of them.
var Versions = []Version{Libvirt11, Libvirt9, Libvirt12}

// Libvirt has the inputs of libvirt's answer beside the domain: its version, QEMU's build, and
// the host.
type Libvirt struct {
	Version

	// HasLSI is true where QEMU has the lsilogic SCSI controller, then libvirt's default model,
	// else that is virtio-scsi (src/qemu/qemu_postparse.c, qemuDomainGetSCSIControllerModel).
	// Debian's QEMU has it, that of CentOS, which virt-launcher has, does not.
	HasLSI bool

	// IsConventional reports whether a device of the host is a conventional PCI device, by its
	// config space (src/util/virpci.c, virPCIDeviceIsPCIExpress). Where it is nil none is.
	IsConventional func(topology.DeviceID) bool
}

// Completed is a domain with the addresses that libvirt gives.
type Completed struct {
	// Domain has an address in every controller but the root bus, and in every hostdev that the
	// guest sees. Controllers that libvirt adds are after the domain's own, by index.
	Domain *domain.Domain

	// Devices are the other devices, position by position, each with its address.
	Devices []libvirt.Endpoint
}

// Held returns the indexes of the buses that something is on.
func (l Completed) Held() map[int]bool {
	held := map[int]bool{}
	add := func(a *domain.GuestAddress) {
		if a != nil {
			held[a.Bus] = true
		}
	}

	for _, c := range l.Domain.Controllers {
		add(c.Address)
	}

	for _, h := range l.Domain.Hostdevs {
		add(h.Address)
	}

	for _, d := range l.Devices {
		add(d.Address)
	}

	return held
}

// Simulate returns the domain as libvirt completes it. Devices are those of libvirt.Endpoints. The
// error says why libvirt refuses the domain.
func Simulate(d *domain.Domain, devices []libvirt.Endpoint, m Libvirt) (Completed, error) {
	g, _, err := complete(d, devices, m)
	if err != nil {
		return Completed{}, err
	}

	return g.layout(), nil
}

// complete returns a guest in which everything has its address, and the addresses that are taken.
func complete(
	d *domain.Domain, devices []libvirt.Endpoint, m Libvirt,
) (*guest, *addresses, error) {
	g := newGuest(d, devices, m)

	a, err := g.pass(true)
	if err != nil {
		return nil, nil, err
	}

	if err := g.addControllers(a); err != nil {
		return nil, nil, err
	}

	if len(g.added) == 0 && g.isAddressed { // the second pass would reserve the same addresses
		return g, a, nil
	}

	// The second pass has the controllers that the first showed to be needed, and gives the addresses
	// that count.
	g.buses = len(a.buses)
	g.space = a.buses[:0]
	if a, err = g.pass(false); err != nil {
		return nil, nil, err
	}

	return g, a, nil
}

// pass reserves the addresses that devices have, and gives addresses to the others.
func (g *guest) pass(isDry bool) (*addresses, error) {
	a, err := g.collect(isDry)
	if err != nil {
		return nil, err
	}

	if libvirt.IsQ35(g.domain.Machine) {
		if err := g.assignChipset(a); err != nil {
			return nil, err
		}
	}

	return a, g.assign(a)
}

// addControllers adds a controller for each bus that the first pass has added, and for each missing
// index. A domain without PCI controllers that gets some keeps one port free for hotplug.
func (g *guest) addControllers(a *addresses) error {
	if g.buses == 1 && len(a.buses) > 1 {
		if _, err := a.next(express|autoAssign, anyFunction); err != nil {
			return err
		}
	}

	known := map[int]bool{0: true}
	for _, c := range g.controllers {
		known[c.index] = true
	}

	// The controllers take places of their own, which can add further buses.
	for index := 1; index < len(a.buses); index++ {
		if known[index] {
			continue
		}

		c := newController(domain.Controller{Index: index, Model: a.buses[index].model})
		g.added = append(g.added, &c)
		if _, err := a.next(c.flags, anyFunction); err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
	}

	for _, c := range g.added {
		if g.AppendsControllers {
			g.controllers = append(g.controllers, c)
		} else {
			g.controllers = insert(g.controllers, c)
		}
	}

	return nil
}

// layout returns what the second pass has given.
func (g *guest) layout() Completed {
	d := *g.domain
	d.Controllers = slices.Clone(d.Controllers)
	for i, c := range g.own {
		d.Controllers[i].Address = c.at
	}

	for _, c := range g.added {
		d.Controllers = append(d.Controllers, domain.Controller{
			Index: c.index, Model: c.model, Address: c.at,
		})
	}

	d.Hostdevs = slices.Clone(d.Hostdevs)
	for i, h := range g.hostdevs {
		d.Hostdevs[i].Address = h.at
	}

	devices := slices.Clone(g.source)
	for i, o := range g.devices {
		devices[i].Address = o.at
	}

	return Completed{Domain: &d, Devices: devices}
}
