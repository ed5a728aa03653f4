package placement

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// machines returns what libvirt's answer may depend on. The first is the one that bus.Guest asks.
// Versions differ where a controller's index is missing, where libvirt adds a controller, and
// where a bridge has no address; QEMU's builds where the domain leaves the model of a SCSI
// controller to them.
func machines(
	d *domain.Domain, devices []libvirt.Device, isConventional func(topology.DeviceID) bool,
) []alloc.Machine {
	hasLSI := []bool{false}
	if slices.ContainsFunc(devices, func(d libvirt.Device) bool {
		return d.Connect == libvirt.EitherWay
	}) {
		hasLSI = []bool{false, true}
	}

	isOpen := func(c domain.Controller) bool {
		return c.Address == nil && c.Model == domain.PCIeToPCIBridge
	}

	versions := []alloc.Version{alloc.Libvirt11}
	if len(libvirt.Holes(d, devices)) > 0 ||
		slices.ContainsFunc(devices, isAddedController) ||
		slices.ContainsFunc(d.Controllers, isOpen) {
		versions = append(versions, alloc.Libvirt9, alloc.Libvirt12)
	}

	var all []alloc.Machine
	for _, version := range versions {
		for _, lsi := range hasLSI {
			all = append(all, alloc.Machine{
				Version: version, HasLSI: lsi, IsConventional: isConventional,
			})
		}
	}

	return all
}

func isAddedController(d libvirt.Device) bool { return d.Implicit && d.Element == "controller" }

// without is the domain as one libvirt completes it without the hook.
type without struct {
	machine alloc.Machine
	layout  alloc.Layout
	devices []libvirt.Device // that libvirt completes
}

// withoutHook returns what each libvirt makes of the domain as it came; none where it refuses it.
func withoutHook(
	d *domain.Domain, devices []libvirt.Device, isConventional func(topology.DeviceID) bool,
) (all []without) {
	for _, m := range machines(d, devices, isConventional) {
		if layout, err := alloc.Simulate(d, devices, m); err == nil {
			all = append(all, without{m, layout, devices})
		}
	}
	return all
}

// staying are the elements of devices that must not move: Windows takes a moved disk offline, and a
// NIC's name comes from its address. Balloon, rng and others may.
var staying = []string{"disk", "interface", "filesystem", "controller"}

// checkUnmoved returns the rule that a changed guest violates if libvirt 11 or 12, which
// virt-launcher has, puts a device that must stay elsewhere than without the hook, or refuses the
// domain.
func checkUnmoved(all []without, changed bus.Guest) []reasons.Warning {
	for _, w := range all {
		if w.machine.Version == alloc.Libvirt9 {
			continue
		}
		if why := w.moves(changed); why != "" {
			return []reasons.Warning{bus.Violated("libvirt %s would %s", w.machine.Name, why)}
		}
	}

	return nil
}

// isUnmovedAlways reports whether also libvirt 9.0 leaves devices where they are, and all keep
// their bus numbers. Where indexes are missing, and beside ports and expander buses of the user,
// that cannot always be helped.
func isUnmovedAlways(all []without, changed bus.Guest) bool {
	for _, w := range all {
		if w.machine.Version == alloc.Libvirt9 && w.moves(changed) != "" {
			return false
		}
	}
	return len(all) == 0 || !all[0].renumbers(changed)
}

// moves says what a libvirt would do with a changed guest that it does not without the hook; "" for
// nothing.
func (w without) moves(changed bus.Guest) string {
	next, isKnown := changed.Layout()
	isAsked := w.machine.Version == alloc.Libvirt11 && !w.machine.HasLSI &&
		len(next.Devices) == len(w.devices)
	if !isKnown || !isAsked { // of another libvirt, or something is reserved
		var err error
		if next, err = alloc.Simulate(changed.Source, w.devices, w.machine); err != nil {
			return fmt.Sprintf("refuse the domain: %v", err)
		}
	}

	for _, move := range w.layout.Moves(next) {
		if slices.Contains(staying, move.Device.Element) {
			return "move " + move.String()
		}
	}

	return ""
}

// renumbers reports whether a device that must stay has another bus number in a changed guest.
func (w without) renumbers(changed bus.Guest) bool {
	next, isAccepted := changed.Layout()
	if !isAccepted {
		return false
	}

	isStaying := func(d libvirt.Device) bool { return slices.Contains(staying, d.Element) }
	return w.layout.Renumbers(next, isStaying)
}
