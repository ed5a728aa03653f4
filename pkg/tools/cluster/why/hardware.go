package why

import (
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// hardware are the VM's devices on its node, and those near them, by which the lines of the node's
// kernel are told from those of others.
type hardware struct {
	own     map[string]bool // PCI addresses without a function, and UUIDs, of the VM's devices
	near    map[string]bool // of the ports above them, and of their IOMMU groups
	isWhole bool            // all of the VM's devices are known
	// functions of the VM's devices, as 0000:3b:02.1, where they are known, and whether all of its
	// devices are virtual functions of NICs
	functions map[string]bool
	areVFs    bool
	numbers   map[string]bool // of the VM's virtual functions, which their NICs' drivers print
}

// add adds a device by its address or UUID.
func (h *hardware) add(name string) {
	slot := slotOf(name)
	h.own[slot] = true
	if _, function, hasFunction := strings.Cut(name, "."); hasFunction {
		h.functions[slot+"."+function] = true
	}
}

// addNear adds what a node's kernel and its sysfs say of what lies above the VM's devices, and of
// their IOMMU groups.
func (h *hardware) addNear(topology string) {
	groups := map[string][]string{} // the slots in each
	for line := range strings.Lines(topology) {
		var slots []string
		for _, f := range pathAddress.FindAllString(line, -1) {
			slots = append(slots, slotOf(f))
		}

		if at := slices.IndexFunc(slots, h.isOwnSlot); at > 0 || at < 0 && h.hasUUID(line) {
			for _, slot := range slots {
				h.near[slot] = true // of a path in sysfs: what it passes
			}
		}

		if f := groupOf.FindStringSubmatch(line); f != nil && len(slots) > 0 {
			groups[f[1]] = append(groups[f[1]], slots[len(slots)-1])
		}

		if f := bridgeTo.FindStringSubmatch(line); f != nil && h.hasBus(f[1]) {
			h.near[slots[0]] = true
		}
	}

	for members := range maps.Values(groups) {
		if slices.ContainsFunc(members, h.isOwnSlot) {
			for _, slot := range members {
				h.near[slot] = true
			}
		}
	}
}

// groupOf is the IOMMU group of a device, in the kernel's log (Linux drivers/iommu/iommu.c) and in
// sysfs, and bridgeTo the bus below a port, in the kernel's log (Linux drivers/pci/probe.c).
var (
	groupOf  = lazyregexp.New(`(?:Adding to iommu group |kernel/iommu_groups/)(\d+)\b`)
	bridgeTo = lazyregexp.New(`PCI bridge to \[bus ([0-9a-f]{2})`)
)

func (h *hardware) isOwnSlot(slot string) bool { return h.own[slot] }

// relation says what the devices that a line names are to a VM.
type relation int

const (
	namesNone  relation = iota // it names no device
	namesOwn                   // one of the VM's, one beside it, or a port above it
	namesPort                  // a port, of which nothing says what is below it
	namesOther                 // others
)

// relationOf returns what the devices are that a line of the node's kernel names.
func (h *hardware) relationOf(line string) relation {
	text := (&message{}).setHost(line)
	rest := strings.ToLower(text)
	found := anyAddress.FindAllString(rest, -1)
	vf := ofVF.FindStringSubmatch(text)
	isOfVFs := vf != nil && (vf[1] == "" || len(h.numbers) == 0 || h.numbers[vf[1]])
	for _, address := range found {
		slot := slotOf(address)
		if h.isOther(address) {
			continue
		}
		if h.own[slot] || h.near[slot] || isOfVFs && h.hasBus(busOf(slot)) {
			return namesOwn
		}
	}

	switch {
	case h.hasUUID(rest):
		return namesOwn
	case len(h.near) == 0 && strings.Contains(rest, "pcieport "):
		return namesPort
	case len(found) > 0:
		return namesOther
	}

	return namesNone
}

// ofVF is in lines of a NIC's driver about one of its virtual functions, which are on the bus of
// the NIC: the driver names the NIC's own address.
var ofVF = lazyregexp.New(`\b[Vv][Ff]\b(?:[ #=:-]*(\d+))?`)

// hasUUID reports whether a line names one of the VM's mediated devices.
func (h *hardware) hasUUID(line string) bool {
	for name := range h.own {
		if strings.Count(name, "-") == 4 && strings.Contains(line, name) {
			return true
		}
	}
	return false
}

// hasBus reports whether one of the VM's devices is on a bus.
func (h *hardware) hasBus(bus string) bool {
	for slot := range h.own {
		if bus != "" && busOf(slot) == bus {
			return true
		}
	}
	return false
}

// isOther reports whether an address is of another virtual function in the slot of one of the VM's:
// these are devices of their own, and the functions of a GPU are one. A VM has function 0 of what is
// one.
func (h *hardware) isOther(address string) bool {
	slot := slotOf(address)
	_, function, hasFunction := strings.Cut(address, ".")
	if !hasFunction || !h.own[slot] || h.functions[slot+"."+function] {
		return false
	}

	isKnown := func(name string) bool { return slotOf(name) == slot }
	hasAny := slices.ContainsFunc(slices.Collect(maps.Keys(h.functions)), isKnown)
	return hasAny && (h.areVFs || !h.functions[slot+".0"])
}

// isTopology reports whether a line of the kernel says where devices are.
func isTopology(line string) bool {
	return strings.Contains(line, "PCI bridge to [bus ") ||
		strings.Contains(line, "Adding to iommu group ")
}

// use is that vfio-pci names a device, which it does as QEMU opens the device (Linux
// drivers/vfio/pci/vfio_pci_core.c, vfio_pci_core_enable).
type use struct {
	slot string
	at   stampOf
}

// isUse reports whether a line of the node's kernel, which names a device, is of such a use.
func isUse(line string) bool { return strings.Contains(line, "vfio-pci 0") }
