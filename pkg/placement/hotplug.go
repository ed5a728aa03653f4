package placement

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// portsOf returns how many root ports are to stay free for hotplug: as the policy says, or as
// KubeVirt gives a domain of this size in topology v3 (KubeVirt
// pkg/virt-launcher/virtwrap/manager.go, calculateHotplugPortCountV2).
func portsOf(in Input, current bus.Guest, devices []PassthroughDevice) bus.Ports {
	p := bus.Ports{Hook: in.Policy.HotplugPorts}
	if !in.onRootComplex() {
		const large = 2 << 30 // bytes
		total, free := 8, 3
		if in.Domain.MemoryBytes > large {
			total, free = 16, 6
		}

		p.KubeVirt = max(total-portsInUse(current, devices), free)
	}

	if p.Hook == policy.HotplugAuto {
		p.Hook = p.KubeVirt
	}

	return p
}

// portsInUse counts devices as KubeVirt does before the first define
// (converter/pci-placement.go, CountPCIDevices): without placeholder NICs, SATA
// controllers and mediated devices. Hostdevs count wherever they are.
func portsInUse(current bus.Guest, devices []PassthroughDevice) int {
	isPCI := func(d PassthroughDevice) bool { return d.ID.Kind() == topology.KindPCI }
	return topology.CountFunc(devices, isPCI) + topology.CountFunc(current.Devices,
		func(o libvirt.Endpoint) bool {
			switch o.Element {
			case "interface":
				return !strings.HasPrefix(o.Alias, "placeholder-")
			case "controller":
				return o.Type != "sata"
			}

			return slices.Contains([]string{
				"disk", "input", "watchdog", "rng", "memballoon",
			}, o.Element)
		})
}

// fit tries a plan with as many root ports reserved for hotplug as are wanted,
// else with as many as the budgets allow, and never with fewer than least. The last try
// is the one that fits; if none does, it returns the violations with least.
func fit(
	most bus.Ports, least int, try func(bus.Ports) []reasons.Finding,
) (bus.Ports, []reasons.Finding) {
	violations := try(most)
	if len(violations) == 0 || least >= most.Hook {
		return most, violations
	}

	with := func(fewer int) bus.Ports {
		return bus.Ports{KubeVirt: most.KubeVirt, Hook: most.Hook - 1 - fewer}
	}

	// What fits with some ports fits with fewer, so the most that fit are found by halving.
	fewer := sort.Search(most.Hook-1-least, func(n int) bool { return len(try(with(n))) == 0 })
	if violations = try(with(fewer)); len(violations) > 0 {
		return most, violations
	}

	return with(fewer), nil
}

// hotplugPorts returns the indexes of the root ports to add for hotplug where the controllers, with
// those that libvirt adds, reach the index past which KubeVirt adds none, so that the VM keeps the
// hotplug capacity that it has without the hook. Ports that devices without an address will take are
// added to the number. It is done in the first call already: KubeVirt 1.9.0 does not read the domain
// back between the calls of a VM with four interfaces or more (virtwrap/network/nichotplug.go,
// WithNetworkIfacesResources), so no later call shows more than the first.
func hotplugPorts(
	g bus.Guest, managed bus.Devices, most, fits bus.Ports,
) (indexes []int, warnings []reasons.Finding) {
	highest := g.HighestIndex()
	root := g.RootBus(fits, highest)
	underExpander := slices.ContainsFunc(g.Tree.Roots[1:], managed.AnyUnder)
	if root.Last < bus.LastKubeVirtIndex || !underExpander || root.RootPorts == 0 &&
		root.Pending == 0 {
		return nil, nil
	}

	if fits.Hook < most.Hook {
		warnings = append(warnings, reasons.NewFinding(reasons.CodeHotplugPortsCapped, nil,
			fmt.Sprintf("%d root ports are to stay free for hotplug, beside the layout there is "+
				"room for %d", most.Hook, fits.Hook)))
	}

	for range root.Missing(fits.Hook) {
		highest++
		indexes = append(indexes, highest)
	}

	return indexes, warnings
}
