package placement

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
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

// hotplugPorts is how many root ports are to stay free where the hook adds them:
// what the policy says, or what KubeVirt gives a domain of this size.
func (b *builder) hotplugPorts() int {
	if b.Policy.HotplugPorts != policy.HotplugAuto {
		return b.Policy.HotplugPorts
	}
	return b.kubevirtPorts()
}

func (b *builder) kubevirtPorts() int {
	if b.VMI != nil && b.VMI.Annotations[RootComplexAnnotation] == "true" {
		return 0
	}
	total, free := smallTotalPorts, smallFreePorts
	if b.Domain.MemoryBytes > largeMemory {
		total, free = largeTotalPorts, largeFreePorts
	}
	return max(total-b.portsInUse(), free)
}

// sparePorts is how many root ports will be free for hotplug in the end, in a
// domain whose controllers reach the index highest: KubeVirt adds its own up to
// index 31, the hook where controllers go past it.
func (b *builder) sparePorts(highest int) int {
	if highest < kubevirtMaxIndex {
		return b.kubevirtPorts()
	}
	return b.spare
}

// fit tries a plan with as many root ports free for hotplug as are wanted, else
// with as many as the budgets allow, least at the least. It returns what the plan
// breaks even then.
func (b *builder) fit(least int, try func() []breach) []breach {
	broken := try()
	wanted := b.spare
	if len(broken) == 0 || least >= wanted {
		return broken
	}
	fewer := sort.Search(wanted-1-least, func(n int) bool {
		b.spare = wanted - 1 - n
		return len(try()) == 0
	})
	b.spare = wanted - 1 - fewer
	if broken = try(); len(broken) > 0 {
		b.spare = wanted
	}
	return broken
}

// portsInUse counts devices as KubeVirt does before the first define
// (converter/pci-placement.go, CountPCIDevices): without placeholder NICs, the
// controllers that libvirt adds, and mediated devices. Hostdevs count wherever
// they stand.
func (b *builder) portsInUse() int {
	count := 0
	for _, device := range b.devices {
		if device.ID.Kind() == topology.KindPCI {
			count++
		}
	}
	for _, o := range libvirt.Devices(b.Domain) {
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
	d := filled(after(b.Domain, b.changes))
	t, index := newTree(d), highestIndex(d)
	main := b.mainBus(t, index)
	if index < kubevirtMaxIndex || !b.hasExpanderOfOurs(t) || main.rootPorts == 0 && main.hungry == 0 {
		return
	}
	if wanted := b.hotplugPorts(); b.spare < wanted {
		b.warn(reasons.CodeHotplugPortsCapped, nil, fmt.Sprintf("%d root ports are to stay free for hotplug, beside the layout there is room for %d", wanted, b.spare))
	}
	for range b.spare - (main.free - main.hungry) {
		index++
		b.changes.AddControllers = append(b.changes.AddControllers, domain.Controller{Index: index, Model: domain.RootPort})
	}
}

// hasExpanderOfOurs reports whether a movable device stands below an expander bus.
func (b *builder) hasExpanderOfOurs(t *tree) bool {
	return slices.ContainsFunc(t.domain.Hostdevs, func(h domain.Hostdev) bool {
		return h.Address != nil && t.expander(h.Address.Bus) != nil && b.isMovable(h.ID)
	})
}
