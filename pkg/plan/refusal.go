package plan

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/words"
)

// maxRefusal is the size in bytes of the largest refusal. virt-handler writes it after some words
// into an event; Kubernetes keeps 1024 bytes of it.
const maxRefusal = 896

// refusal returns the error of strict mode: every unplaced device with the reason and the
// remedy. Devices kept on purpose, layout keep and a domain without devices are not
// refused.
func refusal(plan *placement.Plan) error {
	if plan.Policy.Layout == policy.LayoutKeep || len(plan.Devices) == 0 {
		return nil
	}

	complaints := complaintsOf(plan)
	if len(complaints) == 0 {
		return nil
	}

	// A text that is too long names fewer devices of each reason, and only then loses its end.
	var text string
	for _, shown := range []int{math.MaxInt, 16, 8, 4, 1} {
		if text = join(complaints, shown); len(text) <= maxRefusal {
			break
		}
	}

	return fmt.Errorf("strict: %s", words.AbridgeTo(text, maxRefusal))
}

// complaint is one cause of a refusal, with its devices.
type complaint struct {
	about  []string
	comma  string // between them
	reason string // why they are not placed; "" of a warning
	remedy string
}

// complaintsOf returns one complaint per reason and kind of warning, in the order of their first
// devices.
func complaintsOf(plan *placement.Plan) []complaint {
	var all []complaint
	index := map[string]int{}
	add := func(code, about string, c complaint) {
		i, known := index[code]
		if !known {
			i = len(all)
			index[code], all = i, append(all, c)
		}

		all[i].about = append(all[i].about, words.Printable(about))
	}

	for _, d := range plan.Devices {
		if d.Outcome == placement.Unplaced {
			about := fmt.Sprintf("%s (%s)", d.ID, cmp.Or(words.Abridge(d.Alias), "no alias"))
			add(string(d.Reason), about, complaint{
				comma: ", ", reason: string(d.Reason), remedy: ": " + d.Reason.Remedy(),
			})
		}
	}

	for _, w := range plan.Warnings {
		switch w.Code {
		case reasons.CodeNotAllocated, reasons.CodeBadDeviceName:
			add("warning "+string(w.Code), w.Text, complaint{comma: "; ", remedy: ": " + w.Remedy})
		case reasons.CodeBudget, reasons.CodeBrokenRule:
			// the reason of the same name has the remedy
			add("warning "+string(w.Code), w.Text, complaint{comma: "; "})
		}
	}

	return all
}

// join names at most so many devices of each complaint.
func join(complaints []complaint, shown int) string {
	var texts []string
	for _, c := range complaints {
		list := words.FirstOf(c.about, shown, c.comma)
		switch {
		case c.reason != "" && len(c.about) == 1:
			list += " is not placed: " + c.reason
		case c.reason != "":
			list += " are not placed: " + c.reason
		}

		texts = append(texts, list+c.remedy)
	}

	return strings.Join(texts, "; ")
}
