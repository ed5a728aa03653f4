package doctor

import (
	"fmt"
	"strings"

	"hook-sidecar/pkg/topology"
)

// strict checks whether strict mode starts the VM.
func strict(in Inputs) []Result {
	switch {
	case !in.Plan.Policy.Strict:
		return nil
	case in.Err != nil:
		return fail("remedy what the message names, or unset strict", "%s", oneLine(in.Err.Error()))
	}
	return pass("the VM starts")
}

// layoutFit checks whether the pairs of devices are as far from each other as on
// the host.
func layoutFit(in Inputs) []Result {
	pairs := in.Plan.Pairs()
	if pairs.Known == 0 {
		return nil
	}
	found := fmt.Sprintf("layout %s: %d of %s as on the host", in.Plan.Layout, pairs.Alike, topology.Counted(pairs.Known, "pair"))
	if pairs.Alike == pairs.Known {
		return pass("%s", found)
	}
	if in.Plan.Why != "" {
		return note("", "%s, since %s", found, in.Plan.Why)
	}
	var better []string
	if in.Alternatives != nil {
		for _, a := range in.Alternatives() {
			if a.Alike > pairs.Alike {
				better = append(better, fmt.Sprintf("%d with layout %s", a.Alike, a.Layout))
			}
		}
	}
	if len(better) == 0 {
		return note("", "%s; no layout has more", found)
	}
	return warn(strings.Join(better, ", "), "%s", found)
}

// planWarnings are the warnings of the plan, and of the policy, that no other
// check reports.
func planWarnings(in Inputs) []Result {
	warnings := in.PolicyWarnings
	if in.Plan != nil {
		warnings = in.Plan.Warnings
	}
	var found []Result
	for _, w := range warnings {
		if w.Code.Check() != "" {
			continue
		}
		results := warn(w.Remedy, "%s: %s", w.Code, oneLine(w.Text))
		if w.Device != nil {
			results = about(*w.Device, results)
		}
		found = append(found, results...)
	}
	return orPass(found, "none besides what other checks say")
}
