package findings

import (
	"slices"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/words"
)

// What NCCL and whole AMD GPUs lose in the guest's tree has findings in nccl.go and atomics.go.

// otherNIC finds GPUs for which UCX takes another NIC than on the host.
func otherNIC(plan *placement.Plan) []reasons.Finding {
	t := plan.Decisions(consumers.UCX)
	if t.Wrong == 0 {
		return nil
	}

	return withRemedy(withSwitches(plan, "in the guest, from UCX 1.18 on, set "+
		"UCX_DISTANCE_BW=auto,phb:48GBs, in the environment or in /etc/ucx/ucx.conf"),
		"UCX takes another NIC than on the host for %d of %s", t.Wrong,
		words.Counted(t.Decisions(), "GPU"))
}

// peerDMARefused finds pairs of devices between which Linux allows peer-to-peer DMA on the host and
// not in the guest.
func peerDMARefused(plan *placement.Plan) []reasons.Finding {
	t := plan.Decisions(consumers.P2PDMA)
	if t.Wrong == 0 {
		return nil
	}

	return withRemedy(withSwitches(plan, "none"), "Linux refuses peer-to-peer DMA (amdgpu, xe, "+
		"GPUDirect Storage, nvmet) between %d of %s of devices that are under one switch of the "+
		"host", t.Wrong, words.Counted(t.Decisions(), "pair"))
}

// alignedOtherwise finds pairs of devices that Kubernetes in the guest takes for aligned and on the
// host not, or the other way round.
func alignedOtherwise(plan *placement.Plan) (all []reasons.Finding) {
	for _, attribute := range []string{consumers.DRARoot, consumers.DRANode} {
		if t := plan.Decisions(attribute); t.Wrong > 0 {
			all = append(all, withRemedy(withSwitches(plan, "choose layout root"),
				"Kubernetes in the guest aligns %d of %s of devices otherwise than on the host (%s)",
				t.Wrong, words.Counted(t.Decisions(), "pair"), attribute)...)
		}
	}

	return all
}

// withSwitches returns the remedy for a tree without the host's switches: the layout or the key that
// brings them, unless it is set or whole AMD GPUs have root ports of their own, and else another one.
func withSwitches(plan *placement.Plan, other string) string {
	hasOwnPort := slices.ContainsFunc(plan.Devices, func(d placement.Decision) bool {
		return d.OwnPort
	})
	if plan.Policy.PortSpeed == "host" || hasOwnPort {
		return other
	}

	remedy := "set port-speed=host with layout auto or mirror"
	switch plan.Policy.Layout {
	case policy.LayoutKeep, policy.LayoutNUMA, policy.LayoutRoot: // auto may need no key
		remedy = "set layout auto, and port-speed=host if auto takes no switches"
	}

	if other != "none" {
		remedy += "; else " + other
	}

	return remedy
}
