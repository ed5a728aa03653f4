package report

import (
	"fmt"
	"io"
	"strings"

	"hook-sidecar/pkg/topology"
)

// WriteDOT writes the report as a graph for graphviz: host and guest as
// clusters, NUMA nodes and cells within them, and a dashed edge from each
// device to where it is in the guest, with how many of its pairs are as on the host.
func (r Report) WriteDOT(w io.Writer) error {
	host, guest := r.trees()
	host.isBrief, guest.isBrief = true, true
	d := dot{report: r}
	d.line("digraph placement {")
	d.line("  rankdir=LR; ranksep=0.3; nodesep=0.08")
	d.line("  label=%s; labelloc=t; fontname=%s", quote(r.pictureTitle()+"\n"+r.pictureSubtitle()), quote(dotFont))
	d.line("  node [shape=box, style=\"rounded,filled\", fillcolor=\"#ffffff\", color=\"#818b98\", fontname=%s, fontsize=11]", quote(dotFont))
	d.line("  edge [arrowhead=none, color=\"#818b98\"]")
	d.tree("Host", host)
	d.tree(r.guestTitle(), guest)
	for i := range r.Devices {
		d.line("  %s -> %s [style=dashed, color=%s, label=%s, fontname=%s, fontsize=9]",
			d.deviceName(host, i), d.deviceName(guest, i), quote(r.lookOf(i).dotColour()), quote(r.chip(i)), quote(dotFont))
	}
	d.legend()
	d.line("}")
	_, err := io.WriteString(w, d.out.String())
	return err
}

const dotFont = "Helvetica,Arial,sans-serif"

// dotColour is the colour of the edge of a device.
func (l look) dotColour() string {
	return map[look]string{same: "#1a7f37", nearer: "#0969da", farther: "#bc4c00", unknown: "#818b98", unplaced: "#cf222e"}[l]
}

// dotShape is how a device is drawn.
func (k kind) dotShape() string {
	return map[kind]string{
		gpu:   `shape=box, style=filled, color="#8566d6", fillcolor="#eae4fb"`,
		nic:   `shape=box, style="rounded,filled", color="#bf3989", fillcolor="#ffe4f1"`,
		other: `shape=note, style=filled, color="#59636e", fillcolor="#ffffff"`,
	}[k]
}

// dotAlias is how many characters of an alias are shown.
const dotAlias = 24

// dot writes a graph. Nodes but for the devices are numbered in order.
type dot struct {
	report Report
	out    strings.Builder
	nodes  int
}

func (d *dot) line(format string, values ...any) { fmt.Fprintf(&d.out, format+"\n", values...) }

func (d *dot) deviceName(t tree, number int) string {
	return quote(fmt.Sprintf("%s-%d", t.side, number))
}

func (d *dot) tree(title string, t tree) {
	d.line("  subgraph %s {", quote("cluster-"+t.side))
	d.line("    label=%s; color=\"#d1d9e0\"", quote(title))
	for i, a := range t.areas {
		d.line("    subgraph %s {", quote(fmt.Sprintf("cluster-%s-%d", t.side, i)))
		d.line("      label=%s; style=filled; fillcolor=\"#f6f8fa\"; color=\"#d1d9e0\"", quote(t.areaName(a)))
		for _, root := range a.Roots {
			d.node(t, root)
		}
		d.line("    }")
	}
	d.line("  }")
}

// legend explains the colours that occur, in words.
func (d *dot) legend() {
	text := ""
	for _, e := range d.report.legendEntries() {
		text += e.text + "\n"
	}
	if used := d.report.usedPathTypes(); len(used) > 0 && !d.report.isElsewhere() {
		text += strings.Join(used, "\n") + "\n"
	}
	if text != "" {
		// \l is a newline after a line that begins at the left.
		d.line("  legend [shape=plain, style=\"\", label=%s]", strings.ReplaceAll(quote(text), `\n`, `\l`))
	}
}

// node writes a node and all under it, and returns its name.
func (d *dot) node(t tree, n *topology.Node) string {
	if n.Kind == topology.Endpoint {
		number := d.report.number(n.ID)
		name, device := d.deviceName(t, number), d.report.Devices[number]
		title, detail := t.label(n)
		if d.report.Details {
			detail += "\n" + t.link(device)
		}
		tip := title + "\n" + device.ID.String()
		d.line("      %s [label=%s, tooltip=%s, %s]", name, quote(Style{Unicode: true}.fit(title, dotAlias)+"\n"+detail), quote(tip), device.kind().dotShape())
		return name
	}
	d.nodes++
	name := quote(fmt.Sprintf("%s-%s-%d", t.side, class(n), d.nodes))
	d.line("      %s [label=%s]", name, quote(t.text(n)))
	for _, c := range n.Children {
		from, to := name, d.node(t, c)
		// The guest grows from the right, so that the devices of both sides meet.
		if t.side == guestSide {
			from, to = to, from
		}
		d.line("      %s -> %s", from, to)
	}
	return name
}

// quote writes a double-quoted ID of the DOT language. A backslash is doubled,
// for labels take it as an escape; a newline becomes one.
func quote(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' {
			return '?'
		}
		return r
	}, text)
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
