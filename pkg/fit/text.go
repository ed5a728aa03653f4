package fit

import (
	"bytes"
	"cmp"
	"errors"
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
	var last Device
	for i, d := range n.Devices {
		if i == 0 || d.NUMA != last.NUMA {
			fmt.Fprintf(table, "NUMA node %s\n", cmp.Or(d.NUMA, unknown))
		}
		if i == 0 || d.NUMA != last.NUMA || d.Root != last.Root {
			fmt.Fprintf(table, "  %s\n", topology.Printable(cmp.Or(d.Root, "PCIe root "+unknown)))
		}
		fmt.Fprintln(table, strings.TrimSuffix(fmt.Sprintf("    %s\t%s\t%s\t%s", d.Name, topology.Printable(d.Address), d.State, topology.Printable(d.By)), "\t"))
		last = d
	}
	return table.Flush()
}

// Claim writes the ResourceClaimTemplate of a shape in numbers, with its notes. That no node
// would meet it if nothing ran is an error.
func (s Shape) Claim(b *bytes.Buffer) error {
	if s.Template == "" {
		return errors.New("write a claim: a device plugin's resource has none")
	}
	if s.refused != "" {
		return fmt.Errorf("write a claim for %s: %s", s.Name, s.refused)
	}
	for _, line := range append([]string{s.Name}, s.Notes...) {
		fmt.Fprintf(b, "# %s\n", topology.Printable(line))
	}
	b.WriteString(s.Template)
	return nil
}
