package recorded

import (
	"errors"
	"fmt"

	"hook-sidecar/pkg/topology"
)

// buses gives out bus numbers in PCI domains that a record does not use.
type buses struct {
	used     map[uint32]bool // PCI domains of the record
	domain   uint32
	given    int // buses of the domain
	overflow bool
}

// bus is a bus with the next free slot on it. It gets its number when it is first used.
type bus struct {
	buses   *buses
	isGiven bool
	domain  uint32
	number  uint8
	slot    int
}

// The sizes of PCI Express, and of NCCL's addresses: it reads domains of four digits
// (src/graph/xml.cc, checkBDFFormat).
const (
	busesPerDomain = 256
	slotsPerBus    = 32
	maxDomain      = 0xffff
)

// rootPortSlot is where firmware usually has the first root port.
const rootPortSlot = 1

// err returns an error if there were not enough numbers.
func (b *buses) err() error {
	if b.overflow {
		return errors.New("more switches, or ports of a switch, than PCI Express has numbers for")
	}
	return nil
}

// give gives a bus its number.
func (b *bus) give() {
	if b.isGiven {
		return
	}

	all := b.buses
	if all.given == busesPerDomain {
		all.domain, all.given = all.domain+1, 0
	}

	// A PCI domain that the record uses is skipped as a whole, so no number is one of the
	// record's.
	for all.given == 0 && all.used[all.domain] {
		all.domain++
	}

	all.overflow = all.overflow || all.domain > maxDomain
	b.isGiven, b.domain, b.number = true, all.domain, uint8(all.given)
	all.given++
}

// root returns the PCIe root whose bus this is.
func (b *bus) root() topology.PCIeRoot {
	b.give()
	return topology.PCIeRoot(fmt.Sprintf("pci%04x:%02x", b.domain, b.number))
}

// next returns the address of the next free slot.
func (b *bus) next() topology.Address {
	b.give()
	b.buses.overflow = b.buses.overflow || b.slot == slotsPerBus
	b.slot++
	return topology.Address{Domain: b.domain, Bus: b.number, Device: uint8(b.slot-1) % slotsPerBus}
}
