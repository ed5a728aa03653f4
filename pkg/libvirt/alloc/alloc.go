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

// Simulate returns the guest as libvirt completes it: every controller but the root bus, every
// hostdev that the guest sees and every device has an address. Controllers that libvirt adds are
// after the domain's own, by index; all else keeps its position. The error says why libvirt refuses
// the domain.
func Simulate(given libvirt.Guest, m Libvirt) (libvirt.Guest, error) {
	sim, _, err := complete(given, m)
	if err != nil {
		return libvirt.Guest{}, err
	}

	return sim.completed(), nil
}

// complete returns a simulation in which everything has its address, and the addresses that are
// taken.
func complete(given libvirt.Guest, m Libvirt) (*simulation, *addresses, error) {
	sim := newSimulation(given, m)

	a, err := sim.pass(true)
	if err != nil {
		return nil, nil, err
	}

	if err := sim.addControllers(a); err != nil {
		return nil, nil, err
	}

	if len(sim.added) == 0 && sim.isAddressed { // the second pass would reserve the same addresses
		return sim, a, nil
	}

	// The second pass has the controllers that the first showed to be needed, and gives the addresses
	// that count.
	sim.buses = len(a.buses)
	sim.space = a.buses[:0]
	if a, err = sim.pass(false); err != nil {
		return nil, nil, err
	}

	return sim, a, nil
}

// pass reserves the addresses that devices have, and gives addresses to the others.
func (sim *simulation) pass(isFirst bool) (*addresses, error) {
	a, err := sim.collect(isFirst)
	if err != nil {
		return nil, err
	}

	if libvirt.IsQ35(sim.given.Machine) {
		if err := sim.assignChipset(a); err != nil {
			return nil, err
		}
	}

	return a, sim.assign(a)
}

// addControllers adds a controller for each bus that the first pass has added, and for each missing
// index. A domain without PCI controllers that gets some keeps one port free for hotplug.
func (sim *simulation) addControllers(a *addresses) error {
	if sim.buses == 1 && len(a.buses) > 1 {
		if _, err := a.next(express|autoAssign, anyFunction); err != nil {
			return err
		}
	}

	known := map[int]bool{0: true}
	for _, c := range sim.controllers {
		known[c.index] = true
	}

	// The controllers take places of their own, which can add further buses.
	for index := 1; index < len(a.buses); index++ {
		if known[index] {
			continue
		}

		c := newController(domain.Controller{Index: index, Model: a.buses[index].model})
		sim.added = append(sim.added, &c)
		if _, err := a.next(c.flags, anyFunction); err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
	}

	for _, c := range sim.added {
		if sim.AppendsControllers {
			sim.controllers = append(sim.controllers, c)
		} else {
			sim.controllers = insert(sim.controllers, c)
		}
	}

	return nil
}

// completed returns the guest with what the second pass has given.
func (sim *simulation) completed() libvirt.Guest {
	d := *sim.given.Domain
	d.Controllers = slices.Clone(d.Controllers)
	for i, c := range sim.own {
		d.Controllers[i].Address = c.at
	}

	for _, c := range sim.added {
		d.Controllers = append(d.Controllers, domain.Controller{
			Index: c.index, Model: c.model, Address: c.at,
		})
	}

	d.Hostdevs = slices.Clone(d.Hostdevs)
	for i, h := range sim.hostdevs {
		d.Hostdevs[i].Address = h.at
	}

	devices := slices.Clone(sim.given.Devices)
	for i, o := range sim.devices {
		devices[i].Address = o.at
	}

	return libvirt.Guest{Domain: &d, Devices: devices}
}
