package report

import (
	"fmt"
	"io"
	"strings"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/topology"
)

// Sizes in pixels. A row is a device; two lines of text fit in it.
const (
	margin      = 20
	rowPitch    = 36
	rowHeight   = 30
	rowGap      = rowPitch - rowHeight
	headHeight  = 58 // title, and the names of the two sides
	areaHead    = 24
	areaPadding = 10
	areaGap     = 14
	columnGap   = 12
	deviceWidth = 196
	middleWidth = 150 // between the devices of host and guest
	chipWidth   = 108
	chipHeight  = 18
	legendPitch = 20
	monoTenths  = 67 // tenths of a pixel that a character takes at most
)

// WriteSVG draws the report: the host's tree grows from the left to the middle,
// the guest's from the right, each device is joined to itself, and colours show
// what changed its path types. The picture needs no script and no font from
// elsewhere, and follows the viewer's preference for light or dark.
func (r Report) WriteSVG(w io.Writer) error {
	hostTree, guestTree := r.trees()
	left, right := newSide(hostTree), newSide(guestTree)
	width := 2*margin + left.width + middleWidth + right.width
	right.mirrored = width
	height := stack(left, right)
	title, guestTitle := r.pictureTitle(), "Guest, layout "+r.layoutTitle()
	if r.isCurrent {
		guestTitle = "Guest, current domain"
	}
	var c canvas
	c.words("heading", margin, 24, title)
	c.words("side", margin, headHeight-12, "Host")
	c.words("side", width-margin-right.width, headHeight-12, guestTitle)
	c.WriteString(left.String() + right.String())
	c.joins(r, left, right)
	height = c.legend(r, height)
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">
<title>%s</title>
<style>%s</style>
<rect class="ground" width="%d" height="%d"/>
%s</svg>
`, width, height, width, height, escape(title), styleSheet, width, height, c.String())
	return err
}

// stack draws the areas of both sides under each other and returns the y after
// them. Areas of the same devices get the same height.
func stack(left, right *side) int {
	aligned := areAlike(left.tree, right.tree)
	tops := [2]int{headHeight, headHeight}
	for i := range max(len(left.areas), len(right.areas)) {
		for j, s := range []*side{left, right} {
			if i < len(s.areas) {
				tops[j] = s.area(s.areas[i], tops[j]) + areaGap
			}
		}
		if aligned {
			tops[0] = max(tops[0], tops[1])
			tops[1] = tops[0]
		}
	}
	return max(tops[0], tops[1])
}

func (r Report) pictureTitle() string {
	if r.isCurrent {
		return r.head()
	}
	c := r.Count()
	title := fmt.Sprintf("%s with layout %s: %d placed", topology.Counted(len(r.Devices), "device"), r.layoutTitle(), c.Placed)
	if c.Kept > 0 {
		title += fmt.Sprintf(", %d kept", c.Kept)
	}
	if c.Unplaced > 0 {
		title += fmt.Sprintf(", %d unplaced", c.Unplaced)
	}
	return title
}

// joins draws a line from each device of the host to where it is in the guest,
// and says on it what became of its path types.
func (c *canvas) joins(r Report, left, right *side) {
	x := margin + left.width - areaPadding
	const w = middleWidth + 2*areaPadding
	var chips canvas
	for i := range r.Devices {
		from, to, look := left.rows[i], right.rows[i], string(r.lookOf(i))
		c.curve("join "+look, x, from+rowHeight/2, w, to-from)
		chips.box(box{
			class: "chip " + look, text: r.chip(i), tip: r.chipTip(i),
			x: x + (w-chipWidth)/2, y: (from+to)/2 + (rowHeight-chipHeight)/2, w: chipWidth, h: chipHeight,
		})
	}
	c.WriteString(chips.String())
}

// chip says in a few characters what differs for a device.
func (r Report) chip(device int) string {
	switch r.lookOf(device) {
	case unplaced:
		return "unplaced"
	case unknown:
		return "host not known"
	case same:
		return "as on the host"
	}
	all := r.differences(device)
	chip := fmt.Sprintf("%s → %s", all[0].host, all[0].guest)
	if len(all) > 1 {
		chip += fmt.Sprintf(" +%d", sum(all[1:]))
	}
	return chip
}

func (r Report) chipTip(device int) string {
	d := r.Devices[device]
	tip := fmt.Sprintf("%s is %s: %s", title(d.Alias), d.Outcome, d.Reason)
	for _, c := range r.differences(device) {
		tip += "\n" + c.String()
	}
	return tip
}

// legend explains the colours that occur, with the numbers of pairs. It begins
// at y and returns the y after it.
func (c *canvas) legend(r Report, y int) int {
	note := func(x int, text string) {
		c.words("note", x, y+7, text)
		y += legendPitch
	}
	entry := func(l look, text string) {
		c.box(box{class: "swatch " + string(l), x: margin, y: y, w: 14, h: 14})
		note(margin+22, text)
	}
	all, notKnown, alike := r.pairs()
	if all > 0 {
		entry(same, fmt.Sprintf("%d of %s have the path type that they have on the host", alike, topology.Counted(all, "pair")))
	}
	if notKnown > 0 {
		entry(unknown, fmt.Sprintf("%d not known on the host: its PCI Express tree does not show one of the two devices", notKnown))
	}
	for _, d := range r.differences(allDevices) {
		entry(d.look(), d.String())
	}
	for _, reason := range r.unplacedReasons() {
		entry(unplaced, fmt.Sprintf("unplaced: %s", reason))
	}
	if used := r.usedPathTypes(); len(used) > 0 {
		note(margin, strings.Join(used, ", "))
	}
	for i, d := range r.Devices { // explain the first chip that counts other pairs
		if all := r.differences(i); len(all) > 1 && d.Outcome != placement.Unplaced {
			note(margin, fmt.Sprintf("%s on a device: %d of its pairs changed from %s to %s, and %d in another way",
				r.chip(i), all[0].pairs, all[0].host, all[0].guest, sum(all[1:])))
			break
		}
	}
	return y + margin/2
}

// usedPathTypes are the path types between the devices, with what they mean.
func (r Report) usedPathTypes() []string {
	seen := map[topology.PathType]bool{}
	for i, j := range r.pairsOf(allDevices) {
		seen[r.Paths.Host.Between(i, j)], seen[r.Paths.Guest.Between(i, j)] = true, true
	}
	var used []string
	for _, t := range pathTypes() {
		if seen[t.PathType] {
			used = append(used, t.String())
		}
	}
	return used
}
