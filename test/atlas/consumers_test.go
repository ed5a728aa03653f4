package atlas_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/test/atlas"
	"hook-sidecar/test/expect"
)

// consumersTable matches the table of docs/comparison.md.
var consumersTable = regexp.MustCompile(`(?s)\| machine \| guest \|.*?\n\n`)

// TestConsumersTable: docs/comparison.md has what each consumer decides in each tree by its model, and
// `make judges` shows that the models decide as the programs do.
func TestConsumersTable(t *testing.T) {
	machines := []atlas.Machine{
		{Title: "HGX H100", File: "hosts/x86-2n8g-hgx-h100.txtar"},
		{Title: "DGX A100", File: "hosts/x86-8n8g-dgx-a100.txtar"},
		{Title: "8 GPUs without NVLink, 4 NICs", File: "hosts/x86-2n8g4n-pcie.txtar"},
		{Title: "4 GPUs, no switch", File: "hosts/x86-2n4g-three-roots.txtar"},
	}

	names := []string{consumers.UCX, consumers.P2PDMA, consumers.DRARoot, consumers.HWLoc}
	var table strings.Builder
	fmt.Fprintf(&table, "| machine | guest | %s |\n|---|---|%s\n", strings.Join(names, " | "),
		strings.Repeat("---|", len(names)))
	for _, machine := range machines {
		vm := machine.VM(t)
		guests := map[string][]string{} // by what consumers decide in them
		var rows []string
		for _, guest := range atlas.Guests {
			decided := map[string]consumers.Tally{}
			for _, tally := range guest.Consumers(t, vm) {
				decided[tally.Consumer] = tally
			}

			var cells strings.Builder
			for _, name := range names {
				d := decided[name]
				fmt.Fprintf(&cells, " %d, %d, %d |", d.Right, d.Open, d.Wrong)
			}

			if guests[cells.String()] == nil {
				rows = append(rows, cells.String())
			}
			guests[cells.String()] = append(guests[cells.String()], guest.Title)
		}

		for _, cells := range rows {
			fmt.Fprintf(&table, "| %s | %s |%s\n", machine.Title,
				strings.Join(guests[cells], "; "), cells)
		}
	}

	table.WriteString("\n")
	page := string(expect.File(t, file))
	compare(t, page, consumersTable.ReplaceAllLiteralString(page, table.String()))
}
