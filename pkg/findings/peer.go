package findings

import (
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/peer"
	"hook-sidecar/pkg/words"
)

// NearPairs returns the pairs of a NIC or drive and a GPU that the guest shows under one switch, so
// that its software connects them directly, with what the host's paths are. A plan of a host whose
// details were not read has none.
func NearPairs(plan *placement.Plan) []peer.Pair {
	var ids []topology.DeviceID
	for _, d := range plan.Devices {
		if d.Function != nil && d.Function.Details != nil {
			ids = append(ids, d.ID)
		}
	}

	d := plan.Domain()
	return peer.Near(plan.Host, plan.GuestTree, ids, peer.Guest{
		UsesIOMMUFD: d.UsesIOMMUFD,
		HasIOMMU:    len(d.IOMMUs()) > 0 || d.CommandLineIOMMU(),
		PhysBits:    d.Addressing.PhysBits,
		UEFI:        d.UEFI,
	})
}

// notReady finds NICs and drives that the guest's software takes for near a GPU, and that do not
// reach it on the host.
func notReady(plan *placement.Plan) []reasons.Finding {
	var all []reasons.Finding
	for _, g := range peer.ByCause(NearPairs(plan)) {
		if g.Cause.Readiness() != peer.NotReady {
			continue
		}

		text := g.Cause.Meaning()
		if len(g.Functions) > 0 {
			text += ": " + listed(g.Functions)
		}

		remedy := g.Remedy()
		if g.Cause != peer.CauseRootRefuses { // whose remedy is the guest's
			remedy += "; until then keep software in the guest from the path: " +
				"NCCL_NET_GDR_LEVEL=LOC"
		}

		all = append(all, withRemedy(remedy,
			"%s: the host's path to GPUs under the same switch is not ready (%s): %s",
			listed(g.Requesters()), g.Cause, text)...)
	}

	return all
}

// listed lists the first few ids, and how many more there are.
func listed[ID topology.ID](ids []ID) string {
	return words.FirstOf(topology.Map(ids, ID.String), 4, ", ")
}
