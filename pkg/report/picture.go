package report

import (
	"fmt"
	"strings"

	"hook-sidecar/pkg/topology"
)

// picture is what a report looks like, in pixels, before it is written in any
// format: the layout is here, the format is the backend's.
type picture struct {
	width, height int
	title         string
	shapes        []shape
}

// shape is a box with up to two lines of text, a line from one point to
// another, or a text. Its class says how it looks.
type shape struct {
	form       form
	class      string
	id         string // unique in the picture, "" for none
	tip        string // shown in full when pointed at
	x, y, w, h int    // of a line: from (x, y) to (x+w, y+h)
	text, more string
}

type form int

const (
	box   form = iota
	line       // a curve from left to right
	words      // text at (x, y), middle of the line
)

// Sizes in pixels. A row is a device; two lines of text fit in it.
const (
	margin      = 20
	rowPitch    = 36
	rowHeight   = 30
	headHeight  = 58 // title, and the names of the two sides
	areaHead    = 24
	areaPadding = 10
	areaGap     = 14
	columnGap   = 12
	deviceWidth = 196
	middleWidth = 150 // between the devices of host and guest
	legendPitch = 20
	monoTenths  = 67 // tenths of a pixel that a character takes at most, in the sizes that the backend uses
)

// picture lays the report out: the host's tree grows from the left to the
// middle, the guest's from the right, and each device is joined to itself.
func (r Report) picture() picture {
	host := r.hostTree()
	guest := r.guestTree(host)
	left, right := newSide(r, host, "host"), newSide(r, guest, "guest")
	p := picture{title: r.pictureTitle()}
	p.width = 2*margin + left.width() + middleWidth + right.width()
	right.mirrored = p.width
	p.height = stack(left, right, alike(host, guest))
	guestTitle := "Guest, layout " + r.Layout
	if r.asIs {
		guestTitle = "Guest, as the domain stands"
	}
	p.add(shape{form: words, class: "heading", x: margin, y: 24, text: p.title})
	p.add(shape{form: words, class: "side", x: margin, y: headHeight - 12, text: "Host"})
	p.add(shape{form: words, class: "side", x: p.width - margin - right.width(), y: headHeight - 12, text: guestTitle})
	p.add(left.shapes...)
	p.add(right.shapes...)
	p.join(r, left, right)
	p.legend(r)
	return p
}

// stack lays out the areas of both sides below each other and returns the y
// behind them. Areas of the same devices stand at the same height.
func stack(left, right *side, aligned bool) int {
	tops := [2]int{headHeight, headHeight}
	for i := range max(len(left.top.below), len(right.top.below)) {
		for j, s := range []*side{left, right} {
			if i < len(s.top.below) {
				tops[j] += s.area(s.top.below[i], tops[j]) + areaGap
			}
		}
		if aligned {
			tops[0] = max(tops[0], tops[1])
			tops[1] = tops[0]
		}
	}
	return max(tops[0], tops[1])
}

func (p *picture) add(shapes ...shape) { p.shapes = append(p.shapes, shapes...) }

func (r Report) pictureTitle() string {
	c := r.Count()
	if r.asIs {
		return topology.Counted(len(r.Devices), "device") + " as the domain stands"
	}
	title := fmt.Sprintf("%s with layout %s: %d placed", topology.Counted(len(r.Devices), "device"), r.Layout, c.Placed)
	if c.Kept > 0 {
		title += fmt.Sprintf(", %d kept", c.Kept)
	}
	if c.Unplaced > 0 {
		title += fmt.Sprintf(", %d unplaced", c.Unplaced)
	}
	return title
}

// join draws a line from each device of the host to where it is in the guest,
// and says on it what became of its path types.
func (p *picture) join(r Report, left, right *side) {
	x := margin + left.width() - areaPadding
	const w = middleWidth + 2*areaPadding
	var chips []shape
	for i := range r.Devices {
		from, to, class := left.rows[i], right.rows[i], r.lookOf(i)
		p.add(shape{form: line, class: "join " + class, x: x, y: from + rowHeight/2, w: w, h: to - from})
		chips = append(chips, shape{
			form: box, class: "chip " + class, text: r.chip(i), tip: r.chipTip(i),
			x: x + (w-chipWidth)/2, y: (from+to)/2 + (rowHeight-chipHeight)/2, w: chipWidth, h: chipHeight,
		})
	}
	p.add(chips...)
}

const (
	chipWidth  = 108
	chipHeight = 18
)

// chip says in a few characters what differs for a device.
func (r Report) chip(device int) string {
	all := r.differences(device)
	switch {
	case r.Devices[device].Outcome == "unplaced":
		return "unplaced"
	case !r.isKnown(device):
		return "host not known"
	case len(all) == 0:
		return "as on the host"
	case len(all) == 1:
		return fmt.Sprintf("%s → %s", all[0].host, all[0].guest)
	}
	more := 0
	for _, c := range all[1:] {
		more += c.pairs
	}
	return fmt.Sprintf("%s → %s +%d", all[0].host, all[0].guest, more)
}

func (r Report) chipTip(device int) string {
	d := r.Devices[device]
	said := []string{d.title() + " is " + d.Outcome + ": " + d.Reason}
	for _, c := range r.differences(device) {
		said = append(said, c.String())
	}
	return strings.Join(said, "\n")
}

// lookOf is the class of the shapes of a device.
func (r Report) lookOf(device int) string {
	switch {
	case r.Devices[device].Outcome == "unplaced":
		return "unplaced"
	case !r.isKnown(device):
		return "unknown"
	}
	return lookOf(r.trendOf(device))
}

func lookOf(t trend) string {
	return map[trend]string{same: "same", nearer: "nearer", farther: "farther"}[t]
}

// legend explains the colours that occur, with the numbers of pairs.
func (p *picture) legend(r Report) {
	entry := func(class, text string) {
		p.add(shape{form: box, class: "swatch " + class, x: margin, y: p.height, w: 14, h: 14})
		p.add(shape{form: words, class: "note", x: margin + 22, y: p.height + 7, text: text})
		p.height += legendPitch
	}
	if r.pairs() > 0 {
		entry("same", fmt.Sprintf("%d of %s have the path type that they have on the host", r.alikePairs(), topology.Counted(r.pairs(), "pair")))
	}
	if n := r.unknownPairs(); n > 0 {
		entry("unknown", fmt.Sprintf("%d not known on the host: it shows no place in its PCI Express tree for a device of the pair", n))
	}
	for _, c := range r.differences(-1) {
		entry(lookOf(c.trend()), c.String())
	}
	for _, reason := range r.unplacedReasons() {
		entry("unplaced", "unplaced: "+string(reason))
	}
	note := func(text string) {
		p.add(shape{form: words, class: "note", x: margin, y: p.height + 7, text: text})
		p.height += legendPitch
	}
	if classes := r.classesInUse(); len(classes) > 0 {
		note(strings.Join(classes, ", "))
	}
	for i := range r.Devices {
		if all := r.differences(i); len(all) > 1 && r.Devices[i].Outcome != "unplaced" {
			note(r.chip(i) + ": the nearest of a device's pairs that differ, and how many of the others do")
			break
		}
	}
	p.height += margin / 2
}

func (r Report) classesInUse() []string {
	var said []string
	for _, class := range []struct {
		topology.PathType
		text string
	}{
		{topology.PIX, "at most one PCIe switch between"}, {topology.PXB, "several switches"}, {topology.PHB, "a host bridge"},
		{topology.NODE, "host bridges of one NUMA node"}, {topology.SYS, "across NUMA nodes, or not known"},
	} {
		used := false
		for i := range r.Paths.Host {
			for j := range i {
				used = used || r.Paths.Host[i][j] == class.PathType || r.Paths.Guest[i][j] == class.PathType
			}
		}
		if used {
			said = append(said, string(class.PathType)+": "+class.text)
		}
	}
	return said
}
