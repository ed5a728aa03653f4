// Package keys has the policy keys that write more than addresses: one file per key.
// A call replaces the fragments of an earlier one, and removes those of a key that is off.
package keys

import (
	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// keys has every key.
var keys = []key{
	{policy.KeyNCCLTopology, NCCLEntry, portDetails, writeNCCLTopology},
	// all bridges above the devices, and drivers
	{policy.KeyPortSpeed, domain.PortOverrideMark, host.Related | host.LinkSpeeds, writePortSpeed},
	// BARs, and the vendor of the root ports
	{policy.KeyMMIOWindow, optionMark(policy.KeyMMIOWindow), host.Related, writeMMIOWindow},
	{policy.KeyVIOMMU, domain.IOMMUMark, 0, writeVIOMMU},
	{policy.KeyClique, domain.CliqueMark, portDetails, writeCliques},
}

// Keys returns every key.
func Keys() []policy.Key {
	return topology.Map(keys, func(k key) policy.Key { return k.name })
}

// portDetails stands for the devices and the ports above them, with ids, links and ACS.
const portDetails = host.Related | host.Details

// Needs returns what the policy's keys need of the host.
func Needs(p policy.Policy) host.Needs {
	var needs host.Needs
	for _, k := range keys {
		if !p.IsDefault(k.name) {
			needs |= k.needs
		}
	}

	return needs
}

// Lacking returns the keys that a plan writes fragments for and whose domain has none of them, though
// its tree stays. If the domain is a running VM's, the hook's answer was changed after it. It leaves
// out mmio-window: what that needs depends on the address bits of the CPUs, which only the hook
// knows.
func Lacking(p *placement.Plan) (names []policy.Key) {
	if p.MovesControllers() || len(p.Changes.Place)+len(p.Changes.AddHostdevs) > 0 {
		return nil
	}

	for _, k := range keys {
		isWritten := len(p.Changes.Marked[k.mark].Fragments) > 0
		if isWritten && k.name != policy.KeyMMIOWindow && len(p.Before().Marked(k.mark)) == 0 {
			names = append(names, k.name)
		}
	}

	return names
}

// Write returns the plan with the fragments of the policy's keys. Without a VMI, and without a
// flag for it, a key is unknown: its fragments in the domain stay as they are.
func Write(vm Planned) *placement.Plan {
	marked := map[domain.Mark]domain.Marked{}
	var extras []placement.Extra
	var warnings []reasons.Finding
	for _, k := range keys {
		if vm.VMI == nil && vm.Policy.Origins[k.name] == policy.OriginDefault {
			if k.mark == domain.PortOverrideMark && vm.MovesControllers() &&
				len(vm.Domain().Marked(k.mark)) > 0 {
				marked[k.mark] = domain.Marked{} // they name controllers that may be others now
			}
			continue
		}

		var w Writing
		if !vm.Policy.IsDefault(k.name) {
			w = k.write(vm)
		}

		if w.Changes(vm.Domain(), k.mark) {
			marked[k.mark] = w.Marked
		}

		if w.Line != "" {
			extras = append(extras, placement.Extra{Key: k.name, Text: w.Line})
		}

		warnings = append(warnings, w.Warnings...)
	}

	return vm.With(marked, extras, warnings)
}
