package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/topology"
)

// Sizes in pixels. A row is a device; two lines of text fit in it. A picture of a
// large machine has to be legible where a page shows it 720 pixels wide.
const (
	margin      = 14
	rowPitch    = 36
	rowHeight   = 30
	rowGap      = rowPitch - rowHeight
	headHeight  = 76 // title, subtitle, and the names of the two sides
	areaHead    = 24
	areaPadding = 8
	areaGap     = 12
	columnGap   = 8
	portWidth   = 10
	deviceWidth = 162
	linkWidth   = 70  // of a link's speed, in a device
	middleWidth = 104 // between the devices of host and guest
	chipWidth   = 84
	chipHeight  = 18
	barWidth    = 190
	legendPitch = 20
	leastWidth  = 560
	monoTenths  = 67 // tenths of a pixel that a character takes at most
)

// WriteSVG draws the report: the host's tree grows from the left to the middle,
// the guest's from the right, each device is joined to itself, and bars show how
// many of its path types are those of the host. The picture needs no script and no
// font from elsewhere, and follows the viewer's preference for light or dark.
func (r Report) WriteSVG(w io.Writer) error {
	hostTree, guestTree := r.trees()
	hostTree.isBrief, guestTree.isBrief = true, true
	left, right := newSide(hostTree), newSide(guestTree)
	width := 2*margin + left.width + middleWidth + right.width
	right.mirrored = width
	if len(r.Devices) == 0 {
		width = leastWidth
	}
	height := stack(left, right)
	var c canvas
	c.words("heading", margin, 22, r.pictureTitle())
	c.words("note", margin, 44, fitPixels(r.pictureSubtitle(), width-2*margin))
	all, notKnown, _ := r.pairs()
	if all > notKnown && width-margin-barWidth > margin+textPixels(r.pictureTitle())*17/12 {
		c.bar(bar{shares: r.shares(allDevices), x: width - margin - barWidth, y: 15, w: barWidth, h: 14})
	}
	if len(r.Devices) > 0 {
		c.words("side", margin, headHeight-12, "Host")
		c.words("side", width-margin-right.width, headHeight-12, r.guestTitle())
	}
	c.WriteString(left.String() + right.String())
	c.joins(r, left, right)
	if r.Details && len(r.Devices) <= matrixDevices {
		var matrixWidth int
		matrixWidth, height = c.matrix(r, height)
		width = max(width, matrixWidth)
	}
	height = c.legend(r, width, height)
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">
<title>%s</title>
<style>%s</style>
<rect class="ground" width="%d" height="%d"/>
%s</svg>
`, width, height, width, height, escape(r.pictureTitle()), styleSheet, width, height, c.String())
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

// pictureTitle is how much of the host the guest sees.
func (r Report) pictureTitle() string {
	all, notKnown, alike := r.pairs()
	switch {
	case len(r.Devices) == 0:
		return "No device is passed through"
	case all == notKnown: // also where there are no pairs
		return r.inventory() + ": " + r.outcomes()
	}
	return fmt.Sprintf("%d of %s of devices as on the host", alike, topology.Counted(all, "pair"))
}

// pictureSubtitle is what the picture is about, but for what the title says.
func (r Report) pictureSubtitle() string {
	parts := []string{topology.Printable(r.Subject.VM), topology.Printable(r.Subject.Host), "layout " + r.layoutTitle(), r.outcomes(), r.inventory()}
	if r.isCurrent {
		parts[2] = ""
	}
	if all, notKnown, _ := r.pairs(); all == notKnown {
		parts[3], parts[4] = "", ""
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " · ")
}

func (r Report) guestTitle() string {
	if r.isCurrent {
		return "Guest, current domain"
	}
	return "Guest"
}

// outcomes are the numbers of devices by outcome.
func (r Report) outcomes() string {
	if r.isCurrent {
		return "current domain"
	}
	c := r.Count()
	var texts []string
	for _, of := range []struct {
		count   int
		outcome placement.Outcome
	}{{c.Placed, placement.Placed}, {c.Kept, placement.Kept}, {c.Unplaced, placement.Unplaced}} {
		if of.count > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", of.count, of.outcome))
		}
	}
	return strings.Join(texts, ", ")
}

// joins draws a line from each device of the host to where it is in the guest,
// and says on it how many of its pairs are as on the host.
func (c *canvas) joins(r Report, left, right *side) {
	x := margin + left.width - areaPadding
	const w = middleWidth + 2*areaPadding
	var chips canvas
	for i := range r.Devices {
		from, to, look := left.rows[i], right.rows[i], string(r.lookOf(i))
		c.curve("join "+look, x, from+rowHeight/2, w, to-from)
		chips.bar(bar{
			shares: r.shares(i), look: look, text: r.chip(i), tip: r.chipTip(i),
			x: x + (w-chipWidth)/2, y: (from+to)/2 + (rowHeight-chipHeight)/2, w: chipWidth, h: chipHeight,
		})
	}
	c.WriteString(chips.String())
}

// chip says in a few characters what became of a device.
func (r Report) chip(device int) string {
	switch {
	case r.Devices[device].Outcome == placement.Unplaced:
		return "unplaced"
	case !r.isKnown(device):
		return "not known"
	case len(r.Devices) == 1 && r.isCurrent:
		return "as it is"
	case len(r.Devices) == 1:
		return string(r.Devices[device].Outcome)
	}
	shares := r.shares(device)
	return fmt.Sprintf("%d of %d", shares[0].pairs, len(r.Devices)-1)
}

func (r Report) chipTip(device int) string {
	d := r.Devices[device]
	tip := fmt.Sprintf("%s is %s: %s", title(d.Alias), d.Outcome, d.Reason)
	for _, c := range r.differences(device) {
		tip += "\n" + c.String()
	}
	return tip
}
