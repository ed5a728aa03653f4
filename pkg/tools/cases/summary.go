package cases

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
)

// summary describes a plan in short: each device, the bus numbers and the warnings.
func summary(result plan.Result) string {
	r := report.New(result.Plan, result.Changed(), result.Err)
	var b strings.Builder
	fmt.Fprintf(&b, "layout %s: %d placed, %d kept, %d unplaced, %d added\n", r.Layout,
		r.Count(placement.Placed), r.Count(placement.Kept), r.Count(placement.Unplaced), r.Added())
	if r.LayoutReason != nil {
		fmt.Fprintf(&b, "layout %s: %s, since %s\n", r.Policy[policy.KeyLayout].Value, r.Layout,
			*r.LayoutReason)
	}

	for _, extra := range r.Extras {
		fmt.Fprintf(&b, "%s %s: %s\n", extra.Key, r.Policy[extra.Key].Value, extra.Text)
	}

	if r.Error != nil {
		fmt.Fprintf(&b, "error: %s\n", *r.Error)
	}

	if len(r.Devices) > 0 {
		rows := [][]any{{"\nALIAS", "HOST DEVICE", "NODE -> CELL", "GUEST ADDRESS", "SEEN AS",
			"WHY"}}
		for _, d := range r.Devices {
			rows = append(rows,
				[]any{or(d.Alias, "-"), d.ID, or(d.HostNode, "none") + " -> " +
					or(d.GuestCell, "none"),
					or(d.GuestAddress, "-"), or(d.Predicted, "-"), fmt.Sprintf("%s: %s", d.Outcome,
						d.Reason)})
		}

		table(&b, rows)
	}

	if buses := r.Budgets.BusNumbers; len(buses.Expanders) > 0 {
		rows := [][]any{
			{"\nROOT BUS", "INDEX", "CELL", "BUS NUMBERS"},
			{"root bus", 0, "-", fmt.Sprintf("%d of %d", buses.Used, buses.Limit)},
		}

		for _, e := range buses.Expanders {
			i := slices.IndexFunc(r.Controllers, func(c report.Controller) bool {
				return c.Index == e.Index
			})
			rows = append(rows, []any{
				fmt.Sprintf("expander bus 0x%02x", e.BusNr), e.Index,
				or(r.Controllers[i].Cell, "none"), fmt.Sprintf("%d of %d", e.Used, e.Limit),
			})
		}

		table(&b, rows)
	}

	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "\nwarning: %s: %s\n  remedy: %s\n", w.Code, w.Text, w.Remedy)
	}

	return b.String()
}

func table(b *strings.Builder, rows [][]any) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(w, strings.Repeat("%v\t", len(row)-1)+"%v\n", row...)
	}
	w.Flush()
}

func or[T any](v *T, unknown string) string {
	if v == nil {
		return unknown
	}
	return fmt.Sprint(*v)
}
