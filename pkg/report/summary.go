package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// Counts are the numbers of devices by outcome, and of those that are added.
type Counts struct{ Placed, Kept, Unplaced, Added int }

// Count counts the devices.
func (r Report) Count() Counts {
	var c Counts
	for _, d := range r.Devices {
		switch d.Outcome {
		case placement.Placed:
			c.Placed++
		case placement.Kept:
			c.Kept++
		case placement.Unplaced:
			c.Unplaced++
		}
		if d.Added {
			c.Added++
		}
	}
	return c
}

// head is the report in one line.
func (r Report) head() string {
	if r.isCurrent {
		return topology.Counted(len(r.Devices), "device") + " in the current domain"
	}
	c := r.Count()
	return fmt.Sprintf("layout %s: %d placed, %d kept, %d unplaced, %d added", r.Layout, c.Placed, c.Kept, c.Unplaced, c.Added)
}

// layoutTitle is the layout, with the policy's word where it is another.
func (r Report) layoutTitle() string {
	if r.LayoutReason == nil {
		return string(r.Layout)
	}
	return fmt.Sprintf("%s (%s)", r.Layout, r.Policy[policy.KeyLayout].Value)
}

// choice is which layout was chosen and why, in one line; "" where the policy
// names it.
func (r Report) choice() string {
	if r.LayoutReason == nil {
		return ""
	}
	return fmt.Sprintf("layout %s: %s, since %s", r.Policy[policy.KeyLayout].Value, r.Layout, *r.LayoutReason)
}

// line is the extra with the value of its key.
func (r Report) line(e Extra) string {
	return fmt.Sprintf("%s %s: %s", e.Key, r.Policy[e.Key].Value, e.Text)
}

// WriteSummary writes the report in short: one line per device, then the
// expander buses with their budgets, then the warnings with their remedies.
func (r Report) WriteSummary(w io.Writer) error {
	var b strings.Builder
	b.WriteString(r.head() + "\n")
	if choice := r.choice(); choice != "" {
		b.WriteString(choice + "\n")
	}
	for _, extra := range r.Extras {
		b.WriteString(r.line(extra) + "\n")
	}
	if r.Error != nil {
		fmt.Fprintf(&b, "error: %s\n", *r.Error)
	}
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(r.Devices) > 0 {
		fmt.Fprintln(table, "\nALIAS\tHOST DEVICE\tNODE -> CELL\tGUEST ADDRESS\tSEEN AS\tWHY")
	}
	for _, d := range r.Devices {
		fmt.Fprintf(table, "%s\t%s\t%s -> %s\t%s\t%s\t%s: %s\n", or(d.Alias, "-"), d.ID, or(d.HostNode, "none"), or(d.GuestCell, "none"),
			or(d.GuestAddress, "-"), or(d.Predicted, "-"), d.Outcome, d.Reason)
	}
	table.Flush()
	if len(r.Budgets.BusNumbers.Expanders) > 0 {
		fmt.Fprintf(table, "\nROOT BUS\tINDEX\tCELL\tBUS NUMBERS\nroot bus\t0\t-\t%d of %d\n", r.Budgets.BusNumbers.Used, r.Budgets.BusNumbers.Limit)
	}
	for _, e := range r.Budgets.BusNumbers.Expanders {
		fmt.Fprintf(table, "expander bus 0x%02x\t%d\t%s\t%d of %d\n", e.BusNr, e.Index, or(r.controller(topology.Index(e.Index)).Cell, "none"), e.Used, e.Limit)
	}
	table.Flush()
	for _, warning := range r.Warnings {
		fmt.Fprintf(&b, "\nwarning: %s: %s\n  remedy: %s\n", warning.Code, warning.Text, warning.Remedy)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
