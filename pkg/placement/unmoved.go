package placement

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/reasons"
)

// libvirts returns what libvirt's answer may depend on. The first is the one that bus.Guest asks.
// Versions differ where a controller's index is missing, where libvirt adds a controller, and
// where a bridge has no address; QEMU's builds where the domain leaves the model of a SCSI
// controller to them.
func libvirts(g bus.Guest) []alloc.Libvirt {
	d, devices := g.Source, g.Others
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

func isAddedController(d libvirt.Device) bool { return d.Implicit && d.Element == "controller" }

// without is the domain as one libvirt completes it without the hook.
type without struct {
	libvirt alloc.Libvirt
	layout  alloc.Completed
	devices []libvirt.Device // that libvirt completes
}

// withoutHook returns what each libvirt makes of the guest as it came; none where it refuses it.
func withoutHook(asIs bus.Guest) (all []without) {
	for _, m := range libvirts(asIs) {
		if layout, err := simulate(asIs, asIs.Others, m); err == nil {
			all = append(all, without{m, layout, asIs.Others})
		}
	}
	return all
}

// simulate returns what a libvirt makes of a guest with these devices. The guest knows the answer
// of its own libvirt, unless room is reserved in it.
func simulate(g bus.Guest, devices []libvirt.Device, m alloc.Libvirt) (alloc.Completed, error) {
	isOwn := m.Version == g.Libvirt.Version && m.HasLSI == g.Libvirt.HasLSI
	if isOwn && len(g.Others) == len(devices) {
		if known, isAccepted := g.Layout(); isAccepted {
			return known, nil
		}
	}

	return alloc.Simulate(g.Source, devices, m)
}

// staying are the elements of devices that must not move: Windows takes a moved disk offline, and a
// NIC's name comes from its address. Balloon, rng and others may.
var staying = []string{"disk", "interface", "filesystem", "controller"}

// checkUnmoved returns the rule that a changed guest violates if libvirt 11 or 12, which
// virt-launcher has, puts a device that must stay elsewhere than without the hook, or refuses the
// domain.
func checkUnmoved(all []without, changed bus.Guest) []reasons.Warning {
	for _, w := range all {
		if w.libvirt.Version == alloc.Libvirt9 {
			continue
		}
		if why := w.moves(changed); why != "" {
			return []reasons.Warning{bus.Violated("libvirt %s would %s", w.libvirt.Name, why)}
		}
	}

	return nil
}

// isUnmovedAlways reports whether also libvirt 9.0 leaves devices where they are, and all keep
// their bus numbers. Where indexes are missing, and beside ports and expander buses of the user,
// that cannot always be helped.
func isUnmovedAlways(all []without, changed bus.Guest) bool {
	for _, w := range all {
		if w.libvirt.Version == alloc.Libvirt9 && w.moves(changed) != "" {
			return false
		}
	}
	return len(all) == 0 || !all[0].renumbers(changed)
}

// moves says what a libvirt would do with a changed guest that it does not without the hook; "" for
// nothing.
func (w without) moves(changed bus.Guest) string {
	next, err := simulate(changed, w.devices, w.libvirt)
	if err != nil {
		return fmt.Sprintf("refuse the domain: %v", err)
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
