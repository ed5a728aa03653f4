package alloc

import (
	"errors"
	"fmt"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
)

// flags name the kinds of device that a bus accepts, or the kind of bus that a device needs
// (src/conf/domain_addr.h, virDomainPCIConnectFlags).
type flags uint16

const (
	conventional flags = 1 << iota // a conventional PCI device
	express                        // a PCI Express device
	rootPort
	upstreamPort
	downstreamPort
	dmiToPCIBridge
	expanderBus
	pcieToPCIBridge
	pciBridge

	autoAssign // the bus takes devices that libvirt places
	aggregate  // several such devices share a slot
	integrated // the device is on the root bus, whatever that accepts

	endpoints  = conventional | express
	connectors = autoAssign - 1 // all above: what is plugged in
)

// connectionOf returns what a PCI controller needs of the bus that it is on
// (src/conf/domain_addr.c, virDomainPCIControllerModelToConnectType).
func connectionOf(model domain.Model) flags {
	switch model {
	case domain.RootPort:
		return rootPort | aggregate
	case domain.UpstreamPort:
		return upstreamPort
	case domain.DownstreamPort:
		return downstreamPort
	case domain.DMIToPCIBridge:
		return dmiToPCIBridge
	case domain.ExpanderBus:
		return expanderBus
	case domain.PCIeToPCIBridge:
		return pcieToPCIBridge
	case domain.PCIBridge:
		return pciBridge
	}

	return 0
}

// pciBus is a bus with its slots.
type pciBus struct {
	model       domain.Model
	accepts     flags
	first, last int // slots
	slots       [32]slot
}

type slot struct {
	functions uint8 // a bit for each that is taken
	aggregate bool  // devices that libvirt places may share it
}

// newBus returns the bus of a controller (src/conf/domain_addr.c, virDomainPCIAddressBusSetModel).
func newBus(model domain.Model) pciBus {
	b := pciBus{model: model, last: 31}
	switch model {
	case domain.PCIeRoot:
		b.accepts, b.first = express|rootPort|dmiToPCIBridge|expanderBus, 1
	case domain.ExpanderBus:
		b.accepts = rootPort | dmiToPCIBridge
	case domain.RootPort, domain.DownstreamPort:
		b.accepts, b.last = autoAssign|express|upstreamPort|pcieToPCIBridge, 0
	case domain.UpstreamPort:
		b.accepts = downstreamPort
	case domain.PCIeToPCIBridge, domain.PCIBridge:
		b.accepts, b.first = autoAssign|conventional|pciBridge, 1
	case domain.DMIToPCIBridge:
		b.accepts = conventional | pciBridge
	}

	return b
}

// takes reports whether a bus takes a device (src/conf/domain_addr.c,
// virDomainPCIAddressFlagsCompatible). Libvirt checks an address that the domain has less strictly
// than one that it chooses.
func (b *pciBus) takes(index int, need flags, isGiven bool) bool {
	accepts := b.accepts

	// What is part of the machine is on the root bus, where libvirt puts no other endpoint by
	// itself.
	if need&integrated != 0 {
		if index != 0 {
			return false
		}
		accepts |= conventional | autoAssign
	}

	switch {
	case isGiven:
		// A user may put a conventional device on a PCI Express bus, and the other way round.
		if accepts&endpoints != 0 {
			accepts |= endpoints
		}
		if need&pciBridge != 0 {
			need |= conventional
		}
	case need&autoAssign != 0 && accepts&autoAssign == 0:
		return false
	}

	return need&accepts&connectors != 0
}

// addresses are the buses of a guest, and which of their addresses are taken.
type addresses struct {
	Version
	buses   []pciBus
	isFirst bool // buses are added where they are missing
}

// anyFunction stands for function 0, or any that is free in a slot that devices share.
const anyFunction = -1

// errNoSlot means that libvirt finds no room for a device, and adds no bus for it.
var errNoSlot = errors.New("no PCI slot is free")

// next takes the first free address for what needs one, on the bus with the lowest index
// (src/conf/domain_addr.c, virDomainPCIAddressReserveNextAddr).
func (a *addresses) next(need flags, function int) (domain.GuestAddress, error) {
	for index := range a.buses {
		if at, found := a.buses[index].next(index, need, function); found {
			return at, a.reserve(at, need, false)
		}
	}

	if !a.isFirst {
		return domain.GuestAddress{}, errNoSlot
	}

	at := domain.GuestAddress{Bus: len(a.buses), Function: max(0, function)}
	if err := a.grow(&at, need); err != nil {
		return at, err
	}

	at.Slot = a.buses[at.Bus].first
	return at, a.reserve(at, need, false)
}

// next finds a free address on a bus (virDomainPCIAddressFindUnusedFunctionOnBus).
func (b *pciBus) next(index int, need flags, function int) (at domain.GuestAddress, found bool) {
	if !b.takes(index, need, false) {
		return at, false
	}

	for number := b.first; number <= b.last; number++ {
		// An empty slot takes anything. One that is in use takes more functions only if all that is in
		// it, and this device, may share it.
		s := b.slots[number]
		at = domain.GuestAddress{Bus: index, Slot: number, Function: max(0, function)}
		if s.functions == 0 {
			return at, true
		}
		if need&aggregate == 0 || !s.aggregate {
			continue
		}

		for ; at.Function < 8; at.Function++ {
			if s.functions&(1<<at.Function) == 0 {
				return at, true
			}
			if function != anyFunction {
				break
			}
		}
	}

	return at, false
}

// reserve takes an address (virDomainPCIAddressReserveAddrInternal). One that the domain has may be
// on a bus that is missing.
func (a *addresses) reserve(at domain.GuestAddress, need flags, isGiven bool) error {
	// Only the first pass adds buses: the second has as many controllers as that needed.
	if a.isFirst {
		if err := a.grow(&at, need); err != nil {
			return err
		}
	}

	if at.Bus >= len(a.buses) {
		return fmt.Errorf("there is no PCI controller %d", at.Bus)
	}

	b := &a.buses[at.Bus]
	if !b.takes(at.Bus, need, isGiven) {
		return fmt.Errorf("a %s does not take it", b.model)
	}
	if at.Slot < b.first || at.Slot > b.last {
		return fmt.Errorf("a %s has no slot %d", b.model, at.Slot)
	}

	s := &b.slots[at.Slot]
	if s.functions&(1<<at.Function) != 0 {
		return fmt.Errorf("the PCI address %02x:%02x.%x is taken", at.Bus, at.Slot, at.Function)
	}

	// The first device in a slot decides whether others may join it.
	if s.functions == 0 && need&aggregate != 0 {
		s.aggregate = true
	}

	s.functions |= 1 << at.Function
	return nil
}

// grow adds the buses up to that of an address. A conventional device in a guest without a bridge
// for it gets a bridge, and a root port above that, so its bus is the next one
// (virDomainPCIAddressSetGrow).
func (a *addresses) grow(at *domain.GuestAddress, need flags) error {
	missing := at.Bus + 1 - len(a.buses)
	if missing <= 0 {
		return nil
	}

	switch {
	case need&conventional != 0:
		if !a.hasBridge() {
			if missing == 1 { // one bus is asked for, and two are made
				missing++
				at.Bus++
			}

			// Only the bridge takes the port, until the second pass.
			port := newBus(domain.RootPort)
			port.accepts = pcieToPCIBridge
			a.buses = append(a.buses, port, newBus(domain.PCIeToPCIBridge))
			missing -= 2
		}

		a.add(domain.PCIBridge, missing)

	case need&(express|upstreamPort) != 0, need&pcieToPCIBridge != 0 && a.AddsPortForBridge:
		a.add(domain.RootPort, missing)
	default:
		return errNoSlot
	}

	if len(a.buses) > libvirt.MaxIndex+1 {
		return fmt.Errorf("more than %d PCI controllers", libvirt.MaxIndex)
	}

	return nil
}

func (a *addresses) add(model domain.Model, count int) {
	for range count {
		a.buses = append(a.buses, newBus(model))
	}
}

// hasBridge reports whether a bus takes a bridge to conventional PCI.
func (a *addresses) hasBridge() bool {
	for i := range a.buses {
		if a.buses[i].accepts&pciBridge != 0 {
			return true
		}
	}
	return false
}
