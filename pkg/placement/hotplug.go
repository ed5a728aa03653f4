package placement

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// KubeVirt's count of free root ports for hotplug, topology v3 (KubeVirt
// pkg/virt-launcher/virtwrap/manager.go, calculateHotplugPortCountV2).
const (
	largeMemory      = 2 << 30 // bytes
	largeTotalPorts  = 16
	largeFreePorts   = 6
	smallTotalPorts  = 8
	smallFreePorts   = 3
	kubevirtMaxIndex = 31 // it appends no root port past this index
)

// hotplugPorts is how many root ports are to stay free: what the policy says,
// or what KubeVirt gives a domain of this size.
func (b *builder) hotplugPorts(d *domain.Domain) int {
	if b.Policy.HotplugPorts != HotplugAuto {
		return b.Policy.HotplugPorts
	}
	if b.VMI != nil && b.VMI.Annotations[RootComplexAnnotation] == "true" {
		return 0
	}
	total, free := smallTotalPorts, smallFreePorts
	if d.MemoryBytes > largeMemory {
		total, free = largeTotalPorts, largeFreePorts
	}
	return max(total-b.portsInUse(d), free)
}

// portsInUse counts devices as KubeVirt does before the first define
// (converter/pci-placement.go, CountPCIDevices): without placeholder NICs, the
// controllers that libvirt adds, and mediated devices. Hostdevs count wherever
// they stand, so also where d lacks those that are about to be placed.
func (b *builder) portsInUse(d *domain.Domain) int {
	count := 0
	for _, device := range b.devices {
		if device.ID.Kind() == topology.KindPCI {
			count++
		}
	}
	for _, o := range d.Others {
		switch o.Element {
		case "interface":
			if !strings.HasPrefix(o.Alias, "placeholder-") {
				count++
			}
		case "controller":
			if o.Type != "sata" {
				count++
			}
		case "disk", "input", "watchdog", "rng", "memballoon":
			count++
		}
	}
	return count
}

// keepHotplugPorts adds root ports to the main bus where our controllers reach
// the index past which KubeVirt adds none, so that the VM keeps the hotplug
// capacity that it has without the hook. Devices without an address will eat
// some of them; they are counted on top. It is done in the first call already:
// KubeVirt 1.9.0 does not read the domain back between the calls of a VM with
// four interfaces or more (virtwrap/network/nichotplug.go,
// WithNetworkIfacesResources), so no later call shows more than the first.
func (b *builder) keepHotplugPorts() {
	d := after(b.Domain, b.changes)
	t := newTree(d)
	main := b.mainBus(t)
	if highestIndex(d) < kubevirtMaxIndex || !b.hasExpanderOfOurs(t) || main.rootPorts == 0 && main.hungry == 0 {
		return
	}
	missing := b.hotplugPorts(d) - (main.free - main.hungry)
	index := highestIndex(d)
	for range missing {
		if index == maxIndex {
			b.warn(CodeHotplugPortsCapped, nil, fmt.Sprintf("%d root ports for hotplug are missing: there is no controller index above %d", missing, maxIndex))
			return
		}
		index++
		missing--
		b.changes.AddControllers = append(b.changes.AddControllers, domain.Controller{Index: index, Model: domain.RootPort})
	}
}

// hasExpanderOfOurs reports whether a movable device stands below an expander bus.
func (b *builder) hasExpanderOfOurs(t *tree) bool {
	return slices.ContainsFunc(t.domain.Hostdevs, func(h domain.Hostdev) bool {
		return h.Address != nil && t.expander(h.Address.Bus) != nil && b.isMovable(h.ID)
	})
}
