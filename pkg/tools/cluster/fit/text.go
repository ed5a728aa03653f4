package fit

import (
	"cmp"
	_ "embed"
	"fmt"
	"strings"
	"text/tabwriter"
	"text/template"

	"hook-sidecar/pkg/words"
)

//go:embed text.tmpl
var templateText string

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"printable": words.Printable,
}).Parse(templateText))

// text executes a template.
func text(name string, data any) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // a template does not know its data
	}
	return b.String()
}

// table aligns columns. Its cells are names of a cluster: what would move a terminal's cursor is
// replaced.
type table struct {
	text    strings.Builder
	columns *tabwriter.Writer
}

func (t *table) String() string {
	t.columns.Flush() // to a strings.Builder, which has no error
	return t.text.String()
}

// Text returns the answer as a line per node, and of a single node its devices.
func (a Answer) Text() string {
	nodes := newTable("NODE", "FIT NOW", "WHEN EMPTY", "PAIRS OF THE NEXT", "IN ITS GUEST",
		"WHY NOT NOW")
	for _, n := range a.Nodes {
		guest := strings.TrimSpace(fmt.Sprint(n.Layout, " ", n.Guest))
		nodes.row(n.Name, fmt.Sprint(n.Now), fmt.Sprint(n.Empty), n.pairsText(), guest,
			cmp.Or(n.Why, "-"))
	}

	b := &strings.Builder{}
	fmt.Fprintf(b, "%s\n%s: %d fit now, %d when empty\n", nodes, words.Printable(a.VM), a.Now,
		a.Empty)
	for _, note := range a.Notes {
		fmt.Fprintln(b, words.Printable(note))
	}

	if a.Kubernetes != "" {
		fmt.Fprintf(b, "allocated as by Kubernetes %s\n", words.Printable(a.Kubernetes))
	}

	if len(a.Nodes) == 1 && len(a.Nodes[0].Devices) > 0 {
		fmt.Fprintf(b, "\n%s", a.Nodes[0].picture())
	}

	if len(a.Nodes) == 1 && len(a.Nodes[0].Partitions) > 0 {
		fmt.Fprintf(b, "\n%s", a.Nodes[0].partitionTable())
	}

	return b.String()
}

func (n Node) pairsText() string {
	if n.Plugins == nil {
		return n.Pairs.String()
	}

	oneNode := "refused"
	if n.Plugins.OneNode != nil {
		oneNode = n.Plugins.OneNode.String()
	}

	return fmt.Sprintf("best %s; worst %s; single-numa-node %s", n.Plugins.Best, n.Plugins.Worst,
		oneNode)
}

// picture lists the devices of the node.
func (n Node) picture() *table {
	t := newTable("NUMA", "PCIE ROOT", "DEVICE", "ADDRESS", "STATE", "BY")
	for _, d := range n.Devices {
		t.row(d.NUMA, cmp.Or(d.Root.String(), "unknown"), d.Name, cmp.Or(d.Address, "-"), d.State,
			cmp.Or(d.By, "-"))
	}

	return t
}

// partitionTable lists the NVLink partitions of the node.
func (n Node) partitionTable() *table {
	t := newTable("PARTITION", "SIZE", "STATE", "BY", "GPUS")
	for _, p := range n.Partitions {
		t.row(fmt.Sprint(p.ID), fmt.Sprint(len(p.GPUs)), p.State, cmp.Or(p.By, "-"),
			strings.Join(p.GPUs, " "))
	}

	return t
}

func newTable(titles ...string) *table {
	t := &table{}
	t.columns = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	t.row(titles...)
	return t
}

func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = words.Printable(words.OneLine(cell))
	}
	fmt.Fprintln(t.columns, strings.Join(cells, "\t"))
}
