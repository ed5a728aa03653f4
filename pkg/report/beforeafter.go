package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"hook-sidecar/pkg/topology"
)

// BeforeAfter shows at a glance what a plan changes for the guest.
type BeforeAfter struct{ Before, After Report }

// WriteText writes how many pairs of devices are as on the host, and the path
// types of a few devices: on the host, before and after.
func (c BeforeAfter) WriteText(w io.Writer, style Style) error {
	var b strings.Builder
	writeLine(&b, style.Paint(bold, "What the guest sees of "+c.After.inventory()))
	b.WriteString("\n")
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "\twithout the hook\twith it, layout %s\n", c.After.Layout)
	all, _, before := c.Before.pairs()
	_, _, after := c.After.pairs()
	fmt.Fprintf(table, "pairs of devices as on the host\t%d of %d\t%d of %d\n", before, all, after, all)
	fmt.Fprintf(table, "devices that know their NUMA node\t%d of %d\t%d of %d\n",
		c.Before.inCells(), len(c.Before.Devices), c.After.inCells(), len(c.After.Devices))
	table.Flush()
	if few := c.After.examples(); len(few) > 1 {
		c.writeMatrices(&b, style, few)
	}
	if choice := c.After.choice(); choice != "" {
		writeLine(&b, "\n"+style.wrap(choice, 0, 2))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// inventory is what is passed through: "8 GPUs and 8 NICs".
func (r Report) inventory() string {
	all := r.counted(Device.noun)
	if len(all) > 3 {
		all = r.counted(func(d Device) string {
			if d.kind() == other {
				return "other device"
			}
			return d.noun()
		})
	}
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

// counted are the numbers of devices by noun, GPUs and NICs first.
func (r Report) counted(noun func(Device) string) []string {
	var all []string
	for _, k := range []kind{gpu, nic, other} {
		counts := map[string]int{}
		for _, d := range r.Devices {
			if d.kind() == k {
				counts[noun(d)]++
			}
		}
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			all = append(all, topology.Counted(counts[name], name))
		}
	}
	return all
}

// inCells counts the devices that have a cell in the guest.
func (r Report) inCells() int {
	return len(slices.DeleteFunc(slices.Clone(r.Devices), func(d Device) bool { return d.GuestCell == nil }))
}

// examples are the first device and, for each path type on the host, the first
// that is so far from it.
func (r Report) examples() []int {
	var few []int
	seen := map[topology.PathType]bool{}
	for i, d := range r.Devices {
		if far := r.host.PathType(r.Devices[0].ID, d.ID); r.isKnown(i) && !seen[far] {
			seen[far] = true
			few = append(few, i)
		}
	}
	return few
}

func (c BeforeAfter) writeMatrices(b *strings.Builder, style Style, few []int) {
	const cell, gutter = 5, 3
	width := cell*len(few) + gutter
	label := 0
	for _, i := range few {
		label = max(label, columns(c.After.label(i))+2)
	}
	fmt.Fprintf(b, "\n%s\n", style.Paint(bold, pad("", label)+pad("on the host", width)+pad("without the hook", width)+"with it"))
	for _, i := range few {
		line := pad(c.After.label(i), label)
		for _, tree := range []*topology.Tree{c.After.host, c.Before.guest, c.After.guest} {
			row := ""
			for _, j := range few {
				row += pad(fmt.Sprint(tree.PathType(c.After.Devices[i].ID, c.After.Devices[j].ID)), cell)
			}
			line += pad(row, width)
		}
		writeLine(b, line)
	}
	types := pathTypes()
	fmt.Fprintf(b, "%s, %s, %s,\n%s, %s\n", types[0], types[1], types[2], types[3], types[4])
}

// label is a device in a few words: "GPU 1b:00.0".
func (r Report) label(device int) string {
	d := r.Devices[device]
	if pci, isPCI := d.ID.PCI(); isPCI {
		return d.class() + " " + shortOr(&pci, "")
	}
	return d.class() + " " + shortID(d.ID)
}
