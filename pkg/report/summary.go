package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Counts are the devices of a report by what became of them.
type Counts struct{ Placed, Kept, Unplaced, Added int }

// Count counts the devices.
func (r Report) Count() Counts {
	var c Counts
	for _, d := range r.Devices {
		switch d.Outcome {
		case "placed":
			c.Placed++
		case "kept":
			c.Kept++
		default:
			c.Unplaced++
		}
		if d.Added {
			c.Added++
		}
	}
	return c
}

// WriteSummary writes the report in short: a line a device, then the expander
// buses with their budgets, then the warnings with their remedies.
func (r Report) WriteSummary(w io.Writer) error {
	var b strings.Builder
	c := r.Count()
	fmt.Fprintf(&b, "layout %s: %d placed, %d kept, %d unplaced, %d added\n", r.Layout, c.Placed, c.Kept, c.Unplaced, c.Added)
	if r.Error != nil {
		fmt.Fprintf(&b, "error: %s\n", *r.Error)
	}
	if len(r.Devices) > 0 {
		b.WriteString("\n")
		r.writeDevices(&b)
	}
	if len(r.Budgets.BusNumbers.Expanders) > 0 {
		b.WriteString("\n")
		r.writeBudgets(&b)
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(&b, "\nwarning: %s: %s\n  remedy: %s\n", warning.Code, warning.Text, warning.Remedy)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeDevices writes a line a device: alias, host address, host node and guest
// cell, guest address, the address that the guest shows, and the reason.
func (r Report) writeDevices(b *strings.Builder) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ALIAS\tHOST DEVICE\tNODE -> CELL\tGUEST ADDRESS\tSEEN AS\tWHY")
	for _, d := range r.Devices {
		fmt.Fprintf(table, "%s\t%s\t%s -> %s\t%s\t%s\t%s: %s\n", orDash(d.Alias), d.ID, orNone(d.HostNode), orNone(d.GuestCell),
			orDash(d.GuestAddress), orDash(d.Predicted), d.Outcome, d.Reason)
	}
	table.Flush()
}

func (r Report) writeBudgets(b *strings.Builder) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ROOT BUS\tINDEX\tCELL\tBUS NUMBERS")
	fmt.Fprintf(table, "main bus\t0\t-\t%d of %d\n", r.Budgets.BusNumbers.Used, r.Budgets.BusNumbers.Limit)
	for _, e := range r.Budgets.BusNumbers.Expanders {
		fmt.Fprintf(table, "expander bus 0x%02x\t%d\t%s\t%d of %d\n", e.BusNr, e.Index, orNone(r.cellOf(e.Index)), e.Used, e.Limit)
	}
	table.Flush()
}

func (r Report) cellOf(index int) *int {
	for _, c := range r.Controllers {
		if c.Index == index {
			return c.Cell
		}
	}
	return nil
}

func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func orNone(n *int) string {
	if n == nil {
		return "none"
	}
	return strconv.Itoa(*n)
}
