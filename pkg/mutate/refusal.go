package mutate

import (
	"cmp"
	"fmt"
	"strings"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
)

// refusal returns the error of strict mode: every unplaced device with the
// reason and the remedy. Devices that are kept on purpose, layout keep and a
// domain without devices are no reason to refuse.
func refusal(plan *placement.Plan) error {
	if plan.Policy.Layout == policy.LayoutKeep || len(plan.Devices) == 0 {
		return nil
	}
	var texts []string
	for _, d := range plan.Devices {
		if d.Outcome == placement.Unplaced {
			texts = append(texts, fmt.Sprintf("%s (%s) is not placed: %s: %s", d.ID, cmp.Or(d.Alias, "no alias"), d.Reason, d.Reason.Remedy()))
		}
	}
	for _, w := range plan.Warnings {
		switch w.Code {
		case reasons.CodeNotAllocated, reasons.CodeBadDeviceName:
			texts = append(texts, w.Text+": "+w.Remedy)
		case reasons.CodeBudget, reasons.CodeBrokenRule:
			texts = append(texts, w.Text) // the texts of the unplaced devices have the remedy
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return &Error{Refused, fmt.Errorf("strict: %s", strings.Join(texts, "; "))}
}
