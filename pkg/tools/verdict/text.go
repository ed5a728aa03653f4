package verdict

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// WriteText writes the verdict: in the first line how good the guest is and what it costs, then a
// line per GPU, what its user can do, and what to send.
func (v Verdict) WriteText(w io.Writer, style report.Style) error {
	p := &page{style: style}
	colour := map[Outcome]report.Colour{
		Good: report.Green, Partly: report.Yellow, Flat: report.Red, Broken: report.Red,
		Unknown: report.Yellow,
	}[v.Outcome]

	p.paragraph(colour, fmt.Sprintf("%s: %s", v.Outcome, v.Cost))
	p.paragraph("", fmt.Sprintf("read: %s; %s, %s", strings.Join(v.Sources, ", "),
		working(len(v.GPUs), v.broken, "GPU"), v.workingNICs()))
	if len(v.GPUs) > 0 {
		p.gpus(v)
		p.relations(v.Relations)
		p.consumers(v.Consumers)
	}

	if v.Host != nil {
		p.host(v)
	}

	p.steps(v.Steps)

	if len(v.Send) > 0 {
		p.heading("SEND TO THE ADMINISTRATOR")
		p.paragraph("", strings.Join(v.Send, " "))
	}

	for _, note := range v.Notes {
		p.WriteString("\n")
		p.paragraph("", "note: "+note)
	}

	_, err := io.WriteString(w, p.String())
	return err
}

// working counts devices, and those that work where not all do: "8 NICs (7 of them can be used)".
func working(all, broken int, noun string) string {
	text := words.Counted(all, noun)
	if broken > 0 {
		text += fmt.Sprintf(" (%d of them can be used)", all-broken)
	}
	return text
}

func (v Verdict) workingNICs() string {
	all := len(nicsOf(&v.guest))
	return working(all, all-len(v.NICs), "NIC")
}

// page collects text.
type page struct {
	strings.Builder
	style report.Style
}

func (p *page) heading(text string) { p.WriteString("\n" + text + "\n") }

// paragraph writes a text in lines of the terminal's width.
func (p *page) paragraph(colour report.Colour, text string) {
	width := min(cmp.Or(p.style.Width, 100), 120)
	text = report.Wrap(words.Printable(text), max(width, 40), 0, 2)
	p.WriteString(p.style.Paint(colour, text) + "\n")
}

// table writes rows, whose cells are aligned.
func (p *page) table(rows [][]string) {
	columns := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(columns, strings.Join(topology.Map(row, words.Printable), "\t"))
	}

	columns.Flush()
}

// gpus writes a line per GPU.
func (p *page) gpus(v Verdict) {
	p.heading("GPUs")
	rows := [][]string{{"GPU", "ADDRESS", "NODE", "CPUS", "NIC", "NCCL PATH", "GPUDIRECT RDMA"}}
	for i, g := range v.GPUs {
		node := or(g.Node)
		if g.Node == nil && !v.guest.KnowsNode(v.gpus[i]) {
			node = "?"
		}

		direct := "not known: " + g.Why
		switch {
		case len(v.nics) == 0:
			direct = "-"
		case g.Direct != nil && *g.Direct:
			direct = "yes"
		case g.Direct != nil:
			direct = "no: " + g.Why
		}

		rows = append(rows, []string{
			g.Name, or(g.Address), node, or(g.CPUs), or(g.NIC), or(g.Path), direct,
		})
	}

	p.table(rows)
}

// or formats what a pointer points to; "-" for nil.
func or[T any](value *T) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprint(*value)
}

// relations writes how many pairs there are of each path type.
func (p *page) relations(relations []Relation) {
	rows := [][]string{{"", "PIX", "PXB", "PHB", "NODE", "SYS", "NVLINK/XGMI", "NOT KNOWN"}}
	pairs := 0
	for _, r := range relations {
		row := []string{r.Kind}
		for _, n := range []int{r.PIX, r.PXB, r.PHB, r.NODE, r.SYS, r.Linked, r.Unknown} {
			row = append(row, fmt.Sprint(n))
			pairs += n
		}

		rows = append(rows, row)
	}

	if pairs > 0 {
		p.heading("PAIRS")
		p.table(rows)
	}
}

// consumers writes a row per consumer: what it decides, and which variables help it.
func (p *page) consumers(all []Consumer) {
	if len(all) == 0 {
		return
	}

	p.heading("CONSUMERS OF THE TREE")
	rows := [][]string{{"CONSUMER", "ASKS OF EACH", "YES", "OPEN", "NO", "NOT KNOWN", "SET"}}
	for _, c := range all {
		row := []string{c.Consumer, c.Unit + ": " + c.Asks}
		for _, n := range []int{c.Yes, c.Open, c.No, c.Unknown} {
			row = append(row, fmt.Sprint(n))
		}

		rows = append(rows, append(row, cmp.Or(strings.Join(c.Set, " "), "-")))
	}

	p.table(rows)
}

// consumersOnHost writes for how many GPUs each program decides as on the host, and a row per
// consumer.
func (p *page) consumersOnHost(v Verdict) {
	parts := report.Decisions(v.programs)
	rows := [][]string{{"CONSUMER", "DECIDES FOR EACH", "AS ON THE HOST", "OPEN", "OTHERWISE",
		"NOT KNOWN"}}
	var unknown []string
	for _, c := range v.Consumers {
		if c.Host == nil {
			continue
		}

		row := []string{c.Consumer, c.Unit}
		for _, n := range []int{c.Host.Right, c.Host.Open, c.Host.Wrong, c.Host.Unknown} {
			row = append(row, fmt.Sprint(n))
		}

		rows = append(rows, row)
		if c.Host.Unknown > 0 {
			unknown = append(unknown, c.Consumer)
		}
	}

	if len(unknown) > 0 {
		parts = append(parts, "not known of all: "+strings.Join(unknown, ", "))
	}

	if len(rows) > 1 {
		p.paragraph("", strings.Join(parts, "; "))
		p.table(rows)
	}
}

// host writes what the guest lacks of its host.
func (p *page) host(v Verdict) {
	p.heading("COMPARED WITH THE HOST")
	p.consumersOnHost(v)
	p.paragraph("",
		fmt.Sprintf("on the host NCCL uses GPUDirect RDMA on %d of %d GPUs", v.Host.Direct,
			v.Host.GPUs))

	if n := len(v.Host.Lost); n > 0 {
		lost := topology.Map(v.Host.Lost, func(l Lost) string {
			return fmt.Sprintf("%s+%s %s, on the host %s", l.A, l.B, l.Guest, l.Host)
		})

		p.paragraph(report.Red, fmt.Sprintf("lost: %s: %s", words.Counted(n, "pair"),
			words.FirstOf(lost, 4, "; ")))
	} else if v.Host.Compared {
		p.paragraph(report.Green, "no pair is further apart than on the host")
	}

	for _, r := range v.Host.Restore {
		p.paragraph("", fmt.Sprintf("%s restores %s", r.Key, r.What))
	}
}

// steps writes what to do, with lines to copy.
func (p *page) steps(steps []Step) {
	if len(steps) == 0 {
		return
	}

	p.heading("WHAT YOU CAN DO NOW")
	for _, s := range steps {
		p.paragraph("", s.What)
		for _, line := range s.Text {
			p.WriteString("    " + words.Printable(line) + "\n")
		}
	}
}
