package report

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
)

// legend explains what occurs in the picture: shapes, colours with the numbers of
// pairs, and path types. It begins at y and returns the y after it.
func (c *canvas) legend(r Report, width, y int) int {
	room := width - 2*margin
	y += c.kinds(r, room, y)
	for _, e := range r.legendEntries() {
		c.element(`<g class="swatch %s"><rect x="%d" y="%d" width="14" height="14" rx="3"/></g>`, e.look, margin, y)
		y = c.notes(margin+22, y, room-22, e.text)
	}
	if r.Details {
		y = c.notes(margin, y, room, "GT/s: on the host the fastest link that the device supports, in the guest what the emulated port above it says")
	}
	if used := r.usedPathTypes(); len(used) > 0 && !r.isElsewhere() {
		y = c.notes(margin, y, room, strings.Join(used, ", "))
	}
	return y + margin/2
}

// notes writes a text in lines of at most room pixels and returns the y after them.
func (c *canvas) notes(x, y, room int, text string) int {
	for line := range strings.Lines(wrapWords(text, room*10/noteTenths, 0, 0)) {
		c.words("note", x, y+7, strings.TrimSpace(line))
		y += legendPitch
	}
	return y
}

// noteTenths is how many tenths of a pixel a character of a note takes at most.
const noteTenths = 62

// kinds explains the shapes of devices that occur. It returns the height that it
// takes.
func (c *canvas) kinds(r Report, room, y int) int {
	x := margin
	for _, k := range r.kinds() {
		w := 30 + textPixels(k.text) + 22
		if x > margin && x+w > room {
			break
		}
		radius := cornerOf(k.kind)
		c.element(`<g class="device %s"><rect x="%d" y="%d" width="24" height="14" rx="%d"/></g>`, k.kind, x, y, min(radius, 7))
		c.words("note", x+30, y+7, k.text)
		x += w
	}
	switch {
	case x == margin:
		return 0
	case r.hasPorts():
		c.element(`<g class="port"><rect x="%d" y="%d" width="%d" height="14" rx="2"/></g>`, x, y, portWidth)
		c.words("note", x+portWidth+6, y+7, "port")
	}
	return legendPitch
}

// hasPorts reports whether a port is drawn, on the host or in the guest.
func (r Report) hasPorts() bool {
	host, guest := r.trees()
	return slices.ContainsFunc(slices.Concat(host.areas, guest.areas), func(a area) bool {
		return slices.ContainsFunc(a.devices, func(id topology.DeviceID) bool {
			return slices.ContainsFunc(a.Node(id).Path(), func(n *topology.Node) bool { return n.Kind.IsPort() })
		})
	})
}

type legendKind struct {
	kind
	text string
}

// kinds are the kinds of device that occur, with what they are called.
func (r Report) kinds() []legendKind {
	var all []legendKind
	for _, k := range []kind{gpu, nic, other} {
		var names []string
		for _, d := range r.Devices {
			if d.kind() == k && !slices.Contains(names, d.noun()) {
				names = append(names, d.noun())
			}
		}
		if len(names) > 0 {
			all = append(all, legendKind{k, strings.Join(names, ", ")})
		}
	}
	return all
}

type legendEntry struct {
	look
	text string
}

// legendEntries are the colours that occur, with what they mean.
func (r Report) legendEntries() []legendEntry {
	var all []legendEntry
	pairs, notKnown, alike := r.pairs()
	if alike > 0 {
		text := fmt.Sprintf("%s of devices have the path type that they have on the host", topology.Counted(alike, "pair"))
		if alike == 1 {
			text = "1 pair of devices has the path type that it has on the host"
		}
		all = append(all, legendEntry{same, text})
	}
	for _, d := range r.differences(allDevices) {
		all = append(all, legendEntry{d.look(), d.sentence()})
	}
	if notKnown > 0 || pairs == 0 && slices.ContainsFunc(r.Devices, func(d Device) bool { return d.function == nil }) {
		all = append(all, legendEntry{unknown, "not known: the host does not show the device, or one of a pair"})
	}
	for _, reason := range r.unplacedReasons() {
		all = append(all, legendEntry{unplaced, fmt.Sprintf("%d unplaced, %s: %s", len(r.withReason(reason)), reason, reason.Meaning())})
	}
	return all
}

// usedPathTypes are the path types between the devices, with what they mean.
func (r Report) usedPathTypes() []string {
	seen := map[topology.PathType]bool{}
	for i, j := range r.pairsOf(allDevices) {
		if r.isKnown(i) && r.isKnown(j) {
			seen[r.Paths.Host.Between(i, j)] = true
		}
		seen[r.Paths.Guest.Between(i, j)] = true
	}
	var used []string
	for _, t := range pathTypes() {
		if seen[t.PathType] {
			used = append(used, t.String())
		}
	}
	return used
}

// matrix draws the path types in the guest as nvidia-smi topo -m shows them, those
// that differ from the host's in colour. It begins at y and returns the width that it
// needs and the y after it.
func (c *canvas) matrix(r Report, y int) (width, after int) {
	const cell, row, longest = 38, 18, 220
	label := 0
	for i, d := range r.Devices {
		label = min(max(label, textPixels(fmt.Sprintf("#%d %s", i, title(d.Alias)))+8), longest)
	}
	c.words("side", margin, y+8, "Path types in the guest")
	for i, d := range r.Devices {
		top := y + (i+2)*row
		c.words("middle mono", margin+label+i*cell+cell/2, y+row+8, fmt.Sprintf("#%d", i))
		c.words("note", margin, top+8, fitPixels(fmt.Sprintf("#%d %s", i, title(d.Alias)), label-8))
		for j := range r.Devices {
			text, look := r.Paths.Guest.Between(i, j).String(), same
			tip := ""
			if i != j && r.isKnown(i) && r.isKnown(j) {
				look = compare(r.Paths.Host.Between(i, j), r.Paths.Guest.Between(i, j))
				tip = fmt.Sprintf("#%d, #%d: %s on the host, %s in the guest", i, j, r.Paths.Host.Between(i, j), text)
			}
			c.box(box{class: "cell " + string(look), x: margin + label + j*cell, y: top, w: cell - 2, h: row - 2, text: text, tip: tip})
		}
	}
	return 2*margin + label + len(r.Devices)*cell, y + (len(r.Devices)+2)*row + areaGap
}
