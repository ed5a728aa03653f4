// Package picture draws a report as SVG: picture.go draws the whole, side.go the trees of host and
// guest, legend.go the explanation, canvas.go the elements.
package picture

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
)

// Write draws a report: the host's tree grows from the left, the guest's from the right,
// each device is joined to itself, and bars show how many path types are the host's. The
// picture has no script or font from elsewhere, and follows the viewer's preference for
// light or dark.
func Write(w io.Writer, r report.Report) error {
	hostTree, guestTree := r.Trees()
	left, right := newSide(r, hostTree), newSide(r, guestTree)
	width := 2*margin + left.width + middleWidth + right.width

	// The guest's side counts from the right edge, which is known once both sides are measured.
	right.mirrored = width
	if len(r.Devices) == 0 {
		width = leastWidth
	}

	var c canvas
	top := c.heading(r, width)
	height := stack(left, right, top)

	if len(r.Devices) > 0 {
		guest := "Guest"
		if r.IsCurrent() {
			guest += ", current domain"
		}

		c.words("side", margin, top-12, "Host")
		c.words("side", width-margin-right.width, top-12, guest)
	}

	c.WriteString(left.String() + right.String())
	c.joins(r, left, right)
	height = c.legend(r, left.hasPorts || right.hasPorts, width, height)
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">
<title>%s</title>
<style>%s</style>
<rect class="ground" width="%d" height="%d"/>
%s</svg>
`, width, height, width, height, escape(title(r)), styleSheet, width, height, c.String())

	return err
}

// heading writes title and subtitle, and returns the y at which the sides begin.
func (c *canvas) heading(r report.Report, width int) int {
	const first = 37 // y of the subtitle's first line, for which headHeight has room
	c.words("heading", margin, 22, title(r))
	below := c.notes(margin, first, width-2*margin, subtitle(r))
	return max(headHeight, headHeight+below-first-legendPitch)
}

// stack draws the areas of both sides from top on and returns the y after them. Areas of the same
// devices have the same height.
func stack(left, right *side, top int) int {
	aligned := report.AreAligned(left.Tree, right.Tree)
	tops := [2]int{top, top}
	for i := range max(len(left.Areas), len(right.Areas)) {
		for j, s := range []*side{left, right} {
			if i < len(s.Areas) {
				tops[j] = s.area(s.Areas[i], tops[j]) + areaGap
			}
		}
		if aligned {
			tops[0] = max(tops[0], tops[1])
			tops[1] = tops[0]
		}
	}

	return max(tops[0], tops[1])
}

// title returns the first part of the headline.
func title(r report.Report) string {
	if len(r.Headline) == 0 {
		return ""
	}
	return r.Headline[0]
}

// subtitle returns the rest of the headline, the subject and the outcomes.
func subtitle(r report.Report) string {
	parts := append(slices.Clone(r.Headline[min(1, len(r.Headline)):]), r.Subject.VM,
		r.Subject.Host)
	outcomes := []string{"current domain"}
	if !r.IsCurrent() {
		layout := "layout " + string(r.Layout)
		if r.LayoutReason != nil { // the policy has another word
			layout += fmt.Sprintf(" (%s)", r.Policy[policy.KeyLayout].Value)
		}

		parts, outcomes = append(parts, layout), nil
		for _, outcome := range []placement.Outcome{
			placement.Placed, placement.Kept, placement.Unplaced,
		} {
			if n := r.Count(outcome); n > 0 {
				outcomes = append(outcomes, fmt.Sprintf("%d %s", n, outcome))
			}
		}
	}

	parts = append(parts, strings.Join(outcomes, ", "), r.Inventory())
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool {
		return part == ""
	}), " · ")
}

// joins draws a line from each device of the host to its place in the guest, with a chip
// that shows how many of its pairs are as on the host.
func (c *canvas) joins(r report.Report, left, right *side) {
	x := margin + left.width - areaPadding
	const w = middleWidth + 2*areaPadding

	// Chips come after all lines, so that no line crosses one.
	var chips canvas
	for i := range r.Devices {
		from, to, change, tally := left.rows[i], right.rows[i], r.DeviceChange(i), r.Tally(i)
		c.curve("join "+string(change), x, from+rowHeight/2, w, to-from)
		chips.bar(bar{
			tally: tally, change: change, text: chipText(r, i, tally),
			tip: chipTip(r.Devices[i], tally),
			x:   x + (w-chipWidth)/2, y: (from+to)/2 + (rowHeight-chipHeight)/2, w: chipWidth,
			h: chipHeight,
		})
	}

	c.WriteString(chips.String())
}

// chipText returns the change of a device in a few characters.
func chipText(r report.Report, device int, tally report.Tally) string {
	d := r.Devices[device]
	switch {
	case d.Outcome == placement.Unplaced:
		return "unplaced"
	case !d.IsShown():
		return "not known"
	case len(r.Devices) == 1 && r.IsCurrent():
		return "as it is"
	case len(r.Devices) == 1:
		return string(d.Outcome)
	}

	return fmt.Sprintf("%d of %d", tally.By[report.Same], tally.All)
}

func chipTip(d report.DeviceReport, tally report.Tally) string {
	tip := fmt.Sprintf("%s is %s: %s", d.Title(), d.Outcome, d.Reason)
	for _, difference := range tally.Differences {
		tip += "\n" + difference.String()
	}
	return tip
}
