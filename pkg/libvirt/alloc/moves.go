package alloc

import (
	"cmp"
	"fmt"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
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

// Moves lists the devices that are elsewhere in the next of two completed guests, which have the
// same devices in the same order.
func Moves(guest, next libvirt.Guest) (moves []Move) {
	before, after := controllers(guest), controllers(next)
	for i, d := range guest.Devices {
		at, then := d.Address, next.Devices[i].Address
		// Most devices stay on the root bus where they were: no path has to be compared for them.
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

// Replugs reports whether one of these hostdevs is elsewhere in the next of two
// completed guests, but for those in ports of the root bus itself.
func Replugs(guest, next libvirt.Guest, ids []topology.DeviceID) bool {
	before, after := controllers(guest), controllers(next)
	for _, id := range ids {
		at, then := guest.Hostdev(id).Address, next.Hostdev(id).Address
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
func controllers(g libvirt.Guest) map[int]domain.Controller {
	all := make(map[int]domain.Controller, len(g.Controllers))
	for _, c := range g.Controllers {
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

		// From the device up, so each step goes before those that are there. An expander bus
		// is told by its index, wherever it is, so the path ends there.
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

// Renumbers lists the devices that have another bus number in the next of two completed guests,
// which have the same devices in the same order. isCounted selects devices.
func Renumbers(
	guest, next libvirt.Guest, isCounted func(libvirt.Endpoint) bool,
) (all []Renumbered) {
	before, after := busNumbers(guest), busNumbers(next)
	for i, d := range guest.Devices {
		then := next.Devices[i].Address
		if d.Address == nil || then == nil || !isCounted(d) {
			continue
		}

		from, hasFrom := before[topology.Index(d.Address.Bus)]
		to, hasTo := after[topology.Index(then.Bus)]
		if hasFrom && hasTo && from != to {
			all = append(all, Renumbered{d, from, to})
		}
	}

	return all
}

// busNumbers returns the bus numbers of a completed guest, by the ID of a bus in its tree.
func busNumbers(g libvirt.Guest) map[topology.ID]int {
	firsts := libvirt.FirstBusNumbers(g.Domain)
	firsts[0] = 0
	return libvirt.NumberBuses(libvirt.Guest{Domain: g.Domain}.Tree(), firsts)
}
