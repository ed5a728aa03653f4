package report

import (
	"fmt"
	"io"
	"strings"
)

// WriteDOT writes the report as a graph for graphviz: host and guest as
// clusters, NUMA nodes and cells within them, and a dashed edge from each
// device to where it is in the guest, in colour where its path type changed.
func (r Report) WriteDOT(w io.Writer) error {
	host := r.hostTree()
	d := dot{report: r}
	d.line("digraph placement {")
	d.line("  rankdir=LR; ranksep=0.3; nodesep=0.08")
	d.line("  label=%s; labelloc=t; fontname=%s", quote(r.pictureTitle()), quote(dotFont))
	d.line("  node [shape=box, style=\"rounded,filled\", fillcolor=\"#ffffff\", color=\"#818b98\", fontname=%s, fontsize=11]", quote(dotFont))
	d.line("  edge [arrowhead=none, color=\"#818b98\"]")
	d.tree("host", "Host", host)
	d.tree("guest", "Guest", r.guestTree(host))
	for i := range r.Devices {
		look := r.lookOf(i)
		d.line("  %s -> %s [style=dashed, color=%s, label=%s, fontname=%s, fontsize=9]",
			deviceName("host", i), deviceName("guest", i), quote(dotColours(look).line), quote(r.chip(i)), quote(dotFont))
	}
	d.line("}")
	_, err := io.WriteString(w, d.out.String())
	return err
}

const dotFont = "Helvetica,Arial,sans-serif"

type dotColour struct{ line, fill string }

func dotColours(look string) dotColour {
	switch look {
	case "farther":
		return dotColour{"#bc4c00", "#fff1d6"}
	case "nearer":
		return dotColour{"#0969da", "#ddf0ff"}
	case "unknown":
		return dotColour{"#818b98", "#f6f8fa"}
	case "unplaced":
		return dotColour{"#cf222e", "#ffebe9"}
	}
	return dotColour{"#1a7f37", "#dafbe1"}
}

// dot writes a graph. Nodes but for the devices are numbered in order.
type dot struct {
	report Report
	out    strings.Builder
	nodes  int
}

func (d *dot) line(format string, values ...any) { fmt.Fprintf(&d.out, format+"\n", values...) }

func deviceName(side string, device int) string { return quote(fmt.Sprintf("%s-%d", side, device)) }

func (d *dot) tree(side, title string, top *node) {
	d.line("  subgraph %s {", quote("cluster-"+side))
	d.line("    label=%s; color=\"#d1d9e0\"", quote(title))
	for i, area := range top.below {
		d.line("    subgraph %s {", quote(fmt.Sprintf("cluster-%s-%d", side, i)))
		d.line("      label=%s; style=filled; fillcolor=\"#f6f8fa\"; color=\"#d1d9e0\"", quote(area.name))
		for _, root := range area.below {
			d.node(side, root)
		}
		d.line("    }")
	}
	d.line("  }")
}

// node writes a node and all below it, and returns its name.
func (d *dot) node(side string, n *node) string {
	if n.kind == kindEndpoint {
		device, name, colours := d.report.Devices[n.device], deviceName(side, n.device), dotColours(d.report.lookOf(n.device))
		d.line("      %s [label=%s, color=%s, fillcolor=%s]", name,
			quote(n.name+"\n"+device.label()+" "+n.detail), quote(colours.line), quote(colours.fill))
		return name
	}
	d.nodes++
	name := quote(fmt.Sprintf("%s-%s-%d", side, n.kind, d.nodes))
	d.line("      %s [label=%s]", name, quote(d.report.nodeText(n)))
	for _, c := range n.below {
		below := d.node(side, c)
		// The guest grows from the right, so that the devices of both sides meet.
		from, to := name, below
		if side == "guest" {
			from, to = below, name
		}
		d.line("      %s -> %s", from, to)
	}
	return name
}

// quote writes a double-quoted ID of the DOT language. A backslash is doubled,
// for labels take it as an escape; a line break becomes one.
func quote(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' {
			return '?'
		}
		return r
	}, text)
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
