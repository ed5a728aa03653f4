package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// AsIs reports a domain as it stands, and what the layout would change.
type AsIs struct {
	Report
	WouldChange Prospect `json:"wouldChange"`
}

// Prospect is what a layout would change in a domain.
type Prospect struct {
	Layout             string  `json:"layout"`
	Changed            bool    `json:"changed"` // false also when devices stand where they should
	Error              *string `json:"error"`
	Devices            []Move  `json:"devices"` // those that would get another address, or be added
	ControllersAdded   int     `json:"controllersAdded"`
	ControllersRemoved int     `json:"controllersRemoved"`

	Reasons map[string]int `json:"reasons"` // how many devices the layout has which reason for

	unplaced []reasons.Reason
}

// Move is a device that would stand elsewhere.
type Move struct {
	ID           string  `json:"id"`
	Alias        *string `json:"alias"`
	Added        bool    `json:"added"`
	Reason       string  `json:"reason"`
	GuestCell    *int    `json:"guestCell"`
	GuestAddress *string `json:"guestAddress"`
	Predicted    *string `json:"predicted"`
}

// NewAsIs puts the report of the domain as it stands together with that of what
// the layout makes of it.
func NewAsIs(standing, planned Report) AsIs {
	standing.asIs = true
	p := Prospect{
		Layout: planned.Layout, Changed: planned.Changed, Error: planned.Error, Devices: []Move{}, Reasons: map[string]int{},
		unplaced: planned.unplacedReasons(),
	}
	now := map[string]Device{}
	for _, d := range standing.Devices {
		now[d.ID] = d
	}
	for _, d := range planned.Devices {
		p.Reasons[d.Reason]++
		if d.Added || orDash(d.GuestAddress) != orDash(now[d.ID].GuestAddress) {
			p.Devices = append(p.Devices, Move{
				ID: d.ID, Alias: d.Alias, Added: d.Added, Reason: d.Reason,
				GuestCell: d.GuestCell, GuestAddress: d.GuestAddress, Predicted: d.Predicted,
			})
		}
	}
	for _, c := range planned.Controllers {
		if c.Origin == placement.ControllerPlanned {
			p.ControllersAdded++
		}
	}
	p.ControllersRemoved = len(standing.Controllers) + p.ControllersAdded - len(planned.Controllers)
	return AsIs{Report: standing, WouldChange: p}
}

// WriteText writes the report of the domain as it stands, and then what the
// layout would change in it.
func (a AsIs) WriteText(w io.Writer, style Style) error {
	if err := a.Report.WriteText(w, style); err != nil {
		return err
	}
	var b strings.Builder
	p := a.WouldChange
	fmt.Fprintf(&b, "\n%s\n", style.paint(bold, "LAYOUT "+p.Layout+" WOULD CHANGE"))
	switch {
	case p.Error != nil:
		writeLine(&b, style.paint(red, wrap("nothing: "+printable(*p.Error), textWidth, 2)))
	case !p.Changed:
		b.WriteString("nothing\n")
	case len(p.Devices) == 0:
		b.WriteString("nothing of where devices stand\n")
	default:
		fmt.Fprintf(&b, "%s, %s added, %d removed\n", topology.Counted(len(p.Devices), "device"), topology.Counted(p.ControllersAdded, "controller"), p.ControllersRemoved)
	}
	for _, m := range p.Devices {
		writeLine(&b, "  "+a.moveText(m, style))
	}
	for _, reason := range slices.Sorted(maps.Keys(p.Reasons)) {
		writeLine(&b, fmt.Sprintf("reason %s: %s", reason, topology.Counted(p.Reasons[reason], "device")))
	}
	for _, reason := range p.unplaced {
		writeRemedy(&b, style, string(reason)+": "+reason.Remedy())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (a AsIs) moveText(m Move, style Style) string {
	from := "not in the domain"
	for _, d := range a.Devices {
		if d.ID == m.ID {
			from = standsAt(d.GuestCell, d.GuestAddress, d.Predicted)
		}
	}
	device := Device{ID: m.ID, Alias: m.Alias, Kind: string(topology.KindPCI)}
	if _, err := topology.ParseUUID(m.ID); err == nil {
		device.Kind = string(topology.KindMDEV)
	}
	return fmt.Sprintf("%s %s: %s -> %s (%s)", device.shortID(), style.fit(printable(device.title()), 24),
		from, standsAt(m.GuestCell, m.GuestAddress, m.Predicted), m.Reason)
}

func standsAt(cell *int, address, predicted *string) string {
	where := "no cell"
	if cell != nil {
		where = fmt.Sprintf("cell %d", *cell)
	}
	switch {
	case predicted != nil:
		return where + " " + guestShort(*predicted)
	case address != nil:
		return where + " index " + guestShort(*address)
	}
	return where + " no address"
}
