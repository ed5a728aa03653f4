package report

import (
	"fmt"
	"strings"

	"hook-sidecar/pkg/topology"
)

// The matrix of path types is shown in blocks of columns that fit a page, and
// up to a number of devices at which it can still be read.
const (
	matrixColumns = 16
	matrixDevices = 32
	cellWidth     = 5 // a mark and the longest class, NODE
)

// writeMatrix writes the path types of host and guest in the manner of
// nvidia-smi topo -m. Where the guest has another class it is marked.
func (r Report) writeMatrix(b *strings.Builder, style Style) {
	if len(r.Devices) < 2 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", style.paint(bold, "PATH TYPES"))
	alike := r.alikePairs()
	switch {
	case len(r.Devices) > matrixDevices:
	case alike == r.pairs():
		r.matrixBlocks(b, "host and guest", r.guestCell, style)
	default:
		r.matrixBlocks(b, "host", r.hostCell, style)
		b.WriteString("\n")
		r.matrixBlocks(b, "guest", r.guestCell, style)
	}
	if len(r.differences(-1)) > 0 && len(r.Devices) <= matrixDevices {
		b.WriteString("> farther than on the host, < nearer than on the host\n")
	}
	b.WriteString("PIX: at most one PCIe switch between, PXB: several, PHB: a host bridge,\n" +
		"NODE: host bridges of one NUMA node, SYS: across NUMA nodes, or not known\n")
	r.writeDifferences(b, style)
}

func (r Report) writeDifferences(b *strings.Builder, style Style) {
	fmt.Fprintf(b, "%s: %d as on the host\n", topology.Counted(r.pairs(), "pair"), r.alikePairs())
	if n := r.unknownPairs(); n > 0 {
		fmt.Fprintf(b, "  %d not known on the host (?), which shows no place in its tree for one of the devices\n", n)
	}
	for _, c := range r.differences(-1) {
		fmt.Fprintf(b, "  %s\n", style.paint(colourOf(c.trend()), c.String()))
	}
	if layout := r.keeper(); layout != "" {
		fmt.Fprintf(b, "layout %s keeps PIX, PXB and PHB as on the host\n", layout)
	}
}

func (r Report) matrixBlocks(b *strings.Builder, title string, cell func(i, j int, style Style) string, style Style) {
	label := textWidth - min(len(r.Devices), matrixColumns)*cellWidth
	label = min(label, r.longestName()+len("#00 ")+1)
	for from := 0; from < len(r.Devices); from += matrixColumns {
		to := min(from+matrixColumns, len(r.Devices))
		line := pad(title, label)
		for j := from; j < to; j++ {
			line += fmt.Sprintf(" %-*s", cellWidth-1, fmt.Sprintf("#%d", j))
		}
		writeLine(b, line)
		for i, d := range r.Devices {
			line := pad(style.fit(fmt.Sprintf("%-3s %s", fmt.Sprintf("#%d", i), printable(d.title())), label-1), label)
			for j := from; j < to; j++ {
				line += cell(i, j, style)
			}
			writeLine(b, line)
		}
	}
}

func (r Report) hostCell(i, j int, _ Style) string {
	class := string(r.Paths.Host[i][j])
	if i != j && (!r.isKnown(i) || !r.isKnown(j)) {
		class = "?"
	}
	return fmt.Sprintf(" %-*s", cellWidth-1, class)
}

// guestCell is a class of the guest, with a mark where the host has another.
func (r Report) guestCell(i, j int, style Style) string {
	t := same
	if r.isKnown(i) && r.isKnown(j) {
		t = compareClasses(r.Paths.Host[i][j], r.Paths.Guest[i][j])
	}
	mark := map[trend]string{same: " ", nearer: "<", farther: ">"}[t]
	return style.paint(colourOf(t), fmt.Sprintf("%s%-*s", mark, cellWidth-1, r.Paths.Guest[i][j]))
}

func (r Report) longestName() int {
	longest := 0
	for _, d := range r.Devices {
		longest = max(longest, columns(printable(d.title())))
	}
	return longest
}

// writeLine writes a line without the blanks at its end.
func writeLine(b *strings.Builder, line string) {
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}
