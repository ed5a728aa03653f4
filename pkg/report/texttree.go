package report

import (
	"fmt"
	"strings"
)

// treeLine is a line of a tree as text.
type treeLine struct {
	text   string
	colour string
}

// sideBySide writes the tree of the host and that of the guest beside each
// other. Areas of the same devices begin on the same line.
func (r Report) sideBySide(b *strings.Builder, style Style) {
	host := r.hostTree()
	guest := r.guestTree(host)
	const gutter = 2
	half := (textWidth - gutter) / 2
	guestTitle := "GUEST"
	if r.asIs {
		guestTitle = "GUEST as it stands"
	}
	fmt.Fprintf(b, "\n%s%s\n", style.paint(bold, pad("HOST", half+gutter)), style.paint(bold, guestTitle))
	if !alike(host, guest) {
		r.writeBeside(b, r.areaLines(host.below, half, style), r.areaLines(guest.below, half, style), half+gutter, style)
		return
	}
	for i := range host.below {
		left, right := r.areaLines(host.below[i:i+1], half, style), r.areaLines(guest.below[i:i+1], half, style)
		r.writeBeside(b, left, right, half+gutter, style)
	}
}

// writeBeside writes two columns, the second from a column on.
func (r Report) writeBeside(b *strings.Builder, left, right []treeLine, column int, style Style) {
	for i := range max(len(left), len(right)) {
		l, g := lineAt(left, i), lineAt(right, i)
		line := style.paint(l.colour, l.text)
		if g.text != "" {
			line += strings.Repeat(" ", column-columns(l.text)) + style.paint(g.colour, g.text)
		}
		b.WriteString(line + "\n")
	}
}

func lineAt(all []treeLine, i int) treeLine {
	if i < len(all) {
		return all[i]
	}
	return treeLine{}
}

func (r Report) areaLines(areas []*node, width int, style Style) []treeLine {
	t := treeText{report: r, style: style, lines: style.lines(), width: width}
	for _, area := range areas {
		t.line(area.name, bold)
		t.below(area, "")
	}
	return t.out
}

// treeText writes a tree in the manner of lspci -tv: what has one thing below
// it stands on the line of that.
type treeText struct {
	report Report
	style  Style
	lines  lines
	width  int
	out    []treeLine
}

func (t *treeText) line(text, colour string) {
	t.out = append(t.out, treeLine{t.style.fit(text, t.width), colour})
}

func (t *treeText) below(n *node, indent string) {
	for i, c := range n.below {
		branch, next := t.lines.fork, t.lines.pass
		if i == len(n.below)-1 {
			branch, next = t.lines.last, t.lines.gap
		}
		t.node(c, indent+branch, indent+next)
	}
}

// node writes a node behind what stands on its line already.
func (t *treeText) node(n *node, line, indent string) {
	text := line + t.report.nodeText(n)
	switch {
	case n.kind == kindEndpoint:
		t.line(text, t.report.endpointColour(n.device))
	case len(n.below) == 1 && columns(text+t.lines.chain+t.report.nodeText(n.below[0])) <= t.width:
		t.node(n.below[0], text+t.lines.chain, indent)
	default:
		t.line(text, plain)
		t.below(n, indent)
	}
}

// nodeText is a node in a few words.
func (r Report) nodeText(n *node) string {
	switch n.kind {
	case kindEndpoint:
		d := r.Devices[n.device]
		detail := n.detail
		if d.Kind == "mdev" && detail == d.ID {
			detail = d.ID[:len("4a1f0b5c")]
		}
		return fmt.Sprintf("#%d %s %s %s", n.device, d.label(), detail, printable(n.name))
	case kindSwitch:
		return "switch " + n.name
	case kindPort:
		return n.name
	case kindBridge:
		return "bridge " + n.name
	}
	return strings.TrimSpace(n.name + " " + n.detail)
}

func (r Report) endpointColour(device int) string {
	if r.Devices[device].Outcome == "unplaced" {
		return red
	}
	return colourOf(r.trendOf(device))
}
