package placement

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// fit tries a plan with as many root ports reserved for hotplug as are wanted,
// else with as many as the budgets allow, and never with fewer than least. It
// returns the result of the try that fits; if none does, what the plan violates
// with least.
func fit[T any](most portCount, least int, try func(portCount) (T, []violation)) (T, portCount, []violation) {
	result, violations := try(most)
	if len(violations) == 0 || least >= most.hook {
		return result, most, violations
	}
	with := func(fewer int) portCount { return portCount{most.kubevirt, most.hook - 1 - fewer} }
	fewer := sort.Search(most.hook-1-least, func(n int) bool {
		_, violations := try(with(n))
		return len(violations) == 0
	})
	if result, violations = try(with(fewer)); len(violations) > 0 {
		return result, most, violations
	}
	return result, with(fewer), nil
}

// hotplugPorts are the root ports to add for hotplug where the controllers reach
// the index past which KubeVirt adds none, so that the VM keeps the hotplug
// capacity that it has without the hook. Devices without an address take some
// of them; they are counted on top. It is done in the first call already:
// KubeVirt 1.9.0 does not read the domain back between the calls of a VM with
// four interfaces or more (virtwrap/network/nichotplug.go,
// WithNetworkIfacesResources), so no later call shows more than the first.
func hotplugPorts(g guest, managed deviceSet, most, fits portCount) ([]domain.Controller, []reasons.Warning) {
	highest := libvirt.HighestIndex(g.Domain, g.others)
	root := rootBusOf(g, fits, highest)
	if highest < kubevirtMaxIndex || !underExpander(g, managed) || root.rootPorts == 0 && root.pending == 0 {
		return nil, nil
	}
	var warnings []reasons.Warning
	if fits.hook < most.hook {
		warnings = append(warnings, reasons.NewWarning(reasons.CodeHotplugPortsCapped, nil,
			fmt.Sprintf("%d root ports are to stay free for hotplug, beside the layout there is room for %d", most.hook, fits.hook)))
	}
	var ports []domain.Controller
	for range root.missing(fits.hook) {
		highest++
		ports = append(ports, domain.Controller{Index: highest, Model: domain.RootPort})
	}
	return ports, warnings
}

// underExpander reports whether a managed device is under an expander bus.
func underExpander(g guest, managed deviceSet) bool {
	return slices.ContainsFunc(g.tree.Roots[1:], managed.holdsAny)
}

// closesPorts reports whether ports with a device get hotplug='off'. Where every
// hostdev comes from an SR-IOV network KubeVirt detaches them before a
// migration, so their ports have to stay hotpluggable.
func closesPorts(decisions []Decision) bool {
	return slices.ContainsFunc(decisions, func(d Decision) bool { return !strings.HasPrefix(d.Alias, sriovAlias) })
}

// portsToClose is the positions of ports that have to get hotplug='off' again in a
// domain that is as the layout wants it: KubeVirt 1.9.0 loses it between the
// calls of a boot (virtwrap/api/schema.go, ControllerTarget). Firmware reserves
// windows for each slot that can hotplug. With many downstream ports it then
// ends with no BAR assigned (measured with OVMF 2022.11), so they are closed
// whoever built them; root ports that another tool built are harmless and left
// alone.
func portsToClose(current guest, managed deviceSet, r reservation) []int {
	trees := current.managedTrees(managed)
	own := hasOwnNumbers(current, trees, r)
	var positions []int
	for i, c := range current.source.Controllers {
		n := current.node(c.Index)
		closable := c.Model == domain.DownstreamPort || c.Model == domain.RootPort && own
		if closable && !c.HotplugOff && managed.holdsAny(n) && slices.Contains(trees, n.Top()) {
			positions = append(positions, i)
		}
	}
	return positions
}

// hasOwnNumbers reports whether expander buses have the bus numbers that an
// earlier call of the hook gave them. KubeVirt gives each the exact need from 256
// downwards (converter/pci-placement.go), the hook only where ranges of one size
// do not fit; closing KubeVirt's ports then does no harm.
func hasOwnNumbers(current guest, expanders []*topology.Node, r reservation) bool {
	own, _ := busNumbersOf(&topology.Tree{Roots: expanders}, r)
	for _, e := range current.numbered() {
		at := slices.Index(expanders, current.node(e.Index))
		if at >= 0 && (at >= len(own) || own[at] != *e.BusNr) {
			return false
		}
	}
	return true
}
