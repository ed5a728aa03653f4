package plan_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/rogpeppe/go-internal/diff"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
)

const root = "../.."

// TestGolden compares the changes to each case's domain, and what explain says,
// with what the case wants.
func TestGolden(t *testing.T) {
	for _, c := range cases.Load(t, root) {
		t.Run(c.Name, func(t *testing.T) {
			got := map[string][]byte{}
			result := c.Planner.Read(c.Request).Plan()
			got["want.diff"] = changes(c.Request.Domain, result.Domain)
			got["want.txt"] = explanation(result)
			if *update {
				expect.NoError(t, c.Update(got))
				return
			}

			for name, data := range got {
				expect.Same(t, string(c.Section(name)), string(data),
					"%s (-want +got), rewrite with -update and review", name)
			}
		})
	}
}

var update = flag.Bool("update", false, "rewrite what the golden cases want")

func changes(before, after []byte) []byte {
	d := string(diff.Diff("domain.xml", before, "domain.xml", after))
	_, body, _ := strings.Cut(d, "+++ domain.xml\n")
	return []byte(body)
}

// explanation describes a plan in short: each device, the bus numbers and the warnings.
func explanation(result plan.Result) []byte {
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

	return []byte(b.String())
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
