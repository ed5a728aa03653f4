package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/reasons"
)

// unclearArguments returns the arguments of QEMU that may take a place which the hook would give
// away.
func unclearArguments(d *domain.Domain) (violations []reasons.Finding) {
	for _, text := range d.CommandLine.Unclear {
		violations = append(violations, bus.Violated("qemu:commandline has %s", text))
	}
	return violations
}

// checkBeside returns the rule that a placing violates if with it QEMU would not start: libvirt
// puts something into a slot that a device of qemu:commandline has, or a root port that is still
// to come gets a chassis that is in use. What is so without the hook does not count.
func checkBeside(s start, next placing) []reasons.Finding {
	for _, w := range s.without {
		if len(s.Domain.CommandLine.Devices) == 0 {
			break
		}

		guest, err := next.result.CompletedBy(w.libvirt)
		if err != nil {
			continue // checkUnmoved or faultsOf reports it
		}

		before := slotsInUse(w.guest)
		for _, slot := range slotsInUse(guest) {
			a := s.current.ArgumentAt(slot)
			if a != nil && !slices.Contains(before, slot) {
				return []reasons.Finding{
					bus.Violated("libvirt %s would put a device into slot %#02x of the root bus, "+
						"which %s of qemu:commandline takes", w.libvirt.Name, slot, a),
				}
			}
		}
	}

	// A root port has its index as chassis unless it says another, so ports that libvirt and KubeVirt
	// add later are known by their index.
	taken := chassisOf(s.Domain)
	before := s.current.Coming(s.ports)
	for _, index := range next.result.Coming(next.ports) {
		if slices.Contains(taken, index) && !slices.Contains(before, index) {
			return []reasons.Finding{
				bus.Violated("a root port that is still to come would get the index %d, and so the "+
					"chassis %d, which the domain has already", index, index),
			}
		}
	}

	return nil
}

// slotsInUse returns the slots of the root bus that have something.
func slotsInUse(g libvirt.Guest) (slots []int) {
	for a := range g.Addresses() {
		if a.Bus == 0 && !slices.Contains(slots, a.Slot) {
			slots = append(slots, a.Slot)
		}
	}

	return slots
}

// chassisOf returns the chassis that are not those of an index: of a domain's ports, and of
// qemu:commandline. QEMU refuses a second port with one (hw/pci/pcie_port.c,
// pcie_chassis_add_slot).
func chassisOf(d *domain.Domain) (taken []int) {
	for _, c := range d.Controllers {
		if c.Chassis != nil && *c.Chassis != c.Index {
			taken = append(taken, *c.Chassis)
		}
	}

	for _, a := range d.CommandLine.Devices {
		if a.Chassis != nil {
			taken = append(taken, *a.Chassis)
		}
	}

	return taken
}

// withChassis gives each port whose chassis would be one of another port's a chassis of its own,
// where the hook has placed devices: those that it adds, and those that have lost theirs between
// the calls of a boot (KubeVirt 1.9.0, virtwrap/api/schema.go, ControllerTarget).
func withChassis(s start, placed placing) placing {
	if len(placed.managed) == 0 {
		return placed
	}

	taken := chassisOf(s.Domain.After(placed.changes))
	if len(taken) == 0 {
		return placed
	}

	inUse := slices.Clone(taken)
	for _, c := range placed.result.Controllers {
		inUse = append(inUse, c.Index)
	}

	// Indexes that are still to come are the lowest.
	next := libvirt.MaxIndex
	chassis := func(c domain.Controller) *int {
		isPort := c.Model == domain.RootPort || c.Model == domain.DownstreamPort
		if !isPort || c.Chassis != nil || !slices.Contains(taken, c.Index) {
			return nil
		}

		for next > 0 && slices.Contains(inUse, next) {
			next--
		}

		inUse = append(inUse, next)
		return new(next)
	}

	placed.changes.Chassis = map[int]int{}
	for _, c := range s.Domain.Controllers {
		if slices.Contains(placed.changes.RemoveControllers, c.Index) {
			continue
		}

		if to := chassis(c); to != nil {
			placed.changes.Chassis[c.Index] = *to
		}
	}

	placed.changes.AddControllers = slices.Clone(placed.changes.AddControllers)
	for i, c := range placed.changes.AddControllers {
		if to := chassis(c); to != nil {
			placed.changes.AddControllers[i].Chassis = to
		}
	}

	placed.result = s.after(placed.changes)
	return placed
}
