package report

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
)

// treeLine is a line of a tree as text.
type treeLine struct {
	text   string
	colour Colour
	isCut  bool
}

func areCut(areas [][]treeLine) bool {
	return slices.ContainsFunc(slices.Concat(areas...), func(l treeLine) bool { return l.isCut })
}

// widest is how many columns the longest line takes.
func widest(areas [][]treeLine) int {
	longest := 0
	for _, l := range slices.Concat(areas...) {
		longest = max(longest, columns(l.text))
	}
	return longest
}

// writeTrees writes the tree of the host and that of the guest beside each
// other. Areas of the same devices begin on the same line.
func (r Report) writeTrees(b *strings.Builder, style Style) {
	host, guest := r.trees()
	host.isBrief, guest.isBrief = true, true
	const gutter = 2
	half := (style.width() - gutter) / 2
	title := "GUEST"
	if r.isCurrent {
		title = "GUEST, current domain"
	}
	left, right := linesOf(host, half, style), linesOf(guest, half, style)
	if areCut(left) || areCut(right) { // the number is enough to find a device again
		guest.isAnonymous = true
		right = linesOf(guest, half, style)
		half = style.width() - gutter - widest(right)
		left = linesOf(host, half, style)
	}
	fmt.Fprintf(b, "\n%s%s\n", style.Paint(bold, pad("HOST", half+gutter)), style.Paint(bold, title))
	if !areAlike(host, guest) {
		left, right = [][]treeLine{slices.Concat(left...)}, [][]treeLine{slices.Concat(right...)}
	}
	for i := range left {
		writeBeside(b, left[i], right[i], half+gutter, style)
	}
}

// writeBeside writes two columns, the second one from a column on.
func writeBeside(b *strings.Builder, left, right []treeLine, column int, style Style) {
	height := max(len(left), len(right))
	left, right = append(left, make([]treeLine, height-len(left))...), append(right, make([]treeLine, height-len(right))...)
	for i, l := range left {
		line := style.Paint(l.colour, l.text)
		if text := right[i].text; text != "" {
			line += strings.Repeat(" ", column-columns(l.text)) + style.Paint(right[i].colour, text)
		}
		b.WriteString(line + "\n")
	}
}

// linesOf are the lines of each area of a tree.
func linesOf(t tree, width int, style Style) [][]treeLine {
	var areas [][]treeLine
	for _, a := range t.areas {
		text := treeText{tree: t, style: style, lines: style.lines(), width: width}
		text.line(t.areaName(a), bold)
		text.children(a.Roots, "")
		areas = append(areas, text.out)
	}
	return areas
}

// treeText writes a tree in the manner of lspci -tv: a single child is on its
// parent's line.
type treeText struct {
	tree
	style Style
	lines lines
	width int
	out   []treeLine
}

func (t *treeText) line(text string, colour Colour) {
	t.out = append(t.out, treeLine{t.style.fit(text, t.width), colour, columns(text) > t.width})
}

func (t *treeText) children(nodes []*topology.Node, indent string) {
	for i, n := range nodes {
		branch, next := t.lines.fork, t.lines.pass
		if i == len(nodes)-1 {
			branch, next = t.lines.last, t.lines.gap
		}
		t.node(n, indent+branch, indent+next)
	}
}

// node writes a node after what is on its line already.
func (t *treeText) node(n *topology.Node, line, indent string) {
	text := line + t.text(n)
	switch {
	case n.Kind == topology.Endpoint:
		t.line(text, t.report.lookOf(t.report.number(n.ID)).colour())
	case len(n.Children) == 1 && columns(text+t.lines.chain+t.text(n.Children[0])) <= t.width:
		t.node(n.Children[0], text+t.lines.chain, indent)
	default:
		t.line(text, plain)
		t.children(n.Children, indent)
	}
}
