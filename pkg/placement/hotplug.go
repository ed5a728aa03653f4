package placement

import (
	"fmt"
	"sort"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// fit tries a plan with as many root ports reserved for hotplug as are wanted,
// else with as many as the budgets allow, and never with fewer than least. It
// returns the reservation that fits; if none does, the wanted one with what the
// plan violates at the least.
func fit(wanted hotplug, least int, try func(hotplug) []violation) (hotplug, []violation) {
	violations := try(wanted)
	if len(violations) == 0 || least >= wanted.reserved {
		return wanted, violations
	}
	with := func(fewer int) hotplug { return hotplug{wanted.kubevirt, wanted.reserved - 1 - fewer} }
	fewer := sort.Search(wanted.reserved-1-least, func(n int) bool { return len(try(with(n))) == 0 })
	if violations = try(with(fewer)); len(violations) > 0 {
		return wanted, violations
	}
	return with(fewer), nil
}

// hotplugPorts are the root ports to add for hotplug where the controllers reach
// the index past which KubeVirt adds none, so that the VM keeps the hotplug
// capacity that it has without the hook. Devices without an address take some
// of them; they are counted on top. It is done in the first call already:
// KubeVirt 1.9.0 does not read the domain back between the calls of a VM with
// four interfaces or more (virtwrap/network/nichotplug.go,
// WithNetworkIfacesResources), so no later call shows more than the first.
func hotplugPorts(g guest, managed deviceSet, wanted, fits hotplug) ([]domain.Controller, []reasons.Warning) {
	highest := libvirt.HighestIndex(g.Domain, g.others)
	root := rootBusOf(g, fits, highest)
	if highest < kubevirtMaxIndex || !underExpander(g, managed) || root.rootPorts == 0 && root.pending == 0 {
		return nil, nil
	}
	var warnings []reasons.Warning
	if fits.reserved < wanted.reserved {
		warnings = append(warnings, reasons.NewWarning(reasons.CodeHotplugPortsCapped, nil,
			fmt.Sprintf("%d root ports are to stay free for hotplug, beside the layout there is room for %d", wanted.reserved, fits.reserved)))
	}
	var ports []domain.Controller
	for range fits.reserved - (root.free - root.pending) {
		highest++
		ports = append(ports, domain.Controller{Index: highest, Model: domain.RootPort})
	}
	return ports, warnings
}

// underExpander reports whether a managed device is under an expander bus.
func underExpander(g guest, managed deviceSet) bool {
	for _, expander := range g.tree.Roots[1:] {
		if managed.holdsAny(expander) {
			return true
		}
	}
	return false
}

// closesPorts reports whether ports with a device get hotplug='off'. Where every
// hostdev comes from an SR-IOV network KubeVirt detaches them before a
// migration, so their ports have to stay hotpluggable.
func closesPorts(decisions []Decision) bool {
	for _, d := range decisions {
		if !strings.HasPrefix(d.Alias, "ua-sriov-") {
			return true
		}
	}
	return false
}

// reopened is the positions of ports that have to get hotplug='off' again in a
// domain that is as the layout wants it: KubeVirt 1.9.0 loses it between the
// calls of a boot (virtwrap/api/schema.go, ControllerTarget). Firmware reserves
// windows for each slot that can hotplug. With many downstream ports it then
// ends with no BAR assigned (measured with OVMF 2022.11), so they are closed
// whoever built them; root ports that another tool built are harmless and left
// alone.
func reopened(current guest, d *domain.Domain, managed deviceSet, r reservation) []int {
	trees := managedTrees(current, managed)
	own := inOwnSlots(current, trees, r)
	var positions []int
	for i, c := range d.Controllers {
		n := current.node(c.Index)
		if c.HotplugOff || !managed.holdsAny(n) {
			continue
		}
		for _, tree := range trees {
			if n.Top() == tree && (c.Model == domain.DownstreamPort || c.Model == domain.RootPort && own) {
				positions = append(positions, i)
			}
		}
	}
	return positions
}

// inOwnSlots reports whether expander buses are in the slots that an earlier
// call of the hook gave them, from 0x1c downwards. libvirt gives those without
// an address, such as KubeVirt's, the lowest.
func inOwnSlots(current guest, expanders []*topology.Node, r reservation) bool {
	slots, crowded := expanderSlots(len(expanders), r)
	if len(crowded) > 0 {
		return false
	}
	own := map[int]bool{}
	for _, s := range slots {
		own[s] = true
	}
	for _, e := range expanders {
		if !own[e.Slot] {
			return false
		}
	}
	return true
}
