package report

import (
	"fmt"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// TreeReason explains why the layout of the current tree was chosen.
const TreeReason = "the current tree has it, and neither a VMI nor --layout names another"

// AsIs adds to the report of the current domain the changes that the planned one makes.
func AsIs(current, planned Report) Report {
	p := Prospect{
		Layout: planned.Layout, LayoutReason: planned.LayoutReason, Changed: planned.Changed,
		Error:   planned.Error,
		Devices: []Move{}, Reasons: map[reasons.Reason]int{}, planned: planned,
	}

	for _, d := range planned.Devices {
		p.Reasons[d.Reason]++
		var now *topology.Address
		var nameNow *string
		from, i := "not in the domain", current.Number(d.ID)
		if i >= 0 {
			now, nameNow = current.Devices[i].Predicted, current.nameOf(current.Devices[i])
			from = withName(current.Devices[i].place(), nameNow)
		}

		if i < 0 || d.Added || !topology.Same(d.GuestAddress, current.Devices[i].GuestAddress) {
			name := planned.nameOf(d)
			p.Devices = append(p.Devices, Move{
				ID: d.ID, Alias: d.Alias, Added: d.Added, Reason: d.Reason,
				GuestCell: d.GuestCell, GuestAddress: d.GuestAddress, Predicted: d.Predicted,
				Now: now, Name: name, NameNow: nameNow,
				from: from, to: withName(d.place(), name),
			})
		}
	}

	p.ControllersAdded = topology.CountFunc(planned.Controllers, func(c Controller) bool {
		return c.Origin == placement.ControllerPlanned
	})

	// What is neither there nor added was removed: the three numbers give the fourth.
	p.ControllersRemoved = len(current.Controllers) + p.ControllersAdded - len(planned.Controllers)
	if current.WouldChange = &p; planned.plan != nil {
		current.Headline = HeadlineOf(current.plan, planned.plan)
	}

	return current
}

// place returns a device's address in the guest, or libvirt's if that is not known, and its cell.
func (d DeviceReport) place() string {
	text := shortOr(d.Predicted, "libvirt's "+shortOr(d.GuestAddress, ""))
	if d.GuestAddress == nil {
		text = "no address"
	}

	if d.GuestCell == nil {
		return text + ", no cell"
	}

	return fmt.Sprintf("%s, cell %d", text, *d.GuestCell)
}

func (p *printer) prospect(r Report) {
	would := r.WouldChange
	p.heading(fmt.Sprintf("LAYOUT %s WOULD CHANGE", would.Layout))
	if choice := would.planned.choice(); choice != "" {
		p.wrapped(plain, choice)
	}

	switch {
	case would.Error != nil:
		p.wrapped(Red, "nothing: "+words.Printable(*would.Error))
	case !would.Changed:
		p.line("nothing")
	case len(would.Devices) == 0:
		p.line("no address of a device")
	default:
		p.line(fmt.Sprintf("%s, %s added, %d removed",
			words.Counted(len(would.Devices), "device"),
			words.Counted(would.ControllersAdded, "controller"), would.ControllersRemoved))
	}

	for _, m := range would.Devices {
		id := r.shortID(m.ID)
		move := fmt.Sprintf("%s -> %s (%s)", m.from, m.to, m.Reason)
		room := p.Columns() - columns(id+move) - len("   : ")
		p.line(fmt.Sprintf("  %s %s: %s", id, FitMiddle(title(m.Alias), min(room, 24)), move))
	}

	p.causes(would.planned)
}
