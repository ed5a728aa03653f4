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

// WriteText writes the report for people, as wide as the style says: what it is
// about, the outcome with the reasons of what has no place, the tree of the host
// beside that of the guest, the path types of both, one line per device with its
// reason, the budgets, and the warnings with their remedies.
func (r Report) WriteText(w io.Writer, style Style) error {
	var b strings.Builder
	r.Subject.write(&b, style)
	head := r.head()
	if r.DryRun {
		head += " (dry run)"
	}
	writeLine(&b, style.Paint(bold, head))
	r.writeCauses(&b, style)
	if choice := r.choice(); choice != "" && !r.isElsewhere() {
		writeLine(&b, style.wrap(choice, 0, 2))
	}
	for _, extra := range r.Extras {
		writeLine(&b, style.wrap(r.line(extra), 0, 2))
	}
	if r.Error != nil {
		writeLine(&b, style.Paint(Red, style.wrap("error: "+topology.Printable(*r.Error), 0, len("error: "))))
	}
	switch {
	case r.isElsewhere() && !r.isCurrent:
		r.writeDevices(&b, style)
	case len(r.Devices) > 0:
		r.writeTrees(&b, style)
		r.writeMatrix(&b, style)
		r.writeDevices(&b, style)
		r.writeReasons(&b, style)
		if r.Details {
			r.writeLinks(&b, style)
		}
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

// writeCauses writes why devices have no place, with the remedies, and where nothing
// is placed why all are kept.
func (r Report) writeCauses(b *strings.Builder, style Style) {
	for _, reason := range r.unplacedReasons() {
		devices := r.withReason(reason)
		text, remedy := reason.Meaning(), reason.Remedy()
		if r.isElsewhere() {
			text, remedy = r.notHere(), reasons.TakeSnapshot
		}
		writeLine(b, style.Paint(Red, style.wrap(fmt.Sprintf("%d unplaced, %s: %s", len(devices), reason, text), 0, 2)))
		writeRemedy(b, style, remedy)
	}
	if r.isElsewhere() && r.Count().Unplaced == 0 {
		writeLine(b, style.Paint(Red, style.wrap(r.notHere(), 0, 2)))
		writeRemedy(b, style, reasons.TakeSnapshot)
	}
	if !r.isCurrent && r.Count().Placed == 0 {
		for _, reason := range r.reasonsOf(placement.Kept) {
			writeLine(b, style.wrap(fmt.Sprintf("%d kept, %s: %s", len(r.withReason(reason)), reason, reason.Meaning()), 0, 2))
		}
	}
}

// isElsewhere reports whether the host shows none of the devices: it is not the node
// of this VM.
func (r Report) isElsewhere() bool {
	missing := 0
	for _, warning := range r.Warnings {
		if isMissing(warning) {
			missing++
		}
	}
	return missing > 0 && missing == len(r.Devices)
}

// isMissing reports whether a warning is about a device that the host does not show.
func isMissing(w Warning) bool { return w.Code == reasons.CodeNoSysfs && w.Device != nil }

func (r Report) notHere() string {
	if len(r.Devices) == 1 {
		return r.Devices[0].ID.String() + " is not on this host"
	}
	return fmt.Sprintf("none of the %d devices is on this host", len(r.Devices))
}

// writeDevices writes one line per device. Where a line is too narrow, host devices
// lose their PCI domain, then libvirt's address is left out, then aliases are cut.
func (r Report) writeDevices(b *strings.Builder, style Style) {
	t := deviceTable{number: max(len("#00"), len(fmt.Sprintf("#%d", len(r.Devices)-1))), aliases: len("ALIAS"), why: len("WHY"), hasLibvirt: true}
	for _, d := range r.Devices {
		t.aliases, t.why = max(t.aliases, columns(topology.Printable(title(d.Alias)))), max(t.why, columns(r.why(d)))
	}
	t.setIDs(r, topology.DeviceID.String)
	if t.width() > style.width() {
		t.setIDs(r, r.shortID)
	}
	if t.width() > style.width() {
		t.hasLibvirt = false
	}
	t.aliases = max(len("ALIAS"), t.aliases-max(0, t.width()-style.width()))
	fmt.Fprintf(b, "\n%s\n", style.Paint(bold, t.line("#", "ALIAS", "HOST DEVICE", "NODE", "CELL", "LIBVIRT", "SEEN AS", "WHY")))
	for i, d := range r.Devices {
		line := t.line(fmt.Sprintf("#%d", i), style.fit(topology.Printable(title(d.Alias)), t.aliases), t.ids[i],
			or(d.HostNode, "none"), or(d.GuestCell, "none"), shortOr(d.GuestAddress, "-"), shortOr(d.Predicted, "-"), r.why(d))
		if d.Outcome == placement.Unplaced {
			line = style.Paint(Red, line)
		}
		writeLine(b, line)
	}
}

// deviceTable is the widths of the table of devices.
type deviceTable struct {
	number, aliases, longestID, why int
	hasLibvirt                      bool // has the column LIBVIRT
	ids                             []string
}

func (t *deviceTable) setIDs(r Report, text func(topology.DeviceID) string) {
	t.ids, t.longestID = nil, len("HOST DEVICE")
	for _, d := range r.Devices {
		t.ids = append(t.ids, text(d.ID))
		t.longestID = max(t.longestID, columns(text(d.ID)))
	}
}

func (t *deviceTable) width() int {
	return columns(t.line("", "", "", "", "", "", "", strings.Repeat(" ", t.why)))
}

func (t *deviceTable) line(number, alias, id, node, cell, libvirt, seen, why string) string {
	line := pad(number, t.number) + "  " + pad(alias, t.aliases) + "  " + pad(id, t.longestID) + "  " + pad(node, len("NODE")) + "  " + pad(cell, len("CELL"))
	if t.hasLibvirt {
		line += "  " + pad(libvirt, len("LIBVIRT"))
	}
	return line + "  " + pad(seen, len("SEEN AS")) + "  " + why
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

// shortID is an address without the PCI domain that all have, or the part of a UUID
// that differs from most others.
func (r Report) shortID(id topology.DeviceID) string {
	if pci, isPCI := id.PCI(); isPCI {
		return r.short(pci)
	}
	return shortID(id)
}

// shortID is an id, or the part of a UUID that differs from most others.
func shortID(id topology.DeviceID) string {
	if uuid, isMDEV := id.MDEV(); isMDEV {
		return string(uuid[:len("4a1f0b5c")]) + "-.."
	}
	return id.String()
}

// writeReasons writes what the reasons mean, but for those that writeCauses has
// written.
func (r Report) writeReasons(b *strings.Builder, style Style) {
	for _, reason := range reasons.Reasons() {
		devices := r.withReason(reason)
		if len(devices) == 0 || r.isCurrent || r.Count().Placed == 0 || devices[0].Outcome == placement.Unplaced {
			continue
		}
		text := string(reason) + ": " + reason.Meaning()
		// A companion has its cell, or none, from another device.
		if reason != reasons.Companion && slices.ContainsFunc(devices, isPlacedWithoutCell) {
			text += "; it is placed beside its neighbours, and its numa_node stays -1"
		}
		writeLine(b, "  "+style.wrap(text, 2, 2))
	}
}

// withReason are the devices that have a reason.
func (r Report) withReason(reason reasons.Reason) []Device {
	return slices.DeleteFunc(slices.Clone(r.Devices), func(d Device) bool { return d.Reason != reason })
}

func isPlacedWithoutCell(d Device) bool { return d.Outcome == placement.Placed && d.GuestCell == nil }

// unplacedReasons are the reasons of devices that have no place, each once.
func (r Report) unplacedReasons() []reasons.Reason { return r.reasonsOf(placement.Unplaced) }

// reasonsOf are the reasons of devices with an outcome, each once.
func (r Report) reasonsOf(outcome placement.Outcome) []reasons.Reason {
	var all []reasons.Reason
	for _, d := range r.Devices {
		if d.Outcome == outcome && !slices.Contains(all, d.Reason) {
			all = append(all, d.Reason)
		}
	}
	return all
}

// writeBudgets writes how much of what is scarce is used.
func (r Report) writeBudgets(b *strings.Builder, style Style) {
	fmt.Fprintf(b, "\n%s\n", style.Paint(bold, "BUDGETS"))
	line := func(what string, budget Budget, unit string) {
		colour := plain
		if budget.Used > budget.Limit {
			colour = Red
		}
		writeLine(b, style.Paint(colour, fmt.Sprintf("%-38s %3d of %3d %s", what, budget.Used, budget.Limit, unit)))
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
	shown := r.Warnings
	if r.isElsewhere() { // writeCauses has said so
		shown = slices.DeleteFunc(slices.Clone(shown), isMissing)
	}
	for i, warning := range shown {
		if i == 0 || shown[i-1].Code != warning.Code {
			b.WriteString("\n")
		}
		text := fmt.Sprintf("warning: %s: %s", warning.Code, topology.Printable(warning.Text))
		writeLine(b, style.Paint(Yellow, style.wrap(text, 0, 2)))
		// Warnings with the same remedy show it once.
		last := i == len(shown)-1 || shown[i+1].Remedy != warning.Remedy
		if last && warning.Remedy != "" {
			writeRemedy(b, style, warning.Remedy)
		}
	}
}

func writeRemedy(b *strings.Builder, style Style, text string) {
	const head = "remedy:"
	writeLine(b, "  "+style.Paint(Green, head)+" "+style.wrap(topology.Printable(text), len("  "+head+" "), len("  "+head+" ")))
}
