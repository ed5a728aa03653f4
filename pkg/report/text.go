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
// the host beside that of the guest, the path types of both, one line per device
// with its reason, the budgets, and the warnings with their remedies.
func (r Report) WriteText(w io.Writer, style Style) error {
	var b strings.Builder
	head := r.head()
	if r.DryRun {
		head += " (dry run)"
	}
	writeLine(&b, style.paint(bold, head))
	if choice := r.choice(); choice != "" {
		writeLine(&b, wrap(choice, textWidth, 2))
	}
	if r.Error != nil {
		writeLine(&b, style.paint(red, wrap("error: "+printable(*r.Error), textWidth, len("error: "))))
	}
	switch {
	case len(r.Devices) > 0:
		r.writeTrees(&b, style)
		r.writeMatrix(&b, style)
		r.writeDevices(&b, style)
		r.writeReasons(&b, style)
	case r.Error == nil:
		b.WriteString("the domain passes no PCI or mediated device through\n")
	}
	if len(r.Controllers) > 0 {
		r.writeBudgets(&b, style)
	}
	r.writeWarnings(&b, style)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeDevices writes one line per device.
func (r Report) writeDevices(b *strings.Builder, style Style) {
	number := max(len("#00"), len(fmt.Sprintf("#%d", len(r.Devices)-1)))
	why := len("WHY")
	for _, d := range r.Devices {
		why = max(why, columns(r.why(d)))
	}
	room := textWidth - number - len("      NODE  CELL  LIBVIRT  SEEN AS  ") - why
	aliases := max(len("ALIAS"), r.longestTitle())
	ids, idWidth := r.shownIDs(room - aliases)
	aliases = max(len("ALIAS"), min(aliases, room-idWidth))
	fmt.Fprintf(b, "\n%s\n", style.paint(bold, fmt.Sprintf("%-*s  %s  %s  NODE  CELL  LIBVIRT  SEEN AS  WHY",
		number, "#", pad("ALIAS", aliases), pad("HOST DEVICE", idWidth))))
	for i, d := range r.Devices {
		line := fmt.Sprintf("%-*s  %s  %s  %-4s  %-4s  %-7s  %-7s  %s",
			number, fmt.Sprintf("#%d", i), pad(style.fit(printable(title(d.Alias)), aliases), aliases), pad(ids[i], idWidth),
			or(d.HostNode, "none"), or(d.GuestCell, "none"), shortOr(d.GuestAddress, "-"), shortOr(d.Predicted, "-"), r.why(d))
		if d.Outcome == placement.Unplaced {
			line = style.paint(red, line)
		}
		writeLine(b, line)
	}
}

// why is the outcome of a device with its reason. In the current domain there is
// none.
func (r Report) why(d Device) string {
	if r.isCurrent {
		return "as it is"
	}
	why := fmt.Sprintf("%s: %s", d.Outcome, d.Reason)
	if d.Added {
		why += ", added"
	}
	return why
}

func (r Report) longestTitle() int {
	longest := 0
	for _, d := range r.Devices {
		longest = max(longest, columns(printable(title(d.Alias))))
	}
	return longest
}

// shownIDs are the ids of the devices and the columns that they take. UUIDs that
// take more than width columns are shortened.
func (r Report) shownIDs(width int) (ids []string, longest int) {
	longest = len("HOST DEVICE")
	for _, d := range r.Devices {
		id := d.ID.String()
		if columns(id) > width {
			id = shortID(d.ID)
		}
		ids, longest = append(ids, id), max(longest, columns(id))
	}
	return ids, longest
}

// shortID is an id, or the part of a UUID that differs from most others.
func shortID(id topology.DeviceID) string {
	if uuid, isMDEV := id.MDEV(); isMDEV {
		return string(uuid[:len("4a1f0b5c")]) + "-.."
	}
	return id.String()
}

// writeReasons writes what the reasons mean, and what can be done about devices
// that are not placed.
func (r Report) writeReasons(b *strings.Builder, style Style) {
	for _, reason := range reasons.Reasons() {
		devices := r.withReason(reason)
		if len(devices) == 0 || r.isCurrent {
			continue
		}
		text := string(reason) + ": " + reason.Meaning()
		// A companion has its cell, or none, from another device.
		if reason != reasons.Companion && slices.ContainsFunc(devices, isPlacedWithoutCell) {
			text += "; it is placed beside its neighbours, and its numa_node stays -1"
		}
		writeLine(b, "  "+wrap(text, textWidth-2, 2))
	}
	for _, reason := range r.unplacedReasons() {
		writeRemedy(b, style, string(reason)+": "+reason.Remedy())
	}
}

// withReason are the devices that have a reason.
func (r Report) withReason(reason reasons.Reason) []Device {
	return slices.DeleteFunc(slices.Clone(r.Devices), func(d Device) bool { return d.Reason != reason })
}

func isPlacedWithoutCell(d Device) bool { return d.Outcome == placement.Placed && d.GuestCell == nil }

// unplacedReasons are the reasons of devices that have no place, each once.
func (r Report) unplacedReasons() []reasons.Reason {
	var all []reasons.Reason
	for _, d := range r.Devices {
		if d.Outcome == placement.Unplaced && !slices.Contains(all, d.Reason) {
			all = append(all, d.Reason)
		}
	}
	return all
}

// writeBudgets writes how much of what is scarce is used.
func (r Report) writeBudgets(b *strings.Builder, style Style) {
	fmt.Fprintf(b, "\n%s\n", style.paint(bold, "BUDGETS"))
	line := func(what string, budget Budget, unit string) {
		colour := plain
		if budget.Used > budget.Limit {
			colour = red
		}
		writeLine(b, style.paint(colour, fmt.Sprintf("%-38s %3d of %3d %s", what, budget.Used, budget.Limit, unit)))
	}
	line("root bus", r.Budgets.BusNumbers.Budget, "bus numbers")
	for _, e := range r.Budgets.BusNumbers.Expanders {
		cell := "no cell"
		if n := r.controller(topology.Index(e.Index)).Cell; n != nil {
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
		// Warnings with the same remedy show it once.
		last := i == len(r.Warnings)-1 || r.Warnings[i+1].Remedy != warning.Remedy
		if last && warning.Remedy != "" {
			writeRemedy(b, style, warning.Remedy)
		}
	}
}

func writeRemedy(b *strings.Builder, style Style, text string) {
	writeLine(b, "  "+style.paint(green, "remedy:")+" "+wrap(printable(text), textWidth-len("  remedy: "), len("  remedy: ")))
}
