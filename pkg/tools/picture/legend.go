package picture

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/words"
)

// legend explains shapes, colours and path types from y on, and returns the y after it.
func (c *canvas) legend(r report.Report, hasPorts bool, width, y int) int {
	room := width - 2*margin
	y = c.families(r, hasPorts, room, y)
	y = c.swatches(r, room, y)
	if r.Shows(report.SectionLinks) {
		y = c.notes(margin, y, room,
			"GT/s: on the host the fastest link that the device supports, in the guest what the "+
				"emulated port above it says")
	}

	if used := r.UsedPathTypes(); len(used) > 0 && !r.IsElsewhere() {
		y = c.notes(margin, y, room, strings.Join(used, ", "))
	}

	return y + margin/2
}

// notes writes a text in lines of room pixels and returns the y after them.
func (c *canvas) notes(x, y, room int, text string) int {
	for line := range strings.Lines(report.Wrap(text, room*10/noteTenths, 0, 0)) {
		c.words("note", x, y+7, strings.TrimSpace(line))
		y += legendPitch
	}
	return y
}

// families explains the shapes of devices and ports, and returns the y after it.
func (c *canvas) families(r report.Report, hasPorts bool, room, y int) int {
	x := margin
	for _, family := range []report.Family{report.GPU, report.NIC, report.Other} {
		text := strings.Join(nouns(r, family), ", ")
		if text == "" {
			continue
		}

		w := 30 + utf8.RuneCountInString(text)*noteTenths/10 + 22

		// The shapes have one line. What does not fit is left out.
		if x > margin && x+w > room {
			break
		}

		c.element(`<g class="device %s"><rect x="%d" y="%d" width="24" height="14" rx="%d"/></g>`,
			family, x, y, min(cornerOf(family), 7))
		c.words("note", x+30, y+7, text)
		x += w
	}

	switch {
	case x == margin:
		return y
	case hasPorts:
		c.element(`<g class="port"><rect x="%d" y="%d" width="%d" height="14" rx="2"/></g>`, x, y,
			portWidth)
		c.words("note", x+portWidth+6, y+7, "port")
	}

	return y + legendPitch
}

func nouns(r report.Report, family report.Family) []string {
	var all []string
	for _, d := range r.Devices {
		if d.Family() == family && !slices.Contains(all, d.Noun()) {
			all = append(all, d.Noun())
		}
	}

	return all
}

// swatches explains the colours, with the numbers of pairs, and returns the y after it.
func (c *canvas) swatches(r report.Report, room, y int) int {
	swatch := func(change report.Change, text string) {
		c.element(`<g class="swatch %s"><rect x="%d" y="%d" width="14" height="14" rx="3"/></g>`,
			change, margin, y)
		y = c.notes(margin+22, y, room-22, text)
	}

	tally := r.Tally(report.AllDevices)
	if n := tally.By[report.Same]; n > 0 {
		swatch(report.Same, words.Counted(n, "pair")+" of devices as on the host")
	}

	for _, d := range tally.Differences {
		swatch(d.Change(), d.String())
	}

	isUnknown := func(d report.DeviceReport) bool { return !d.IsShown() }
	if tally.By[report.Unknown] > 0 || tally.All == 0 && slices.ContainsFunc(r.Devices, isUnknown) {
		swatch(report.Unknown, "not known: the host does not show the device, or one of a pair")
	}

	for _, reason := range r.ReasonsOf(placement.Unplaced) {
		swatch(report.Unplaced,
			fmt.Sprintf("%d unplaced, %s: %s", len(r.WithReason(reason)), reason, reason.Meaning()))
	}

	return y
}
