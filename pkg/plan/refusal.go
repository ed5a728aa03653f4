package plan

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Kind is the cause of an error.
type Kind int

// The kinds of error.
const (
	Internal  Kind = iota // a bug in this program
	Malformed             // the domain, the VMI or the policy is invalid
	Refused               // strict policy and an unplaced device, or a result over Limit.Result
)

// PanicError is a panic that was caught.
type PanicError struct {
	Cause any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v", e.Cause) }

func newPanicError(cause any) *PanicError { return &PanicError{Cause: cause, Stack: debug.Stack()} }

// maxRefusal is the size in bytes of the largest refusal. virt-handler writes it after some
// words into an event, of which Kubernetes keeps 1024 bytes.
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
	return fmt.Errorf("strict: %s", join(complaints, maxRefusal))
}

// complaint is one cause of a refusal, with its devices.
type complaint struct {
	about  []string
	comma  string // between them
	reason string // why they are not placed; "" of a warning
	remedy string
}

// complaintsOf has one complaint per reason and kind of warning, in the order of
// their first devices.
func complaintsOf(plan *placement.Plan) []complaint {
	var all []complaint
	index := map[string]int{}
	add := func(code, about string, c complaint) {
		i, known := index[code]
		if !known {
			i = len(all)
			index[code], all = i, append(all, c)
		}
		all[i].about = append(all[i].about, topology.Printable(about))
	}
	for _, d := range plan.Devices {
		if d.Outcome == placement.Unplaced {
			about := fmt.Sprintf("%s (%s)", d.ID, cmp.Or(topology.Abridge(d.Alias), "no alias"))
			add(string(d.Reason), about, complaint{comma: ", ", reason: string(d.Reason), remedy: ": " + d.Reason.Remedy()})
		}
	}
	for _, w := range plan.Warnings {
		switch w.Code {
		case reasons.CodeNotAllocated, reasons.CodeBadDeviceName:
			add("warning "+string(w.Code), w.Text, complaint{comma: "; ", remedy: ": " + w.Remedy})
		case reasons.CodeBudget, reasons.CodeBrokenRule:
			add("warning "+string(w.Code), w.Text, complaint{comma: "; "}) // the reason of the same name has the remedy
		}
	}
	return all
}

// join leaves out devices, and then complaints, that do not fit.
func join(complaints []complaint, limit int) string {
	const most = "; and more, which explain shows"
	var texts []string
	for i, c := range complaints {
		share := (limit - len(most)) / (len(complaints) - i)
		text := c.text(share)
		if len(text)+len(most) > limit {
			texts = append(texts, strings.TrimPrefix(most, "; "))
			break
		}
		texts = append(texts, text)
		limit -= len(text) + len("; ")
	}
	return strings.Join(texts, "; ")
}

// text names as many devices as fit, but at least one.
func (c complaint) text(limit int) string {
	whole := func(shown int) string {
		list := strings.Join(c.about[:shown], c.comma)
		if left := len(c.about) - shown; left > 0 {
			list += fmt.Sprintf(" and %d more", left)
		}
		switch {
		case c.reason == "":
			return list + c.remedy
		case len(c.about) == 1:
			return list + " is not placed: " + c.reason + c.remedy
		}
		return list + " are not placed: " + c.reason + c.remedy
	}
	shown := len(c.about)
	for shown > 1 && len(whole(shown)) > limit {
		shown--
	}
	return whole(shown)
}
