package alloc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
)

// Move is a device that the guest sees elsewhere.
type Move struct {
	Device libvirt.Endpoint
	// From and To are slots and functions from a root bus down: "05.1/00.0"; under an expander bus
	// after its index: "pci.3/01.0/00.0".
	From, To string
}

// String names the device and its places.
func (m Move) String() string {
	return fmt.Sprintf("%s from %s to %s", nameOf(m.Device), m.From, m.To)
}

// nameOf names a device: its alias, else its element with what tells it from others.
func nameOf(d libvirt.Endpoint) string {
	words := strings.Fields(strings.Join([]string{d.Element, d.Type, d.Index, d.TargetDev}, " "))
	return cmp.Or(d.Alias, strings.Join(words, " "))
}

// Moves lists the devices that a guest sees elsewhere in the next layout, which has the same
// devices in the same order.
func (l Completed) Moves(next Completed) (moves []Move) {
	before, after := l.controllers(), next.controllers()
	for i, d := range l.Devices {
		at, then := d.Address, next.Devices[i].Address
		if at == nil && then == nil || at != nil && then != nil && at.Bus == 0 && then.Bus == 0 &&
			*at == *then {
			continue
		}

		from, to := slotsOf(at, before), slotsOf(then, after)
		if from != to {
			moves = append(moves, Move{d, from, to})
		}
	}

	return moves
}

// Replugs reports whether one of the hostdevs at these positions is elsewhere in the next layout,
// but for those in ports of the root bus itself.
func (l Completed) Replugs(next Completed, positions []int) bool {
	before, after := l.controllers(), next.controllers()
	for _, i := range positions {
		at, then := l.Domain.Hostdevs[i].Address, next.Domain.Hostdevs[i].Address
		if at == nil || then == nil {
			continue
		}

		isApart := before[at.Bus].Address != nil && before[at.Bus].Address.Bus != 0
		if isApart && slotsOf(at, before) != slotsOf(then, after) {
			return true
		}
	}

	return false
}

// controllers returns the controllers by index.
func (l Completed) controllers() map[int]domain.Controller {
	all := make(map[int]domain.Controller, len(l.Domain.Controllers))
	for _, c := range l.Domain.Controllers {
		all[c.Index] = c
	}
	return all
}

// slotsOf returns the slots and functions from a root bus down to an address, after the index of
// an expander bus; "" without an address.
func slotsOf(a *domain.GuestAddress, controllers map[int]domain.Controller) string {
	path := ""
	for range len(controllers) + 1 { // libvirt accepts a controller under itself
		if a == nil {
			break
		}

		at := fmt.Sprintf("%02x.%x", a.Slot, a.Function)
		if path != "" {
			at += "/"
		}

		path = at + path
		parent := controllers[a.Bus]
		if parent.Model == domain.ExpanderBus {
			return fmt.Sprintf("pci.%d/%s", a.Bus, path)
		}
		if a.Bus == 0 {
			break
		}

		a = parent.Address
	}

	return path
}

// Renumbered is a device in the same slot as before, whose bus has another number.
type Renumbered struct {
	Device   libvirt.Endpoint
	From, To int
}

// String names the device and its bus numbers.
func (r Renumbered) String() string {
	return fmt.Sprintf("%s from bus %02x to %02x", nameOf(r.Device), r.From, r.To)
}

// Renumbers lists the devices that have another bus number in the next layout, which has the same
// devices in the same order. isCounted selects devices.
func (l Completed) Renumbers(
	next Completed, isCounted func(libvirt.Endpoint) bool,
) (all []Renumbered) {
	before, after := l.busNumbers(), next.busNumbers()
	for i, d := range l.Devices {
		then := next.Devices[i].Address
		if d.Address == nil || then == nil || !isCounted(d) {
			continue
		}

		if from, to := before[d.Address.Bus], after[then.Bus]; from != to {
			all = append(all, Renumbered{d, from, to})
		}
	}

	return all
}

// busNumbers returns the bus numbers of the root bus, of expander buses and of the bridges under
// them, by index: firmware numbers depth first, by slot and function, an expander bus from its busNr.
func (l Completed) busNumbers() map[int]int {
	under := map[int][]domain.Controller{}
	for _, c := range l.Domain.Controllers {
		if c.Address != nil && c.Model != domain.ExpanderBus {
			under[c.Address.Bus] = append(under[c.Address.Bus], c)
		}
	}

	numbers, next, lowest := map[int]int{}, 0, 256
	var number func(index int)
	number = func(index int) {
		if _, isKnown := numbers[index]; isKnown { // libvirt accepts a controller under itself
			return
		}

		numbers[index] = next
		next++
		bridges := under[index]
		slices.SortFunc(bridges, func(x, y domain.Controller) int {
			return cmp.Or(cmp.Compare(x.Address.Slot, y.Address.Slot),
				cmp.Compare(x.Address.Function, y.Address.Function))
		})

		for _, c := range bridges {
			number(c.Index)
		}
	}

	number(0)

	// libvirt gives one without busNr the lowest less two (src/qemu/qemu_domain_address.c,
	// qemuDomainAddressFindNewBusNr).
	for _, c := range l.Domain.Controllers {
		if c.Model == domain.ExpanderBus && c.BusNr != nil {
			lowest = min(lowest, *c.BusNr)
		}
	}

	for _, c := range l.Domain.Controllers {
		switch {
		case c.Model != domain.ExpanderBus:
			continue
		case c.BusNr != nil:
			next = *c.BusNr
		default:
			lowest -= 2
			next = lowest
		}

		number(c.Index)
	}

	return numbers
}
