package report

import (
	"encoding/json"
	"fmt"
	"strings"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// PathTypes are the path types between all pairs of a tree's devices. They are
// found when asked for: n devices have n*n of them, and a call's log has none.
type PathTypes struct {
	tree *topology.Tree
	ids  []topology.DeviceID
}

// Between is the path type between the devices at two positions.
func (p PathTypes) Between(i, j int) topology.PathType { return p.tree.PathType(p.ids[i], p.ids[j]) }

// MarshalJSON is the matrix, a row per device.
func (p PathTypes) MarshalJSON() ([]byte, error) { return json.Marshal(p.tree.PathTypes(p.ids)) }

// The matrix of path types is shown in blocks of columns that fit a page, and
// up to a number of devices at which it can still be read.
const (
	matrixDevices = 32
	cellWidth     = 5  // a mark and the longest path type, NODE
	matrixLabel   = 19 // columns that labels may take, where blocks are then smaller
)

// writeMatrix writes the path types of host and guest in the manner of
// nvidia-smi topo -m. Where they differ the guest's is marked.
func (r Report) writeMatrix(b *strings.Builder, style Style) {
	if len(r.Devices) < 2 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", style.Paint(bold, "PATH TYPES"))
	differences := r.differences(allDevices)
	all, unknown, alike := r.pairs()
	if len(r.Devices) <= matrixDevices {
		guestTitle := "host and guest"
		if alike < all {
			r.writeBlocks(b, "host", r.hostCell, style)
			b.WriteString("\n")
			guestTitle = "guest"
		}
		r.writeBlocks(b, guestTitle, r.guestCell, style)
		if len(differences) > 0 {
			b.WriteString("> farther than on the host, < nearer than on the host\n")
		}
	}
	writeLine(b, style.wrap(strings.Join(r.usedPathTypes(), ", "), 0, 0))
	fmt.Fprintf(b, "%s: %d as on the host\n", topology.Counted(all, "pair"), alike)
	if unknown > 0 {
		writeLine(b, "  "+style.wrap(fmt.Sprintf("%d not known on the host (?): its tree does not show one of the two devices", unknown), 2, 4))
	}
	for _, d := range differences {
		writeLine(b, "  "+style.Paint(d.look().colour(), d.String()))
	}
	if r.keepsMore() {
		fmt.Fprintf(b, "layout %s keeps PIX, PXB and PHB as on the host\n", policy.LayoutMirror)
	}
}

func (r Report) writeBlocks(b *strings.Builder, name string, cell func(i, j int, style Style) string, style Style) {
	label := min(r.longestTitle()+len("#00 ")+1, max(matrixLabel, style.width()-len(r.Devices)*cellWidth))
	blocks := divideUp(len(r.Devices), (style.width()-label)/cellWidth)
	size := divideUp(len(r.Devices), blocks)
	for from := 0; from < len(r.Devices); from += size {
		to := min(from+size, len(r.Devices))
		line := pad(name, label)
		for j := from; j < to; j++ {
			line += fmt.Sprintf(" %-*s", cellWidth-1, fmt.Sprintf("#%d", j))
		}
		writeLine(b, line)
		for i, d := range r.Devices {
			line := pad(style.fit(fmt.Sprintf("%-3s %s", fmt.Sprintf("#%d", i), topology.Printable(title(d.Alias))), label-1), label)
			for j := from; j < to; j++ {
				line += cell(i, j, style)
			}
			writeLine(b, line)
		}
	}
}

func (r Report) longestTitle() int {
	longest := 0
	for _, d := range r.Devices {
		longest = max(longest, columns(topology.Printable(title(d.Alias))))
	}
	return longest
}

func divideUp(n, by int) int { return (n + by - 1) / by }

func (r Report) hostCell(i, j int, _ Style) string {
	text := r.Paths.Host.Between(i, j).String()
	if i != j && (!r.isKnown(i) || !r.isKnown(j)) {
		text = "?"
	}
	return fmt.Sprintf(" %-*s", cellWidth-1, text)
}

func (r Report) guestCell(i, j int, style Style) string {
	l := same
	if r.isKnown(i) && r.isKnown(j) {
		l = compare(r.Paths.Host.Between(i, j), r.Paths.Guest.Between(i, j))
	}
	mark := map[look]string{same: " ", nearer: "<", farther: ">"}[l]
	return style.Paint(l.colour(), fmt.Sprintf("%s%-*s", mark, cellWidth-1, r.Paths.Guest.Between(i, j)))
}
