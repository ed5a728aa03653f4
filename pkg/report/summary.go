package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/topology"
)

// summaryDevices is how many devices of each NUMA node WriteSummary shows.
const summaryDevices = 2

// WriteSummary writes what the hook gains, in a few lines: the outcomes on the host, in the
// domain as it came and with the hook, and where some of the devices are in each.
func (r Report) WriteSummary(w io.Writer, before *placement.Plan, style Style) error {
	p := &printer{Style: style}
	p.table(outcomes(r.Inventory(), before, r.plan))
	p.line("")
	p.table(r.places(before))

	if choice := r.choice(); choice != "" {
		p.line("")
		p.wrapped(plain, choice)
	}

	return p.to(w)
}

// table writes rows in columns, the first row as their titles.
func (p *printer) table(rows [][]string) {
	widths := columnWidths(rows)
	for i, row := range rows {
		style := plain
		if i == 0 {
			style = Bold
		}
		p.line(p.Paint(style, rowText(row, widths, gutter)))
	}
}

// outcomes returns the rows about all devices: of each program that decides about the GPUs, and of
// the pairs.
func outcomes(inventory string, before, after *placement.Plan) [][]string {
	row := func(name string, values ...int) []string {
		return append([]string{name}, topology.Map(values, func(n int) string {
			return fmt.Sprint(n)
		})...)
	}

	rows := [][]string{{inventory, "HOST", "NO HOOK", "HOOK"}}
	was := map[string]int{} // GPUs, by the program
	for _, p := range before.Programs() {
		was[p.Name] = p.AsOnHost
	}

	for _, p := range after.Programs() {
		rows = append(rows, row(p.Name+": GPUs that "+p.Goal, p.GPUs, was[p.Name], p.AsOnHost))
	}

	pairs := after.Pairs()
	return append(rows, row("pairs of devices as near as on the host", pairs.All,
		before.Pairs().Alike, pairs.Alike))
}

// places returns a row per device, of the first ones of each NUMA node.
func (r Report) places(before *placement.Plan) [][]string {
	rows := [][]string{{"DEVICE", "HOST", "NO HOOK", "HOOK"}}
	shown := map[topology.Affinity]int{}
	for i, d := range r.plan.Devices {
		if shown[d.HostNode]++; shown[d.HostNode] > summaryDevices {
			continue
		}
		rows = append(rows, []string{
			r.Devices[i].class().name + " " + strings.TrimPrefix(d.ID.String(), "0000:"),
			place(r.plan.HostTree.Node(d.ID), nil),
			place(before.GuestTree.Node(d.ID), before),
			place(r.plan.GuestTree.Node(d.ID), r.plan),
		})
	}

	return rows
}

// place returns what is above a device, the nearest switch or else the root, and its NUMA node. The
// names of a guest's controllers are those that its kernel shows; guest is nil for a host.
func place(n *topology.Node, guest *placement.Plan) string {
	above := n.Top()
	name := "root " + above.ID.String()
	if switches := n.Switches(); len(switches) > 0 {
		above = switches[len(switches)-1]
		name = "switch " + strings.TrimPrefix(above.ID.String(), "0000:")
	}

	if guest != nil {
		name = guestName(above, guest)
	}

	if node := n.NUMANode(); node != nil {
		return fmt.Sprintf("%s, node %d", name, *node)
	}

	return name + ", no node"
}

// guestName returns the name of a switch or root in the guest.
func guestName(n *topology.Node, guest *placement.Plan) string {
	if n.ID == topology.Index(0) {
		return "root bus"
	}

	at := slices.IndexFunc(guest.Controllers, func(c placement.Controller) bool {
		return topology.Index(c.Index) == n.ID
	})

	switch c := guest.Controllers[at]; {
	case c.Predicted != nil:
		return "switch " + strings.TrimPrefix(c.Predicted.String(), "0000:")
	case c.BusNr != nil:
		return fmt.Sprintf("expander bus %#x", *c.BusNr)
	}

	return n.ID.String()
}
