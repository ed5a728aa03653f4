package report

import (
	"fmt"
	"strings"
)

// side lays out one tree of a picture in columns: roots at the outer edge,
// devices at the inner one.
type side struct {
	report   Report
	top      *node
	name     string      // "host" or "guest": the prefix of ids
	widths   []int       // of the columns, without that of the devices
	mirrored int         // width of the picture when columns run from the right, else 0
	rows     map[int]int // y of each device
	shapes   []shape
}

func newSide(r Report, top *node, name string) *side {
	s := &side{report: r, top: top, name: name, rows: map[int]int{}}
	for _, area := range top.below {
		for _, root := range area.below {
			s.measure(root, 0)
		}
	}
	return s
}

// measure makes each column as wide as its widest text.
func (s *side) measure(n *node, depth int) {
	if n.kind == kindEndpoint {
		return
	}
	if depth == len(s.widths) {
		s.widths = append(s.widths, 0)
	}
	text, more := s.boxText(n)
	longest := max(columns(text), columns(more))
	s.widths[depth] = max(s.widths[depth], longest*monoTenths/10+12)
	for _, c := range n.below {
		s.measure(c, depth+1)
	}
}

func (s *side) width() int {
	total := 2*areaPadding + deviceWidth
	for _, w := range s.widths {
		total += w + columnGap
	}
	return total
}

// place turns the left edge of something into its x: a mirrored side counts
// from the right.
func (s *side) place(x, w int) int {
	if s.mirrored > 0 {
		return s.mirrored - x - w
	}
	return x
}

// area lays out an area from y downwards and returns its height.
func (s *side) area(area *node, y int) int {
	at := len(s.shapes)
	row := y + areaHead
	for _, root := range area.below {
		row = s.node(root, 0, margin+areaPadding, row)
	}
	height := row - y - (rowPitch - rowHeight) + areaPadding
	x := s.place(margin, s.width())
	frame := []shape{
		{form: box, class: "area", x: x, y: y, w: s.width(), h: height},
		{form: words, class: "areaname", x: x + areaPadding, y: y + areaHead/2, text: area.name},
	}
	s.shapes = append(s.shapes[:at], append(frame, s.shapes[at:]...)...)
	return height
}

// node lays out a node and what is below it from y downwards, and returns the y
// behind it. A box is as high as all that is below it.
func (s *side) node(n *node, depth, x, y int) int {
	if n.kind == kindEndpoint {
		s.device(n, y)
		return y + rowPitch
	}
	end := y
	right := x + s.widths[depth]
	for _, c := range n.below {
		next := right + columnGap
		if c.kind == kindEndpoint {
			next = margin + s.width() - areaPadding - deviceWidth
		}
		below := s.node(c, depth+1, right+columnGap, end)
		middle := (end + below - rowPitch + rowHeight) / 2
		s.shapes = append(s.shapes, shape{form: line, class: "wire", x: s.place(right, next-right), y: middle, w: next - right})
		end = below
	}
	text, more := s.boxText(n)
	s.shapes = append(s.shapes, shape{
		form: box, class: string(n.kind), x: s.place(x, s.widths[depth]), y: y, w: s.widths[depth], h: end - y - (rowPitch - rowHeight),
		text: text, more: more,
	})
	return end
}

func (s *side) boxText(n *node) (text, more string) {
	switch n.kind {
	case kindSwitch:
		return "switch", n.name
	case kindBridge:
		return "bridge", n.name
	}
	return n.name, n.detail
}

func (s *side) device(n *node, y int) {
	d := s.report.Devices[n.device]
	s.rows[n.device] = y
	const fits = (deviceWidth - 14) * 10 / monoTenths
	style := Style{Unicode: true}
	full := d.label() + " " + n.detail
	tip := []string{d.title(), "host " + d.ID}
	if d.Resource != nil {
		tip = append(tip, *d.Resource)
	}
	if d.Predicted != nil {
		tip = append(tip, "guest "+*d.Predicted)
	}
	s.shapes = append(s.shapes, shape{
		form: box, class: "device " + s.report.lookOf(n.device), id: fmt.Sprintf("%s-%d", s.name, n.device),
		x: s.place(margin+s.width()-areaPadding-deviceWidth, deviceWidth), y: y, w: deviceWidth, h: rowHeight,
		text: style.fit(n.name, fits), more: style.fit(full, fits), tip: strings.Join(tip, "\n"),
	})
}
