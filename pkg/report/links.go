package report

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
)

// link is the speed of a device's link: on the host what it supports, in the guest
// what the emulated port above it says.
func (t tree) link(d Device) string {
	if t.side == hostSide {
		return or(d.link, "")
	}
	return t.report.portLink(d)
}

// portLink is what the guest's port above a device says of its link. It is "" without
// such a port.
func (r Report) portLink(d Device) string {
	n := r.guest.Node(d.ID)
	if n.Parent != nil && n.Parent.Kind == topology.MDEVParent {
		n = n.Parent
	}
	switch {
	case n.Parent == nil || d.GuestAddress == nil:
		return ""
	case n.Parent.Kind == topology.RootPort:
		return libvirt.RootPortLink(r.plan.Domain()).String()
	case n.Parent.Kind == topology.DownstreamPort:
		return libvirt.SwitchPortLink().String()
	}
	return ""
}

// writeLinks writes the link speed of each device on the host, and what the guest's
// port above it says.
func (r Report) writeLinks(b *strings.Builder, style Style) {
	fmt.Fprintf(b, "\n%s\n", style.Paint(bold, "LINKS"))
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "#\tALIAS\tON THE HOST\tGUEST'S PORT SAYS\n")
	for i, d := range r.Devices {
		port := r.portLink(d)
		if port == "" {
			port = "-"
		}
		fmt.Fprintf(w, "#%d\t%s\t%s\t%s\n", i, style.fit(topology.Printable(title(d.Alias)), style.width()/2), or(d.link, "not known"), port)
	}
	w.Flush()
	for line := range strings.Lines(table.String()) {
		writeLine(b, strings.TrimSuffix(line, "\n"))
	}
}
