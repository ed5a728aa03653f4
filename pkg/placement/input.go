package placement

import (
	"maps"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Input is everything that a plan depends on.
type Input struct {
	Domain    *domain.Domain
	Host      *topology.Host
	Variables []env.Variable
	VMI       *env.VMI // nil when there is none
	Policy    policy.Policy
	Warnings  []reasons.Warning // of what was read before
}

// Candidates are the devices that a plan may be about: what the host has to be
// read for. They come in the order of ids.
func Candidates(d *domain.Domain, variables []env.Variable) []topology.DeviceID {
	ids := make(map[topology.DeviceID]bool, len(d.Hostdevs))
	for _, h := range d.Hostdevs {
		ids[h.ID] = true
	}
	for _, v := range variables {
		for _, id := range v.IDs {
			ids[id] = true
		}
	}
	return slices.SortedFunc(maps.Keys(ids), topology.DeviceID.Compare)
}
