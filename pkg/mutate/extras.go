package mutate

import (
	"maps"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
)

// withExtras is the plan with what policy keys ask for besides places. What a hook has
// written in an earlier call is written anew, and removed where the key does not ask for
// it any more. Without a VMI and a flag nobody says so, and it stays.
//
// vmi may be nil. noReader is that of Request.
func (m Mutator) withExtras(plan *placement.Plan, vmi *env.VMI, noReader string) *placement.Plan {
	isKnown := func(key policy.Key) bool {
		return !m.asIs && (vmi != nil || plan.Policy.Origins[key] != policy.OriginDefault)
	}
	if isKnown(policy.KeyNCCLTopology) {
		plan = withNCCL(plan, vmi, noReader)
	}
	if isKnown(policy.KeyPortSpeed) {
		plan = withPortSpeed(plan, m.Sysfs)
	}
	if isKnown(policy.KeyMMIOWindow) {
		plan = withMMIOWindow(plan, m.PhysBits)
	}
	if isKnown(policy.KeyVIOMMU) {
		plan = withVIOMMU(plan)
	}
	if isKnown(policy.KeyClique) {
		plan = withClique(plan)
	}
	return plan
}

// withOption is the plan with a managed option of QEMU, without it where it is nil. A
// plan whose domain has it like this stays as it is.
func withOption(plan *placement.Plan, id string, option *domain.Option) *placement.Plan {
	set := map[string]*domain.Option{id: option}
	if d := plan.Domain(); slices.Equal(d.Options, d.WithOptions(set).Options) {
		return plan
	}
	changes := plan.Changes
	changes.SetOptions = maps.Clone(changes.SetOptions)
	if changes.SetOptions == nil {
		changes.SetOptions = map[string]*domain.Option{}
	}
	changes.SetOptions[id] = option
	return plan.With(changes, nil, nil)
}

// extra is what one key gives.
func extra(key policy.Key, text string) []placement.Extra {
	return []placement.Extra{{Key: key, Text: text}}
}

// positionsOf are the positions of what is meant.
func positionsOf[T any](all []T, isMeant func(T) bool) []int {
	var positions []int
	for i, one := range all {
		if isMeant(one) {
			positions = append(positions, i)
		}
	}
	return positions
}
