package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// AsIs reports the current domain, and what the layout would change in it.
type AsIs struct {
	Report
	WouldChange Prospect `json:"wouldChange"` // what the layout would change
}

// Prospect is what a layout would change in a domain.
type Prospect struct {
	Layout             policy.Layout          `json:"layout"`             // the planned layout
	LayoutReason       *string                `json:"layoutReason"`       // as in the report
	Changed            bool                   `json:"changed"`            // whether it changes the domain
	Error              *string                `json:"error"`              // why it cannot
	Devices            []Move                 `json:"devices"`            // those that would get another address, or be added
	ControllersAdded   int                    `json:"controllersAdded"`   // how many
	ControllersRemoved int                    `json:"controllersRemoved"` // how many
	Reasons            map[reasons.Reason]int `json:"reasons"`            // number of devices per reason

	unplaced []reasons.Reason
	choice   string
}

// Move is a device that would be somewhere else.
type Move struct {
	ID           topology.DeviceID `json:"id"`           // as in the report
	Alias        *string           `json:"alias"`        // as in the report
	Added        bool              `json:"added"`        // whether it would be added
	Reason       reasons.Reason    `json:"reason"`       // why it would be there
	GuestCell    *topology.CellID  `json:"guestCell"`    // cell that it would have
	GuestAddress *topology.Address `json:"guestAddress"` // address that it would have, as libvirt numbers it
	Predicted    *topology.Address `json:"predicted"`    // address that it would have in the guest's kernel
}

// NewAsIs joins the report of the current domain with that of what the layout
// makes of it.
func NewAsIs(current, planned Report) AsIs {
	current.isCurrent = true
	p := Prospect{
		Layout: planned.Layout, LayoutReason: planned.LayoutReason, Changed: planned.Changed, Error: planned.Error, Devices: []Move{}, Reasons: map[reasons.Reason]int{},
		unplaced: planned.unplacedReasons(), choice: planned.choice(),
	}
	for _, d := range planned.Devices {
		p.Reasons[d.Reason]++
		if i := current.number(d.ID); i < 0 || d.Added || !topology.Same(d.GuestAddress, current.Devices[i].GuestAddress) {
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
	p.ControllersRemoved = len(current.Controllers) + p.ControllersAdded - len(planned.Controllers)
	return AsIs{Report: current, WouldChange: p}
}

// TreeReason is why the layout of a report is that of the current tree, as
// LayoutReason.
const TreeReason = "the current tree has it, and neither a VMI nor --layout names another"

// TreeLayout is the layout whose tree the guest has, "" where no device is under an
// expander bus. Only mirror builds switches, only numa has devices of several PCIe
// roots under one expander bus, and it has neither several in a cell nor one without.
func (r Report) TreeLayout() policy.Layout {
	layout := policy.Layout("")
	rootOf, expanderOf := map[*topology.Node]topology.PCIeRoot{}, map[int]*topology.Node{}
	for _, d := range r.Devices {
		n := r.guest.Node(d.ID)
		expander := n.Top()
		switch root, isKnown := rootOf[expander]; {
		case expander.ID == topology.Index(0) || d.GuestAddress == nil:
			continue
		case len(n.Switches()) > 0:
			return policy.LayoutMirror
		case isKnown && d.PCIeRoot != nil && root != *d.PCIeRoot:
			return policy.LayoutNUMA
		case layout == "":
			layout = policy.LayoutNUMA
		}
		cell := numaOf(expander)
		if other := expanderOf[cell]; cell == noNUMA || other != nil && other != expander {
			layout = policy.LayoutRoot
		}
		expanderOf[cell] = expander
		if d.PCIeRoot != nil {
			rootOf[expander] = *d.PCIeRoot
		}
	}
	return layout
}

// WriteText writes the report of the current domain, and then what the layout
// would change in it.
func (a AsIs) WriteText(w io.Writer, style Style) error {
	if err := a.Report.WriteText(w, style); err != nil {
		return err
	}
	var b strings.Builder
	p := a.WouldChange
	fmt.Fprintf(&b, "\n%s\n", style.Paint(bold, fmt.Sprintf("LAYOUT %s WOULD CHANGE", p.Layout)))
	if p.choice != "" {
		writeLine(&b, style.wrap(p.choice, 0, 2))
	}
	switch {
	case p.Error != nil:
		writeLine(&b, style.Paint(Red, style.wrap("nothing: "+topology.Printable(*p.Error), 0, 2)))
	case !p.Changed:
		b.WriteString("nothing\n")
	case len(p.Devices) == 0:
		b.WriteString("no address of a device\n")
	default:
		fmt.Fprintf(&b, "%s, %s added, %d removed\n", topology.Counted(len(p.Devices), "device"), topology.Counted(p.ControllersAdded, "controller"), p.ControllersRemoved)
	}
	for _, m := range p.Devices {
		from := "not in the domain"
		if i := a.number(m.ID); i >= 0 {
			from = place(a.Devices[i].GuestCell, a.Devices[i].GuestAddress, a.Devices[i].Predicted)
		}
		id := shortID(m.ID)
		move := fmt.Sprintf("%s -> %s (%s)", from, place(m.GuestCell, m.GuestAddress, m.Predicted), m.Reason)
		room := style.width() - columns(id+move) - len("   : ")
		writeLine(&b, fmt.Sprintf("  %s %s: %s", id, style.fit(topology.Printable(title(m.Alias)), min(room, 24)), move))
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

// place is where a device is in the guest: the address that the guest shows, or
// libvirt's where that is not known.
func place(cell *topology.CellID, address, predicted *topology.Address) string {
	text := shortOr(predicted, "libvirt's "+shortOr(address, ""))
	if address == nil {
		text = "no address"
	}
	if cell == nil {
		return text + ", no cell"
	}
	return fmt.Sprintf("%s, cell %d", text, *cell)
}
