package atlas_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	_ "embed"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/test/atlas"
	"hook-sidecar/test/expect"
)

var update = flag.Bool("update", false, "rewrite what docs/comparison.md has of models")

// section is that of docs/comparison.md about public machines.
//
//go:embed page.tmpl
var section string

// sectionText matches the section in the page, up to the next heading of its rank.
var sectionText = regexp.MustCompile(`(?s)## Public machines\n.*?\n## `)

// row has a machine's figures, and what programs decide, by the title of the guest.
type row struct {
	atlas.Machine
	figures  map[string]atlas.Figures
	programs map[string][]consumers.Program
}

// TestPage: docs/comparison.md has the figures of every machine and guest.
func TestPage(t *testing.T) {
	rows := make([]row, len(atlas.Machines))
	for i, m := range atlas.Machines {
		rows[i] = row{m, map[string]atlas.Figures{}, map[string][]consumers.Program{}}
		vm := m.VM(t)
		for _, g := range atlas.Guests {
			rows[i].figures[g.Title] = g.Figures(t, vm)
			rows[i].programs[g.Title] = g.Programs(t, vm)
		}
	}

	var text strings.Builder
	form := template.Must(template.New("section").Parse(section))
	expect.NoError(t, form.Execute(&text, map[string]any{
		"Table": table(rows), "Programs": programs(rows), "Lost": lost(rows), "Alike": alike(rows, atlas.PR17025),
		"Better": better(rows), "Merged": merged(rows), "Slow": slow(rows),
		"Without": without(rows),
		"Hook":    alike(rows, atlas.Hook), "Off": off(rows), "Records": records(rows),
	}))

	page := string(expect.File(t, file))
	if !sectionText.MatchString(page) {
		t.Fatalf("%s has no section about public machines", file)
	}
	compare(t, page, sectionText.ReplaceAllLiteralString(page, text.String()+"\n## "))
}

// file is the page.
const file = "../../docs/comparison.md"

// compare compares the page with what it should be; -update writes that.
func compare(t *testing.T, page, want string) {
	t.Helper()
	if *update {
		expect.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}

	expect.Same(t, page, want, "%s is not what the models say (-page +models), rewrite it with "+
		"go test ./test/atlas -update", file)
}

// table returns the table of figures.
func table(rows []row) string {
	return grouped(rows, "| machine | GPUs, host |", func(r row) string {
		f := r.figures[atlas.Flat.Title]
		cells := fmt.Sprintf(" %d, %d |", f.GPUs, f.Host)
		if f.GPUs == 0 {
			cells = fmt.Sprintf(" %d pairs |", f.Pairs.All)
		}

		for _, g := range atlas.Guests {
			cells += " " + cell(r.figures[g.Title]) + " |"
		}

		return cells
	})
}

// cell returns a cell of the table.
func cell(f atlas.Figures) string {
	if f.GPUs == 0 { // without NICs
		return fmt.Sprintf("%d pairs", f.Pairs.Alike)
	}
	return fmt.Sprintf("%d, %d, %.2f", f.Guest, f.Right, f.Speed)
}

// programs returns the table of programs that decide as on the host.
func programs(rows []row) string {
	return grouped(rows, "| machine |", func(r row) (cells string) {
		for _, g := range atlas.Guests {
			cells += " " + asOnHost(r.programs[g.Title]) + " |"
		}
		return cells
	})
}

// grouped returns a table with a column per guest; machines with the same cells share a row.
func grouped(rows []row, head string, cellsOf func(row) string) string {
	for _, g := range atlas.Guests {
		head += " " + g.Title + " |"
	}

	var b strings.Builder
	fmt.Fprintf(&b, "%s\n|%s\n", head, strings.Repeat("---|", strings.Count(head, "|")-1))
	machines := map[string][]string{} // by their cells
	var order []string
	for _, r := range rows {
		cells := cellsOf(r)
		if machines[cells] == nil {
			order = append(order, cells)
		}
		machines[cells] = append(machines[cells], r.Title)
	}

	for _, cells := range order {
		fmt.Fprintf(&b, "| %s |%s\n", strings.Join(machines[cells], "; "), cells)
	}

	return b.String()
}

// asOnHost names the programs that decide as on the host about every GPU.
func asOnHost(all []consumers.Program) string {
	var names []string
	for _, p := range all {
		if p.AsOnHost == p.GPUs {
			names = append(names, p.Name)
		}
	}

	switch len(names) {
	case 0:
		return "none"
	case len(all):
		return "all"
	}

	return strings.Join(names, ", ")
}

// titles lists the machines that are so.
func titles(rows []row, isSo func(row) bool) string {
	var names []string
	for _, r := range rows {
		if r.figures[atlas.Flat.Title].GPUs > 0 && isSo(r) {
			names = append(names, r.Title)
		}
	}

	if len(names) == 0 {
		return "none"
	}

	return strings.Join(names, ", ")
}

// direct says which of the machines whose host has GPUDirect RDMA are so, by those that are not.
func direct(rows []row, isSo func(row) bool) string {
	others := titles(rows, func(r row) bool {
		return r.figures[atlas.Flat.Title].Host > 0 && !isSo(r)
	})
	if others == "none" {
		return "every machine with GPUDirect RDMA"
	}

	return "every machine with GPUDirect RDMA but " + others
}

// lost says which machines lose all GPUDirect RDMA in every tree without switches.
func lost(rows []row) string {
	flat := []atlas.Guest{atlas.Flat, atlas.Gate, atlas.PR19104, atlas.Enhancement424}
	return direct(rows, func(r row) bool {
		keeps := func(g atlas.Guest) bool { return r.figures[g.Title].Guest > 0 }
		return !slices.ContainsFunc(flat, keeps)
	})
}

// alike says on which machines with GPUDirect RDMA a guest is as the host.
func alike(rows []row, g atlas.Guest) string {
	return direct(rows, func(r row) bool { return r.figures[g.Title].IsAsHost() })
}

// better lists the machines on which 17025 has more GPUDirect RDMA than the hook has without a key.
func better(rows []row) string {
	return titles(rows, func(r row) bool {
		return r.figures[atlas.PR17025.Title].Guest > r.figures[atlas.Hook.Title].Guest
	})
}

// merged lists the machines whose cascade the hook replaces by one switch without a key.
func merged(rows []row) string {
	return titles(rows, func(r row) bool { return r.figures[atlas.Hook.Title].Merged > 0 })
}

// slow lists the machines with a path in 17025's guest that NCCL believes to be a tenth as fast.
func slow(rows []row) string {
	const tenth = 0.1
	return titles(rows, func(r row) bool { return r.figures[atlas.PR17025.Title].Speed < tenth })
}

// without lists the machines without GPUDirect RDMA on the host.
func without(rows []row) string {
	return titles(rows, func(r row) bool { return r.figures[atlas.Flat.Title].Host == 0 })
}

// off lists the machines on which the hook's guest with port-speed=host is not as the host.
func off(rows []row) string {
	return titles(rows, func(r row) bool {
		return !r.figures[atlas.HookWithSpeed.Title].IsAsHost()
	})
}

// records lists the sources, each with its machines and what it does not say of one.
func records(rows []row) string {
	machines := map[string][]string{}
	var sources []string
	for _, r := range rows {
		if machines[r.Source] == nil {
			sources = append(sources, r.Source)
		}

		name := fmt.Sprintf("[%s](../testdata/%s)", r.Title, r.File)
		if r.Note != "" {
			name += " (" + r.Note + ")"
		}
		machines[r.Source] = append(machines[r.Source], name)
	}

	var b strings.Builder
	for _, source := range sources {
		fmt.Fprintf(&b, "- %s: %s\n", strings.Join(machines[source], ", "), source)
	}

	return strings.TrimSuffix(b.String(), "\n")
}
