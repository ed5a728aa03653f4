package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/peer"
	"hook-sidecar/pkg/words"
)

// HeadlineOf returns the outcome of a plan in the parts of a line: which programs decide as on the
// host about how many GPUs, how many pairs of devices are as on the host, how many devices have no place in the
// planned tree, and whether the guest has no NUMA cells. Both plans are the same unless the
// current tree is shown.
func HeadlineOf(shown, planned *placement.Plan) []string {
	devices, pairs := shown.Devices, shown.Pairs()
	isShown := func(d placement.Decision) bool { return d.Function != nil }
	known := topology.CountFunc(devices, isShown)
	var parts []string
	switch {
	case len(devices) == 0:
		return []string{"the domain passes no PCI or mediated device through"}
	case known == 0 && len(devices) == 1:
		return []string{"the host does not show " + devices[0].ID.String()}
	case known == 0:
		return []string{fmt.Sprintf("the host shows none of the %d devices", len(devices))}
	case len(devices) == 1 && devices[0].Cell == nil:
		parts = []string{"one device, which does not know its NUMA node"}
	case len(devices) == 1:
		parts = []string{"one device, which knows its NUMA node"}
	default:
		text := fmt.Sprintf("%d of %s of devices as on the host", pairs.Alike,
			words.Counted(pairs.All, "pair"))
		if pairs.Known < pairs.All {
			text += fmt.Sprintf(", %d not known", pairs.All-pairs.Known)
		}
		parts = Decisions(shown.Programs())
		if len(parts) == 0 || pairs.Alike < pairs.All {
			parts = append(parts, text)
		}
		parts = append(parts, hostPaths(findings.NearPairs(shown))...)
	}

	// A record of another machine that has some of the addresses looks like a good result.
	if 2*known <= len(devices) && len(devices) > 1 {
		parts = slices.Insert(parts, 0, fmt.Sprintf(
			"the host shows %d of the %d devices: is it the VM's node?", known, len(devices)))
	}

	if n := findings.WithoutPlace(planned); n > 0 {
		parts = append(parts, fmt.Sprintf("%d without a place", n))
	}

	switch {
	case findings.LacksCells(planned) && planned.GPUDirect().Guest > 0:
		parts = append(parts, "the guest has no NUMA cells")
	case findings.LacksCells(planned):
		parts = append(parts, "first give the guest NUMA cells")
	}

	return parts
}

// Decisions returns which programs decide as on the host about how many GPUs, as parts of a
// headline: "0 of 8 GPUs: UCX as on the host", "8 of 8 GPUs: NCCL, DRA as on the host". Those come
// first that do about the fewest.
func Decisions(programs []consumers.Program) (parts []string) {
	sorted := slices.Clone(programs)
	slices.SortStableFunc(sorted, func(x, y consumers.Program) int {
		return cmp.Or(cmp.Compare(x.AsOnHost, y.AsOnHost), cmp.Compare(x.GPUs, y.GPUs))
	})

	for first, end := 0, 0; first < len(sorted); first = end {
		var names []string
		p := sorted[first]
		for end < len(sorted) && sorted[end].AsOnHost == p.AsOnHost && sorted[end].GPUs == p.GPUs {
			names, end = append(names, sorted[end].Name), end+1
		}

		parts = append(parts, fmt.Sprintf("%d of %s: %s as on the host", p.AsOnHost,
			words.Counted(p.GPUs, "GPU"), strings.Join(names, ", ")))
	}

	return parts
}

// hostPaths returns what the host's paths from NICs and drives to the GPUs are that the guest shows
// near them, as part of a headline.
func hostPaths(pairs []peer.Pair) []string {
	counts := map[peer.Readiness]int{}
	for _, p := range pairs {
		counts[p.Cause.Readiness()]++
	}

	switch {
	case len(pairs) == 0:
		return nil
	case counts[peer.Unknown] == len(pairs):
		return []string{"the host's paths: unknown"}
	}

	text := fmt.Sprintf("the host's paths: ready %d", counts[peer.Ready])
	for _, readiness := range []peer.Readiness{peer.ThroughRoot, peer.NotReady, peer.Unknown} {
		if n := counts[readiness]; n > 0 {
			text += fmt.Sprintf(", %s %d", readiness, n)
		}
	}

	return []string{text}
}
