package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// WriteText writes the report for people, at most 100 columns wide: the tree of
// the host beside that of the guest, the path types of both, a line a device
// with its reason, the budgets, and the warnings with their remedies.
func (r Report) WriteText(w io.Writer, style Style) error {
	var b strings.Builder
	r.writeHead(&b, style)
	if len(r.Devices) == 0 && r.Error == nil {
		b.WriteString("the domain passes no PCI or mediated device through\n")
	}
	if len(r.Devices) > 0 {
		r.sideBySide(&b, style)
		r.writeMatrix(&b, style)
		r.writeReasons(&b, style)
	}
	if len(r.Controllers) > 0 {
		r.writeLimits(&b, style)
	}
	r.writeWarnings(&b, style)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Report) writeHead(b *strings.Builder, style Style) {
	c := r.Count()
	head := fmt.Sprintf("layout %s: %d placed, %d kept, %d unplaced, %d added", r.Layout, c.Placed, c.Kept, c.Unplaced, c.Added)
	if r.asIs {
		head = topology.Counted(len(r.Devices), "device") + " as the domain stands"
	}
	if r.DryRun {
		head += " (dry run)"
	}
	writeLine(b, style.paint(bold, head))
	if r.Error != nil {
		writeLine(b, style.paint(red, wrap("error: "+printable(*r.Error), textWidth, len("error: "))))
	}
}

// writeReasons writes a line a device, and what can be done about those that
// have no place.
func (r Report) writeReasons(b *strings.Builder, style Style) {
	number := max(len("#00"), len(fmt.Sprintf("#%d", len(r.Devices)-1)))
	fixed := number + len("      NODE  CELL  LIBVIRT  SEEN AS  ") + r.longestWhy()
	aliases := max(len("ALIAS"), r.longestName())
	ids, idWidth := r.shownIDs(textWidth - fixed - aliases)
	aliases = max(len("ALIAS"), min(aliases, textWidth-fixed-idWidth))
	fmt.Fprintf(b, "\n%s\n", style.paint(bold, fmt.Sprintf("%-*s  %s  %s  NODE  CELL  LIBVIRT  SEEN AS  WHY",
		number, "#", pad("ALIAS", aliases), pad("HOST DEVICE", idWidth))))
	for i, d := range r.Devices {
		line := fmt.Sprintf("%-*s  %s  %s  %-4s  %-4s  %-7s  %-7s  %s",
			number, fmt.Sprintf("#%d", i), pad(style.fit(printable(d.title()), aliases), aliases), pad(ids[i], idWidth),
			orNone(d.HostNode), orNone(d.GuestCell), guestShort(orDash(d.GuestAddress)), guestShort(orDash(d.Predicted)), r.why(d))
		writeLine(b, style.paint(outcomeColour(d), line))
	}
	for _, reason := range r.reasons() {
		text := string(reason) + ": " + reason.Meaning()
		if r.placedWithoutCell(reason) {
			text += "; it stands with its neighbours, and its numa_node stays -1"
		}
		writeLine(b, "  "+wrap(text, textWidth-2, 2))
	}
	for _, reason := range r.unplacedReasons() {
		writeRemedy(b, style, string(reason)+": "+reason.Remedy())
	}
}

// reasons are the reasons of all devices, each once, in the order of the
// documentation. As the domain stands there are none.
func (r Report) reasons() []reasons.Reason {
	return slices.DeleteFunc(reasons.Reasons(), func(reason reasons.Reason) bool {
		return r.asIs || !slices.ContainsFunc(r.Devices, func(d Device) bool { return d.Reason == string(reason) })
	})
}

// placedWithoutCell reports whether a device is placed though it has, for this
// reason, no cell. A companion goes with another device, whose reason says it.
func (r Report) placedWithoutCell(reason reasons.Reason) bool {
	return reason != reasons.Companion && slices.ContainsFunc(r.Devices, func(d Device) bool {
		return d.Reason == string(reason) && d.Outcome == string(placement.Placed) && d.GuestCell == nil
	})
}

// why is the outcome of a device with its reason. As the domain stands there is
// none.
func (r Report) why(d Device) string {
	switch {
	case r.asIs:
		return "as it stands"
	case d.Added:
		return d.Outcome + ": " + d.Reason + ", added"
	}
	return d.Outcome + ": " + d.Reason
}

func (r Report) longestWhy() int {
	longest := len("WHY")
	for _, d := range r.Devices {
		longest = max(longest, columns(r.why(d)))
	}
	return longest
}

func outcomeColour(d Device) string {
	if d.Outcome == string(placement.Unplaced) {
		return red
	}
	return plain
}

// shownIDs are the ids of the devices and the columns that they take; UUIDs are
// cut where these are more than there are.
func (r Report) shownIDs(width int) (ids []string, longest int) {
	longest = len("HOST DEVICE")
	for _, d := range r.Devices {
		id := d.ID
		if d.Kind == "mdev" && columns(id) > width {
			id = d.shortID()
		}
		ids, longest = append(ids, id), max(longest, columns(id))
	}
	return ids, longest
}

// shortID is the id, or the part of a UUID that tells it from most others.
func (d Device) shortID() string {
	if d.Kind == "mdev" {
		return d.ID[:len("4a1f0b5c")] + "-.."
	}
	return d.ID
}

// unplacedReasons are the reasons of devices that have no place, each once.
func (r Report) unplacedReasons() []reasons.Reason {
	var all []reasons.Reason
	for _, d := range r.Devices {
		if reason := reasons.Reason(d.Reason); d.Outcome == string(placement.Unplaced) && !slices.Contains(all, reason) {
			all = append(all, reason)
		}
	}
	return all
}

// writeLimits writes how much of what is scarce is used.
func (r Report) writeLimits(b *strings.Builder, style Style) {
	fmt.Fprintf(b, "\n%s\n", style.paint(bold, "BUDGETS"))
	line := func(what string, budget Budget, unit string) {
		colour := plain
		if budget.Used > budget.Limit {
			colour = red
		}
		writeLine(b, style.paint(colour, fmt.Sprintf("%-38s %3d of %3d %s", what, budget.Used, budget.Limit, unit)))
	}
	line("main bus", r.Budgets.BusNumbers.Budget, "bus numbers")
	for _, e := range r.Budgets.BusNumbers.Expanders {
		cell := "no cell"
		if n := r.cellOf(e.Index); n != nil {
			cell = fmt.Sprintf("cell %d", *n)
		}
		line(fmt.Sprintf("expander bus 0x%02x, index %d, %s", e.BusNr, e.Index, cell), e.Budget, "bus numbers")
	}
	line("controllers of the domain", r.Budgets.ControllerIndexes, "indexes")
	if r.Budgets.BARs.Bytes64 > 0 {
		writeLine(b, "64-bit BARs of the devices                 "+topology.BytesNeeded(r.Budgets.BARs.Bytes64))
	}
}

func (r Report) writeWarnings(b *strings.Builder, style Style) {
	for i, warning := range r.Warnings {
		if i == 0 || r.Warnings[i-1].Code != warning.Code {
			b.WriteString("\n")
		}
		text := fmt.Sprintf("warning: %s: %s", warning.Code, printable(warning.Text))
		writeLine(b, style.paint(yellow, wrap(text, textWidth, 2)))
		// One remedy is enough for several warnings of a kind.
		last := i == len(r.Warnings)-1 || r.Warnings[i+1].Remedy != warning.Remedy
		if last && warning.Remedy != "" {
			writeRemedy(b, style, warning.Remedy)
		}
	}
}

func writeRemedy(b *strings.Builder, style Style, text string) {
	writeLine(b, "  "+style.paint(green, "remedy:")+" "+wrap(printable(text), textWidth-len("  remedy: "), len("  remedy: ")))
}
