package mutate

import (
	"fmt"
	"strings"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
)

// refusal is the error of strict mode: each device that has no place, why, and
// the remedy. Devices that are kept on purpose, layout keep and a domain without
// devices never refuse.
func refusal(plan *placement.Plan) error {
	if plan.Policy.Layout == policy.LayoutKeep || len(plan.Devices) == 0 {
		return nil
	}
	var texts []string
	for _, d := range plan.Devices {
		if d.Outcome == placement.Unplaced {
			texts = append(texts, fmt.Sprintf("%s (%s) is not placed: %s: %s", d.ID, named(d.Alias), d.Reason, d.Reason.Remedy()))
		}
	}
	for _, w := range plan.Warnings {
		switch w.Code {
		case reasons.CodeNotAllocated, reasons.CodeBadDeviceName:
			texts = append(texts, w.Text+": "+w.Remedy)
		case reasons.CodeBudget, reasons.CodeBrokenRule:
			texts = append(texts, w.Text) // the devices that it leaves say the remedy
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return &Error{Refused, fmt.Errorf("strict: %s", strings.Join(texts, "; "))}
}

func named(alias string) string {
	if alias == "" {
		return "no alias"
	}
	return alias
}
