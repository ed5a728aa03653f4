package tree

import (
	"fmt"
	"maps"
	"slices"
)

// Holes returns the indexes that no controller has, up to the highest that a controller has or an
// address names. libvirt fills each with a root port.
func (t *Tree) Holes() (holes []int) {
	highest := slices.Max(slices.Collect(maps.Keys(t.Controllers)))
	for _, device := range t.Devices {
		if device.At != nil {
			highest = max(highest, device.At.Bus)
		}
	}

	for index := range highest + 1 {
		if _, exists := t.Controllers[index]; !exists {
			holes = append(holes, index)
		}
	}

	return holes
}

// FreePorts returns the root and downstream ports with nothing on them.
func (t *Tree) FreePorts() (free []Controller) {
	used := map[int]bool{}
	for _, device := range t.Devices {
		if device.At != nil {
			used[device.At.Bus] = true
		}
	}

	for index, c := range t.Controllers {
		if isPort := c.Model == "pcie-root-port" ||
			c.Model == "pcie-switch-downstream-port"; isPort && !used[index] {
			free = append(free, c)
		}
	}

	return free
}

// BeforeParents returns the controllers that QEMU would make before the one that they are on: it
// makes them by index.
func (t *Tree) BeforeParents() (early []Controller) {
	for _, index := range slices.Sorted(maps.Keys(t.Controllers)) {
		if c := t.Controllers[index]; c.At != nil && c.At.Bus >= index {
			early = append(early, c)
		}
	}
	return early
}

// Hidden returns the slots, as addresses of function 0, where only other functions are: a guest
// does not find them. Slot 1f of pcie.0 has the ISA bridge of q35, which is not a device of the
// domain.
func (t *Tree) Hidden() (hidden []Address) {
	taken := map[Address]bool{}
	for _, device := range t.Devices {
		if device.At != nil {
			taken[*device.At] = true
		}
	}

	for _, device := range t.Devices {
		if device.At == nil {
			continue
		}

		slot := Address{Bus: device.At.Bus, Slot: device.At.Slot}
		if !taken[slot] && slot != (Address{Slot: 0x1f}) && !slices.Contains(hidden, slot) {
			hidden = append(hidden, slot)
		}
	}

	return hidden
}

// BusShortages returns the root buses that have too few bus numbers: each takes one, and one for
// each bridge under it, up to the number at which the next root bus starts (QEMU docs/pcie.txt,
// docs/pci_expander_bridge.txt).
func (t *Tree) BusShortages() (shortages []string) {
	starts, bridges := map[int]int{0: 0}, map[int]int{}
	for index, c := range t.Controllers {
		switch {
		case c.Model != ExpanderBus && index != 0:
			bridges[t.RootBus(c.At)]++
		case c.BusNr != Unknown:
			starts[index] = c.BusNr
		}
	}

	for _, index := range slices.Sorted(maps.Keys(starts)) {
		limit := 256
		for other, start := range starts {
			if other != index && start >= starts[index] {
				limit = min(limit, start)
			}
		}

		if need, has := 1+bridges[index], limit-starts[index]; need > has {
			shortages = append(shortages,
				fmt.Sprintf("root bus %d starts at bus number %d and needs %d, has %d", index,
					starts[index], need, has))
		}
	}

	return shortages
}
