package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/peer"
	"hook-sidecar/pkg/words"
)

// WriteText writes the report for people: subject, headline, outcomes, why devices have no place,
// one line per device, warnings and, for the current domain, the changes that the layout would make.
// Details adds the trees of host and guest, their path types and more.
func (r Report) WriteText(w io.Writer, style Style) error {
	p := &printer{Style: style}
	p.WriteString(r.Subject.Text(style))
	p.headline(r)
	if next := r.nextStart(); next != "" {
		p.wrapped(Yellow, next)
	}

	hasDevices := len(r.Devices) > 0 // else the headline says all
	if hasDevices {
		p.outcome(r)
	}

	if r.Error != nil {
		p.line(p.Paint(Red, p.wrap("error: "+words.Printable(*r.Error), 0, len("error: "))))
	}

	switch {
	case !hasDevices:
		p.warnings(r)
		return p.to(w)

	case r.IsElsewhere() && !r.IsCurrent():
		p.devices(r)
	default:
		p.details(r, SectionTrees, p.trees)
		p.details(r, SectionPaths, p.matrices)
		p.devices(r)
		p.meanings(r)
		p.details(r, SectionConsumers, p.consumers)
		p.details(r, SectionLinks, p.links)
		p.details(r, SectionPaths, p.peerPaths)
		p.details(r, SectionStart, p.mapping)
	}

	p.details(r, SectionBudgets, p.budgets)
	p.warnings(r)
	if r.IsCurrent() {
		p.prospect(r)
	}

	if len(r.Details) == 0 {
		p.line("")
		p.wrapped(plain, "More, all or by name: --details="+strings.Join(Sections, ","))
	}

	return p.to(w)
}

// details writes a section if it was asked for.
func (p *printer) details(r Report, section Section, write func(Report)) {
	if r.Shows(section) {
		write(r)
	}
}

// mapping writes how long a start maps, and what makes that shorter.
func (p *printer) mapping(r Report) {
	if r.Mapping == nil {
		return
	}

	parts := r.Mapping.Text()
	if len(parts) == 0 {
		return
	}

	p.wrapped(plain, "start time (derived, not measured): "+strings.Join(parts, "; "))
	if r.Mapping.Cure != "" {
		p.remedy(r.Mapping.Cure)
	}
}

// Text returns the lines with which every text begins.
func (s Subject) Text(style Style) string {
	p := &printer{Style: style}
	parts := slices.DeleteFunc([]string{s.VM, s.Host, s.Source, s.Tool}, func(part string) bool {
		return part == ""
	})

	if len(parts) > 0 {
		p.wrapped(plain, words.Printable(strings.Join(parts, " | ")))
	}

	if s.Doubt != "" {
		p.wrapped(Yellow, "warning: "+words.Printable(s.Doubt))
	}

	return p.String()
}

// outcome writes what became of the devices, and why.
func (p *printer) outcome(r Report) {
	head := words.Counted(len(r.Devices), "device") + " in the current domain"
	if !r.IsCurrent() {
		head = fmt.Sprintf("layout %s: %d placed, %d kept, %d unplaced, %d added", r.Layout,
			r.Count(placement.Placed), r.Count(placement.Kept), r.Count(placement.Unplaced),
			r.Added())
	}

	if r.DryRun {
		head += " (dry run)"
	}

	p.line(head)
	p.causes(r)
	if choice := r.choice(); choice != "" && !r.IsElsewhere() {
		p.wrapped(plain, choice)
	}

	if order := topology.Map(r.GuestOrder, func(id topology.DeviceID) string {
		return fmt.Sprintf("#%d", r.Number(id))
	}); len(order) > 0 {
		p.wrapped(plain, "the guest's order is not the host's: "+strings.Join(order, " "))
	}

	p.slowPaths(r)

	for _, e := range r.Extras {
		p.wrapped(plain, fmt.Sprintf("%s %s: %s", e.Key, r.Policy[e.Key].Value, e.Text))
	}
}

// choice returns which layout was chosen and why; "" if the policy names it.
func (r Report) choice() string {
	if r.LayoutReason == nil {
		return ""
	}
	return fmt.Sprintf("layout %s: %s, since %s", r.Policy[policy.KeyLayout].Value, r.Layout,
		*r.LayoutReason)
}

// headline writes the outcome, and the remedy where another host or guest NUMA cells come
// first.
func (p *printer) headline(r Report) {
	if len(r.Headline) == 0 {
		return
	}

	p.wrapped(Bold, strings.Join(r.Headline, "; "))
	planned := r
	if r.IsCurrent() {
		planned = r.WouldChange.planned
	}

	// then causes has the remedy
	isCause := slices.Contains(planned.ReasonsOf(placement.Unplaced), reasons.NoGuestNUMA)
	switch {
	case r.IsElsewhere():
		p.remedy(reasons.TakeSnapshot)
	case findings.LacksCells(r.plan) && !isCause:
		p.remedy(reasons.NoGuestNUMA.Remedy())
	}
}

// causes writes why devices have no place, with remedies, and if none is placed why they
// are kept.
func (p *printer) causes(r Report) {
	if r.IsElsewhere() {
		return
	}

	for _, reason := range r.ReasonsOf(placement.Unplaced) {
		p.wrapped(Red,
			fmt.Sprintf("%d unplaced, %s: %s", len(r.WithReason(reason)), reason, reason.Meaning()))
		p.remedy(reason.Remedy())
	}

	if !r.IsCurrent() && r.Count(placement.Placed) == 0 {
		for _, reason := range r.ReasonsOf(placement.Kept) {
			p.wrapped(plain,
				fmt.Sprintf("%d kept, %s: %s", len(r.WithReason(reason)), reason, reason.Meaning()))
		}
	}
}

// Columns of the table of devices that change if a line is too narrow.
const (
	aliasColumn   = 1
	idColumn      = 2
	libvirtColumn = 5
)

// devices writes one line per device. If it is too narrow, host devices lose their PCI
// domain, then libvirt's address is left out, then aliases are cut.
func (p *printer) devices(r Report) {
	const gap = 2
	rows := deviceRows(r)
	excess := func() int { return tableWidth(rows, gap) - p.Columns() }
	if excess() > 0 {
		for i, d := range r.Devices {
			rows[i+1][idColumn] = r.shortID(d.ID)
		}
	}

	if excess() > 0 {
		for i, row := range rows {
			rows[i] = slices.Delete(row, libvirtColumn, libvirtColumn+1)
		}
	}

	if n := excess(); n > 0 {
		width := max(len("ALIAS"), columnWidths(rows)[aliasColumn]-n)
		for _, row := range rows {
			row[aliasColumn] = FitMiddle(row[aliasColumn], width)
		}
	}

	widths := columnWidths(rows)
	p.heading(rowText(rows[0], widths, gap))

	for i, d := range r.Devices {
		colour := plain
		if d.Outcome == placement.Unplaced {
			colour = Red
		}

		p.line(p.Paint(colour, rowText(rows[i+1], widths, gap)))
		if d.Claim != nil {
			p.line("  " + p.wrap(words.Printable(*d.Claim), 2, 4))
		}
	}
}

func deviceRows(r Report) [][]string {
	rows := [][]string{{"#  ", "ALIAS", "HOST DEVICE", "NODE", "CELL", "LIBVIRT", "SEEN AS", "WHY"}}
	for i, d := range r.Devices {
		why := "as it is"
		if !r.IsCurrent() {
			why = fmt.Sprintf("%s: %s", d.Outcome, d.Reason)
		}

		if d.Added && !r.IsCurrent() {
			why += ", added"
		}

		rows = append(rows, []string{
			fmt.Sprintf("#%d", i), d.Title(), d.ID.String(), or(d.HostNode, "none"),
			or(d.GuestCell, "none"),
			shortOr(d.GuestAddress, "-"), shortOr(d.Predicted, "-"), why,
		})
	}

	return rows
}

// meanings writes the meanings of the reasons that causes leaves out.
func (p *printer) meanings(r Report) {
	for _, reason := range reasons.Reasons() {
		devices := r.WithReason(reason)
		if len(devices) == 0 || r.IsCurrent() || r.Count(placement.Placed) == 0 ||
			devices[0].Outcome == placement.Unplaced {
			continue
		}

		text := string(reason) + ": " + reason.Meaning()

		// A companion has its cell, or none, from another device.
		if reason != reasons.Companion && slices.ContainsFunc(devices, func(d DeviceReport) bool {
			return d.Outcome == placement.Placed && d.GuestCell == nil
		}) {
			text += "; it is placed beside its neighbours, and its numa_node stays -1"
		}

		p.line("  " + p.wrap(text, 2, 2))
	}
}

// links writes the link speed of each device on the host and that of its port in the guest.
func (p *printer) links(r Report) {
	p.heading("LINKS")
	rows := [][]string{{"#", "ALIAS", "ON THE HOST", "GUEST'S PORT SAYS"}}
	for i, d := range r.Devices {
		host, guest := r.Link(HostSide, d), r.Link(GuestSide, d)
		rows = append(rows, []string{
			fmt.Sprintf("#%d", i), FitMiddle(d.Title(), p.Columns()/2), cmp.Or(host, "not known"),
			cmp.Or(guest, "-"),
		})
	}

	widths := columnWidths(rows)
	for _, row := range rows {
		p.line(rowText(row, widths, 2))
	}

	isRecorded := func(d DeviceReport) bool { return r.Link(HostSide, d) != "" }
	if !slices.ContainsFunc(r.Devices, isRecorded) {
		p.line("the host's record has no link speeds")
	}
}

// consumers writes how many decisions of each consumer are as on the host.
func (p *printer) consumers(r Report) {
	if len(r.Consumers) == 0 {
		return
	}

	rows := [][]string{{"CONSUMER", "DECIDES FOR EACH", "AS ON THE HOST", "OPEN", "OTHERWISE"}}
	for _, t := range r.Consumers {
		rows = append(rows, []string{
			t.Consumer, t.Unit, strconv.Itoa(t.Right), strconv.Itoa(t.Open), strconv.Itoa(t.Wrong),
		})
	}

	p.line("")
	p.table(rows)
}

// slowPaths says what paths through the root complex are, which the headline counts. The section of
// paths says it with the devices.
func (p *printer) slowPaths(r Report) {
	if r.Shows(SectionPaths) || r.IsElsewhere() {
		return
	}

	for _, g := range r.peerGroups {
		if g.Cause.Readiness() == peer.ThroughRoot {
			p.wrapped(plain, fmt.Sprintf("%s through the host's root complex: data arrives, as fast as "+
				"the CPU passes it on; %s (--details=paths)",
				words.Counted(len(g.Pairs), "path"), g.Cause.Meaning()))
		}
	}
}

// peerPaths writes what the host's paths are, by cause, with the devices at both ends.
func (p *printer) peerPaths(r Report) {
	if len(r.peerGroups) == 0 {
		return
	}

	p.heading("HOST PATHS")
	for _, g := range r.peerGroups {
		pairs := topology.Map(g.Pairs, func(pair peer.Pair) string {
			return fmt.Sprintf("#%d to #%d", r.Number(pair.Requester), r.Number(pair.Completer))
		})

		p.wrapped(plain, fmt.Sprintf("%s: %s (%s): %s", strings.Join(pairs, ", "),
			g.Cause.Readiness(), g.Cause, g.Cause.Meaning()))
		if remedy := g.Remedy(); remedy != "" {
			p.remedy(remedy)
		}
	}
}

func (p *printer) budgets(r Report) {
	if len(r.Controllers) == 0 {
		return
	}

	p.heading("BUDGETS")
	line := func(name string, budget bus.Budget, unit string) {
		colour := plain
		if budget.Used > budget.Limit {
			colour = Red
		}

		p.line(p.Paint(colour,
			fmt.Sprintf("%-38s %3d of %3d %s", name, budget.Used, budget.Limit, unit)))
	}

	line("root bus", r.Budgets.BusNumbers.Budget, "bus numbers")

	for _, e := range r.Budgets.BusNumbers.Expanders {
		cell := "no cell"
		if n := r.controller(topology.Index(e.Index)).Cell; n != nil {
			cell = fmt.Sprintf("cell %d", *n)
		}

		line(fmt.Sprintf("expander bus 0x%02x, index %d, %s", e.BusNr, e.Index, cell), e.Budget,
			"bus numbers")
	}

	line("controllers of the domain", r.Budgets.ControllerIndexes, "indexes")
	if r.Budgets.BARs.Bytes64 > 0 {
		p.line("64-bit BARs of the devices                 " +
			words.BytesNeeded(r.Budgets.BARs.Bytes64))
	}
}

func (p *printer) warnings(r Report) {
	shown := r.Warnings
	if r.IsElsewhere() {
		shown = r.OtherWarnings()
	}

	for i, warning := range shown {
		if i == 0 {
			p.line("")
		}

		p.wrapped(Yellow,
			fmt.Sprintf("warning: %s: %s", warning.Code, words.Printable(warning.Text)))

		// Warnings with the same remedy show it once.
		last := i == len(shown)-1 || shown[i+1].Remedy != warning.Remedy
		if last && warning.Remedy != "" {
			p.remedy(warning.Remedy)
		}
	}
}
