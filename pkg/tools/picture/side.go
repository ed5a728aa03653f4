package picture

import (
	"fmt"
	"unicode/utf8"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/topology"
)

// side draws a tree in columns, from roots at the outer edge to devices at the inner one.
type side struct {
	report.Tree
	canvas
	report   report.Report
	columns  []int // their widths, without that of the devices
	boxWidth int   // width of a device
	memory   int   // of that, the width of the cells that are its own memory
	width    int
	mirrored int         // width of the picture when columns run from the right, else 0
	rows     map[int]int // y of each device, by its number
	hasPorts bool
}

func newSide(r report.Report, t report.Tree) *side {
	s := &side{Tree: t, report: r, boxWidth: deviceWidth, rows: map[int]int{}}
	if r.Shows(report.SectionLinks) {
		s.boxWidth += linkWidth
	}

	for _, a := range t.Areas {
		s.measure(a.Roots, 0)
	}

	s.boxWidth += s.memory
	s.width = 2*areaPadding + s.boxWidth
	for _, w := range s.columns {
		s.width += w + columnGap
	}

	return s
}

// measure makes each column as wide as its widest text.
func (s *side) measure(nodes []*topology.Node, depth int) {
	for _, n := range nodes {
		if n.Kind == topology.Endpoint {
			s.memory = max(s.memory, len(s.Memory(n))*monoTenths/9)
			continue
		}

		if depth == len(s.columns) {
			s.columns = append(s.columns, 0)
		}

		w := portWidth
		if n.Kind.IsPort() {
			s.hasPorts = true
		} else {
			name, detail := s.Label(n)
			w = max(utf8.RuneCountInString(name), utf8.RuneCountInString(detail))*monoTenths/10 + 12
		}

		s.columns[depth] = max(s.columns[depth], w)
		s.measure(n.Children, depth+1)
	}
}

// place returns the x of a left edge: a mirrored side counts from the right.
func (s *side) place(x, w int) int {
	if s.mirrored > 0 {
		return s.mirrored - x - w
	}
	return x
}

// area draws an area from y on and returns the y after it.
func (s *side) area(a report.Area, y int) int {
	height := areaHead + len(a.Devices)*rowPitch - rowGap + areaPadding
	x := s.place(margin, s.width)
	s.box(box{class: "area", x: x, y: y, w: s.width, h: height})
	s.words("areaname", x+areaPadding, y+areaHead/2, a.Name)
	row := y + areaHead
	for _, root := range a.Roots {
		row = s.node(root, 0, margin+areaPadding, row)
	}

	return y + height
}

// node draws a node and all under it from y on, as high as these are, and returns the next y.
func (s *side) node(n *topology.Node, depth, x, y int) int {
	devices := margin + s.width - areaPadding - s.boxWidth
	if n.Kind == topology.Endpoint {
		s.endpoint(n, s.place(devices, s.boxWidth), y)
		return y + rowPitch
	}

	// What is under the node comes first: its box is as high as that.
	end, width := y, s.columns[depth]
	right := x + width
	for _, c := range n.Children {
		next := right + columnGap
		if c.Kind == topology.Endpoint {
			next = devices
		}

		childEnd := s.node(c, depth+1, right+columnGap, end)
		s.curve("wire", s.place(right, next-right), (end+childEnd-rowGap)/2, next-right, 0)
		end = childEnd
	}

	name, detail := s.Label(n)
	b := box{
		class:  classOf(n.Kind),
		radius: 4,
		x:      s.place(x, width),
		y:      y,
		w:      width,
		h:      end - y - rowGap,
		text:   name,
		more:   detail,
	}

	if n.Kind.IsPort() { // its address is a detail, and takes room from the devices
		b.tip, b.text, b.radius = "port "+name, "", 2
	}

	s.box(b)
	return end
}

// classOf returns the class of the box of a node; a device has none.
func classOf(kind topology.NodeKind) string {
	switch kind {
	case topology.Root:
		return "root"
	case topology.RootPort, topology.DownstreamPort:
		return "port"
	case topology.UpstreamPort:
		return "switch"
	case topology.Bridge:
		return "bridge"
	case topology.MDEVParent:
		return "parent"
	default:
		return ""
	}
}

func (s *side) endpoint(n *topology.Node, x, y int) {
	number := s.report.Number(n.ID)
	d := s.report.Devices[number]
	s.rows[number] = y
	name, detail := s.Label(n)
	if s.report.Shows(report.SectionLinks) {
		detail += " " + s.report.Link(s.Side, d)
	}

	tip := name + "\nhost " + d.ID.String()
	if d.Resource != nil {
		tip += "\n" + *d.Resource
	}

	if d.Predicted != nil {
		tip += "\nguest " + d.Predicted.String()
	}

	room := s.boxWidth - s.memory - 2*textInset + 4
	class := "device " + string(d.Family())
	if d.Outcome == placement.Unplaced {
		class += " unplaced"
	}

	s.box(box{
		class: class, id: fmt.Sprintf("%s-%d", s.Side, number), radius: cornerOf(d.Family()),
		x: x, y: y, w: s.boxWidth, h: rowHeight, text: report.FitMiddle(name, room*10/nameTenths),
		more: report.Fit(detail, room*10/monoTenths), tip: tip,
	})

	if memory := s.Memory(n); memory != "" { // a cell as the areas are
		const inset = 4
		s.box(box{
			class: "area",
			x:     x + s.boxWidth - s.memory - inset,
			y:     y + inset,
			w:     s.memory,
			h:     rowHeight - 2*inset,
			text:  memory,
			tip:   name + "'s memory",
		})
	}
}

// cornerOf returns the radius of a device's corners, which shows its family without its tint.
func cornerOf(family report.Family) int {
	switch family {
	case report.GPU:
		return 0
	case report.NIC:
		return rowHeight / 2
	}

	return 5
}
