package fit

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"hook-sidecar/pkg/topology"
)

// Table writes the answer as a line per node.
func (a Answer) Table(b *bytes.Buffer) error {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tFIT NOW\tWHEN EMPTY\tPAIRS OF THE NEXT\tWHY NOT NOW")
	for _, n := range a.Nodes {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\n", n.Name, n.Now, n.Empty, n.pairs(), cmp.Or(topology.Printable(n.Why), "-"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(b, "\n%s: %d fit now, %d when empty\n", topology.Printable(a.VM), a.Now, a.Empty)
	for _, note := range a.Notes {
		fmt.Fprintln(b, topology.Printable(note))
	}
	for _, what := range a.Unread {
		fmt.Fprintf(b, "not counted: %s\n", topology.Printable(what))
	}
	return nil
}

// pairs lists the pairs by path type, the nearest first.
func (n Node) pairs() string {
	if p := n.Plugins; p != nil {
		oneNode := "refused"
		if p.OneNode != nil {
			oneNode = listed(p.OneNode)
		}
		return fmt.Sprintf("best %s; worst %s; single-numa-node %s", listed(p.Best), listed(p.Worst), oneNode)
	}
	return listed(n.Pairs)
}

func listed(pairs map[string]int) string {
	var parts []string
	for _, name := range []string{"PIX", "PXB", "PHB", "NODE", "SYS", unknown} {
		if pairs[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", pairs[name], name))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// Picture writes a node's devices under their NUMA nodes and PCIe roots.
func (n Node) Picture(b *bytes.Buffer) error {
	fmt.Fprintf(b, "%s: %d fit now, %d when empty; pairs of the next: %s\n", n.Name, n.Now, n.Empty, n.pairs())
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	var last string
	for _, d := range n.Devices {
		place := fmt.Sprintf("NUMA node %s, PCIe root %s", cmp.Or(strings.Join(d.NUMA, ","), unknown), cmp.Or(strings.Join(d.Roots, ","), unknown))
		if place != last {
			fmt.Fprintln(table, topology.Printable(place))
		}
		last = place
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", d.Name, topology.Printable(d.Address), d.State, cmp.Or(topology.Printable(d.By), "-"))
	}
	return table.Flush()
}
