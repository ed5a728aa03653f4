package fit

import (
	"cmp"
	"fmt"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Text returns each claim with a line per device and per constraint.
func (c Check) Text() string {
	var b strings.Builder
	for i, claim := range c.Claims {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(claim.text())
	}

	return b.String()
}

func (c *CheckedClaim) text() string {
	devices, constraints := c.asAsked()
	head := []string{fmt.Sprintf("as asked: %d of %s, %d of %s", devices,
		words.Counted(len(c.Devices), "device"), constraints,
		words.Counted(len(c.Constraints), "constraint"))}
	if c.ToDo != "" {
		head = append(head, "to do: "+c.ToDo)
	}

	head = append(head, "", fmt.Sprintf("claim %s | VM %s | node %s | pod %s", c.Claim, c.VM,
		c.Node, c.Pod), "")
	given := newTable("REQUEST", "DEVICE", "PUBLISHED", "ON THE HOST", "IN THE GUEST", "PROBLEM")
	for _, d := range c.Devices {
		given.row(d.Request, cmp.Or(d.Name, "-"), d.Published.String(), d.Host.String(),
			d.Guest.String(), cmp.Or(d.Problem, "-"))
	}

	judged := newTable("CONSTRAINT", "REQUESTS", "PUBLISHED", "ON THE HOST", "IN THE GUEST")
	for _, constraint := range c.Constraints {
		kind := "same "
		if constraint.IsDistinct {
			kind = "distinct "
		}
		judged.row(kind+constraint.Attribute,
			cmp.Or(strings.Join(constraint.Requests, " "), "all"), constraint.Published.String(),
			constraint.Host.String(), constraint.Guest.String())
	}

	judged.row("pairs", "all", "-", c.Host.String(), c.Guest.String())
	return strings.Join(topology.Map(head, words.Printable), "\n") +
		fmt.Sprintf("%s\n%s", given, judged)
}

// String returns "0000:1b:00.0 pci0000:15 node 0", "-" of an unknown place.
func (p CheckedPlace) String() string {
	node := ""
	if p.NUMA != "" {
		node = "node " + p.NUMA
	}
	return cmp.Or(strings.Join(strings.Fields(p.Address+" "+p.Root+" "+node), " "), "-")
}

// String returns "yes: pci0000:15", "-" where there is nothing to say.
func (j Judgement) String() string {
	if j.IsMet == "" {
		return "-"
	}
	return j.IsMet + ": " + j.Values
}
