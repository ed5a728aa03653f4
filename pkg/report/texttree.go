package report

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
)

const gutter = 2 // columns between the trees

// trees writes the trees of host and guest beside each other. Areas of the same devices
// begin on the same line.
func (p *printer) trees(r Report) {
	host, guest := r.Trees()
	half := (p.Columns() - gutter) / 2
	title := "GUEST"
	if r.IsCurrent() {
		title = "GUEST, current domain"
	}

	// First both trees get half of the width with aliases. If one does not fit, the guest goes
	// without them, and the host gets the columns that this leaves.
	left, right := linesOf(host, half, true), linesOf(guest, half, true)
	if max(widest(left), widest(right)) > half { // the number is enough to find a device again
		right = linesOf(guest, half, false)
		half = p.Columns() - gutter - min(half, widest(right))
		left = linesOf(host, half, true)
	}

	p.line("\n" + p.Paint(Bold, pad("HOST", half+gutter)) + p.Paint(Bold, title))
	if !AreAligned(host, guest) {
		left, right = [][]treeLine{slices.Concat(left...)}, [][]treeLine{slices.Concat(right...)}
	}

	for i := range left {
		p.beside(left[i], right[i], half+gutter)
	}
}

// beside writes two columns, the second one from a column on.
func (p *printer) beside(left, right []treeLine, column int) {
	for i := range max(len(left), len(right)) {
		var l, r treeLine
		if i < len(left) {
			l = left[i]
			l.text = FitMiddle(l.text, column-gutter)
		}

		if i < len(right) {
			r = right[i]
			r.text = FitMiddle(r.text, p.Columns()-column)
		}

		p.line(p.Paint(l.colour, l.text) + strings.Repeat(" ", column-columns(l.text)) +
			p.Paint(r.colour, r.text))
	}
}

type treeLine struct {
	text   string
	colour Colour
}

func widest(areas [][]treeLine) int {
	longest := 0
	for _, l := range slices.Concat(areas...) {
		longest = max(longest, columns(l.text))
	}
	return longest
}

// linesOf returns the lines of each area of a tree.
func linesOf(t Tree, width int, hasAliases bool) [][]treeLine {
	var areas [][]treeLine
	for _, a := range t.Areas {
		text := treeText{Tree: t, width: width, hasAliases: hasAliases}
		text.line(a.Name, Bold)
		text.children(a.Roots, "")
		areas = append(areas, text.out)
	}

	return areas
}

// treeText writes a tree like lspci -tv: a single child is on its parent's line.
type treeText struct {
	Tree
	width      int
	hasAliases bool
	out        []treeLine
}

func (t *treeText) line(text string, colour Colour) {
	t.out = append(t.out, treeLine{text, colour})
}

func (t *treeText) children(nodes []*topology.Node, indent string) {
	for i, n := range nodes {
		branch, next := "|-", "| "
		if i == len(nodes)-1 {
			branch, next = "`-", "  "
		}
		t.node(n, indent+branch, indent+next)
	}
}

// node writes a node after the text that is on its line already.
func (t *treeText) node(n *topology.Node, line, indent string) {
	const chain = "--"
	text := line + t.text(n)
	switch {
	case n.Kind == topology.Endpoint:
		number := t.report.Number(n.ID)
		t.line(text, t.report.DeviceChange(number).colour())
		if memory := t.Memory(n); memory != "" {
			t.line(fmt.Sprintf("%s`-memory of #%d: NUMA %s", indent, number, memory), plain)
		}

	case len(n.Children) == 1 && columns(text+chain+t.text(n.Children[0])) <= t.width:
		t.node(n.Children[0], text+chain, indent)
	default:
		t.line(text, plain)
		t.children(n.Children, indent)
	}
}

func (t *treeText) text(n *topology.Node) string {
	name, detail := t.Label(n)
	switch {
	case n.Kind == topology.Endpoint && !t.hasAliases:
		return fmt.Sprintf("#%d %s", t.report.Number(n.ID), detail)
	case n.Kind == topology.Endpoint:
		return fmt.Sprintf("#%d %s %s", t.report.Number(n.ID), detail, name)
	case detail == "":
		return name
	}

	return name + " " + detail
}
