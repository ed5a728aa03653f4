package report

import (
	"fmt"
	"io"

	"hook-sidecar/pkg/topology"
)

// BeforeAfter shows at a glance what a plan changes for the guest.
type BeforeAfter struct{ Before, After Report }

// WriteText writes how many pairs of devices are as on the host, and the path types of a
// few devices.
func (c BeforeAfter) WriteText(w io.Writer, style Style) error {
	p := &printer{Style: style}
	p.line(p.Paint(bold, "What the guest sees of "+c.After.Inventory()))
	p.line("")
	before, after := c.Before.Tally(AllDevices), c.After.Tally(AllDevices)
	hasCell := func(d Device) bool { return d.GuestCell != nil }
	p.table(3, [][]string{
		{"", "without the hook", fmt.Sprintf("with it, layout %s", c.After.Layout)},
		{"pairs of devices as on the host", ofAll(before.By[Same], before.All), ofAll(after.By[Same], before.All)},
		{"devices that know their NUMA node", ofAll(count(c.Before.Devices, hasCell), len(c.Before.Devices)), ofAll(count(c.After.Devices, hasCell), len(c.After.Devices))},
	})
	if few := c.After.examples(); len(few) > 1 {
		p.examples(c, few)
	}
	if choice := c.After.choice(); choice != "" {
		p.line("")
		p.wrapped(plain, choice)
	}
	return p.to(w)
}

func ofAll(n, all int) string { return fmt.Sprintf("%d of %d", n, all) }

// examples are the first device and, for each path type on the host, the first so far from it.
func (r Report) examples() []int {
	var few []int
	seen := map[topology.PathType]bool{}
	for i, d := range r.Devices {
		if far := r.Paths.Host.Between(0, i); d.IsShown() && !seen[far] {
			seen[far] = true
			few = append(few, i)
		}
	}
	return few
}

// examples writes the path types of a few devices on the host, before and after.
func (p *printer) examples(c BeforeAfter, few []int) {
	const cell, gutter = 5, 3
	width := cell*len(few) + gutter
	label := func(i int) string {
		return c.After.Devices[i].class().name + " " + c.After.shortID(c.After.Devices[i].ID)
	}
	labelWidth := 0
	for _, i := range few {
		labelWidth = max(labelWidth, columns(label(i))+2)
	}
	p.heading(pad("", labelWidth) + pad("on the host", width) + pad("without the hook", width) + "with it")
	for _, i := range few {
		line := pad(label(i), labelWidth)
		for _, tree := range []*topology.Tree{c.After.host, c.Before.guest, c.After.guest} {
			row := ""
			for _, j := range few {
				row += pad(tree.PathType(c.After.Devices[i].ID, c.After.Devices[j].ID).String(), cell)
			}
			line += pad(row, width)
		}
		p.line(line)
	}
	p.line(fmt.Sprintf("%s, %s, %s,\n%s, %s", describe(topology.PIX), describe(topology.PXB), describe(topology.PHB), describe(topology.NODE), describe(topology.SYS)))
}
