package report

import (
	"fmt"
	"strings"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

const (
	matrixDevices = 32 // of more a matrix cannot be read
	cellWidth     = 5  // a mark and the longest path type, NODE
	matrixLabel   = 19 // columns that labels may take even if blocks are smaller then

	numaWidth   = len("NODE  ") // of the affinities
	affinityGap = 2             // before them
)

// matrices writes the path types of host and guest like nvidia-smi topo -m, and marks
// those of the guest that differ.
func (p *printer) matrices(r Report) {
	if len(r.Devices) < 2 {
		return
	}

	p.heading("PATH TYPES")
	tally := r.Tally(AllDevices)
	if len(r.Devices) <= matrixDevices {
		guestTitle := "host and guest"
		if tally.By[Same] < tally.All {
			p.matrix(r, "host", r.hostCell, "NODE  CPUS", r.hostAffinity)
			p.line("")
			guestTitle = "guest"
		}

		p.matrix(r, guestTitle, func(i, j int) string {
			return p.guestCell(r, i, j)
		}, "CELL  VCPUS", r.guestAffinity)

		if len(tally.Differences) > 0 {
			p.line("> further apart than on the host, < nearer than on the host")
		}
	}

	p.line(p.wrap(strings.Join(r.UsedPathTypes(), ", "), 0, 0))

	if n := tally.By[Unknown]; n > 0 {
		p.line("  " +
			p.wrap(fmt.Sprintf("%d not known on the host (?): its tree does not show one of the "+
				"two devices", n), 2, 4))
	}

	isKept := true // by layout mirror, as by this one
	for _, d := range tally.Differences {
		p.line("  " + p.Paint(d.Change().colour(), d.String()))
		isKept = isKept && d.Host > topology.PHB && d.Guest > topology.PHB
	}

	if !isKept && r.Layout != policy.LayoutMirror {
		p.line(fmt.Sprintf("layout %s keeps PIX, PXB and PHB as on the host", policy.LayoutMirror))
	}
}

// matrix writes a row per device in blocks of columns that fit. The affinities are in columns after
// them, or where these do not fit in a line per affinity.
func (p *printer) matrix(
	r Report, name string, cell func(i, j int) string, title string,
	affinity func(DeviceReport) string,
) {
	short := func(d DeviceReport) string { return Fit(affinity(d), p.Columns()/3) }
	widest := columns(title)
	for _, d := range r.Devices {
		widest = max(widest, columns(short(d)))
	}

	g := p.gridOf(r.Devices, widest)
	for from := 0; from < len(r.Devices); from += g.block {
		to := min(from+g.block, len(r.Devices))
		line := func(text, last string, cell func(j int) string) {
			text = pad(text, g.label)
			for j := from; j < to; j++ {
				text += cell(j)
			}

			if g.hasAffinities {
				text += strings.Repeat(" ", affinityGap) + last
			}

			p.line(text)
		}

		line(name, title, func(j int) string {
			return fmt.Sprintf(" %-*s", cellWidth-1, fmt.Sprintf("#%d", j))
		})

		for i, d := range r.Devices {
			text := FitMiddle(fmt.Sprintf("%-3s %s", fmt.Sprintf("#%d", i), d.Title()), g.label-1)
			line(text, short(d), func(j int) string { return cell(i, j) })
		}
	}

	if !g.hasAffinities {
		p.affinities(r, title, widest+affinityGap, short)
	}
}

// grid is the shape of a matrix.
type grid struct {
	label         int  // columns of text for a label
	block         int  // devices in a block
	hasAffinities bool // after the devices
}

// gridOf returns the shape of a matrix of devices, whose affinities are as wide as the widest.
func (p *printer) gridOf(devices []DeviceReport, affinity int) grid {
	longest := 0
	for _, d := range devices {
		longest = max(longest, columns(d.Title()))
	}

	// Labels may take what the columns of all devices leave, or matrixLabel if that is more: then
	// there are several blocks, all about as wide.
	all := len(devices) * cellWidth
	label := min(longest+len("#00 ")+1, max(matrixLabel, p.Columns()-all))
	blocks := divideUp(len(devices), (p.Columns()-label)/cellWidth)

	// The affinities are columns only if the whole matrix is one block and they still fit beside
	// it.
	hasAffinities := label+all+affinityGap+affinity <= p.Columns()
	return grid{label, divideUp(len(devices), blocks), hasAffinities}
}

// affinities writes a line per affinity with the devices that have it.
func (p *printer) affinities(
	r Report, title string, width int, affinity func(DeviceReport) string,
) {
	numbers := map[string]string{}
	var order []string
	for i, d := range r.Devices {
		text := affinity(d)
		if numbers[text] == "" {
			order = append(order, text)
		}
		numbers[text] += fmt.Sprintf(" #%d", i)
	}

	p.line(pad(title, width) + "DEVICES")
	for _, text := range order {
		p.line(pad(text, width) + p.wrap(numbers[text], width, width))
	}
}

// hostAffinity returns the NUMA node of a device and the CPUs of that node.
func (r Report) hostAffinity(d DeviceReport) string {
	cpus := "-"
	for _, n := range r.plan.Host.Nodes {
		if d.HostNode != nil && n.ID == *d.HostNode {
			cpus = n.CPUs.String()
		}
	}

	return fmt.Sprintf("%-*s%s", numaWidth, or(d.HostNode, "none"), cpus)
}

// guestAffinity returns the cell of a device and the vCPUs of that cell.
func (r Report) guestAffinity(d DeviceReport) string {
	cpus := "-"
	for _, c := range r.plan.Domain().Cells {
		if ids, err := topology.ParseIDs(c.CPUs); err == nil && d.GuestCell != nil &&
			c.ID == *d.GuestCell && !ids.IsEmpty() {
			cpus = ids.String()
		}
	}

	return fmt.Sprintf("%-*s%s", numaWidth, or(d.GuestCell, "none"), cpus)
}

func divideUp(n, by int) int { return (n + by - 1) / by }

func (r Report) hostCell(i, j int) string {
	text := r.Paths.Host.Between(i, j).String()
	if i != j && r.PairChange(i, j) == Unknown {
		text = "?"
	}
	return fmt.Sprintf(" %-*s", cellWidth-1, text)
}

func (p *printer) guestCell(r Report, i, j int) string {
	change := r.PairChange(i, j)
	mark := " "
	switch change {
	case Nearer:
		mark = "<"
	case Farther:
		mark = ">"
	}

	return p.Paint(change.colour(),
		fmt.Sprintf("%s%-*s", mark, cellWidth-1, r.Paths.Guest.Between(i, j)))
}
