package report

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/topology/peer"
	"hook-sidecar/pkg/words"
)

// HeadlineOf returns the outcome of a plan in the parts of a line: how many GPUs use GPUDirect RDMA
// to their NIC, how many pairs of devices are as on the host, how many devices have no place in the
// planned tree, and whether the guest has no NUMA cells. Both plans are the same unless the
// current tree is shown.
func HeadlineOf(shown, planned *placement.Plan) []string {
	devices, pairs := shown.Devices, shown.Pairs()
	isShown := func(d placement.Decision) bool { return d.Function != nil }
	var parts []string
	switch {
	case len(devices) == 0:
		return []string{"the domain passes no PCI or mediated device through"}
	case !slices.ContainsFunc(devices, isShown) && len(devices) == 1:
		return []string{"the host does not show " + devices[0].ID.String()}
	case !slices.ContainsFunc(devices, isShown):
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
		parts = slices.Concat(gpuDirect(shown.GPUDirect()), []string{text},
			hostPaths(findings.NearPairs(shown)))
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

// gpuDirect returns what NCCL decides about GPUs and their NICs, as part of a headline.
func gpuDirect(outcome placement.GPUDirect) []string {
	if outcome.GPUs == 0 {
		return nil
	}

	text := fmt.Sprintf("%d of %s with GPUDirect RDMA", outcome.Guest,
		words.Counted(outcome.GPUs, "GPU"))
	if outcome.Host < outcome.GPUs {
		text += fmt.Sprintf(" (%d on the host)", outcome.Host)
	}

	return []string{fmt.Sprintf("%s, %d with the host's NIC", text, outcome.Right)}
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
