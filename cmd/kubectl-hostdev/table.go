package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/doctor"
	"hook-sidecar/pkg/words"
)

// tableVersion is the version of the table as JSON. It rises when a field is removed or
// changes its meaning, not when one is added.
const tableVersion = 2

// vmTable is the output of explain without a VM.
type vmTable struct {
	SchemaVersion int   `json:"schemaVersion"` // 2
	VMs           []row `json:"vms"`           // by namespace and name
}

// row is a VM of the table.
type row struct {
	Namespace string `json:"namespace"` // of the VM
	Name      string `json:"name"`      // of the VM
	Node      string `json:"node"`      // that it runs on
	Phase     string `json:"phase"`     // of its VMI; "" where it is not known
	Devices   int    `json:"devices"`   // how many passthrough devices it has
	GPUs      int    `json:"gpus"`      // GPUs that have a NIC beside them in the VM
	// how many of these use GPUDirect RDMA to their NIC
	Direct int `json:"direct"`
	Pairs  int `json:"pairs"` // pairs of devices
	Alike  int `json:"alike"` // how many of these are as on the host
	// layouts that show more: the hook's choice, and any that shows more than it
	Better   []plan.Alternative `json:"better"`
	Unplaced int                `json:"unplaced"` // devices without a place
	// devices that get another address in the guest at the next start with the hook
	Moved int `json:"moved"`
	// number of guest NUMA cells; if 0, giving the guest cells is the first thing to do
	Cells int `json:"cells"`
	// of the current tree; "" where no device is under an expander bus
	Layout policy.Layout `json:"layout"`
	// whether each device is where the hook puts it at the next start, and has a place, as far as the
	// guest's cells allow
	AsPlanned bool `json:"asPlanned"`
	// what to do; "" where no device is passed through
	ToDo string `json:"toDo"`
	// the worst of doctor; null where it has no FAIL and no WARN
	Finding *doctor.Result `json:"finding"`
	Error   *string        `json:"error"` // why the VM was not read

	isUnread bool // it runs, or its VMI cannot be read: Error is no answer
}

// isToDo reports whether a row is one that --check shows.
func (r row) isToDo() bool { return r.isUnread || r.Error == nil && !r.AsPlanned }

// table prints the VMs with passthrough devices; as text, each as soon as it is read. A VM that
// does not run or cannot be read has its phase or error in its row. If no running VM can be read,
// the command fails; with --check it fails if one cannot.
func (a *app) table(ctx context.Context, flags explainFlags) error {
	client, all, err := a.instances(ctx, flags.fleetFlags)
	if err != nil {
		return err
	}

	if flags.Format == cli.Name {
		var names bytes.Buffer
		for _, in := range all {
			fmt.Fprintln(&names, words.Printable(cluster.ResourceName(in.Name)))
		}
		return a.Write(flags.File, names.Bytes())
	}

	isStreamed := flags.File == "" && (flags.Format == cli.Text || flags.Format == cli.Wide)
	columns := newColumns(flags, all, a.Style(flags.File).Width)
	text, isEmpty := new(bytes.Buffer), true
	isShown := func(r row) bool { return !flags.isCheck || r.isToDo() }
	read := func(in cluster.Instance) (row, error) { return a.row(ctx, client, in) }
	rows, failures := cluster.Each(all, flags.concurrency, a.Progress, read, func(r row, _ error) {
		if !isShown(r) {
			return
		}

		if isEmpty {
			text.WriteString(columns.line(columns.titles))
			isEmpty = false
		}

		text.WriteString(columns.line(columns.cells(r)))
		if isStreamed && err == nil {
			err = a.Write("", text.Bytes())
			text.Reset()
		}
	})
	if err != nil {
		return err
	}

	err = tableError(rows, failures, flags.isCheck)
	rows = slices.DeleteFunc(rows, func(r row) bool { return !isShown(r) })
	if isEmpty {
		text.WriteString(emptyTable(len(all)))
	}

	return cmp.Or(a.WriteAs(flags.Output, vmTable{tableVersion, rows}, func(b *bytes.Buffer) error {
		_, err := text.WriteTo(b)
		return err
	}), err)
}

// tableError returns the error of a table with these rows and their errors. A VM that does not run
// has none: its row is the answer.
func tableError(rows []row, failures []error, isCheck bool) error {
	var errs []error // of the VMs that should be read; nil is one that was
	for i, r := range rows {
		if r.isUnread || r.Error == nil {
			errs = append(errs, failures[i])
		}
	}

	if !isCheck {
		return failure(errs)
	}

	return cmp.Or(append(errs, cli.Found(slices.ContainsFunc(rows, row.isToDo)))...)
}

// row reads one VM of the table.
func (a *app) row(ctx context.Context, client *cluster.Client, in cluster.Instance) (row, error) {
	r := row{
		Namespace: in.Namespace,
		Name:      in.Name,
		Node:      in.Node,
		Phase:     in.Phase,
		Better:    []plan.Alternative{},
	}

	inputs, running, err := a.checked(ctx, client, in, cluster.DevicesOnly)
	if err != nil {
		r.isUnread = in.IsRunning() || in.Err != nil
		r.Error, r.ToDo = new(err.Error()), reasons.HintOf(err)
		return r, err
	}

	pairs, outcome := running.Current.Pairs(), running.Current.GPUDirect()
	r.GPUs, r.Direct = outcome.GPUs, outcome.Guest
	r.Devices, r.Pairs, r.Alike = len(running.Current.Devices), pairs.All, pairs.Alike
	r.Layout, r.Cells = running.Current.TreeLayout(), len(running.Current.Domain().CPUCells())
	r.Unplaced, r.ToDo = findings.WithoutPlace(running.Planned.Plan), running.ToDo()
	r.Moved = running.Moved()
	r.AsPlanned = r.Moved == 0 && running.IsComplete()
	r.Better = append(r.Better, running.Better()...)
	found := doctor.NewReport(inputs).Results // the worst first
	if len(found) > 0 && (found[0].Status == doctor.Fail || found[0].Status == doctor.Warn) {
		r.Finding = &found[0]
	}

	return r, nil
}

// columns are the columns of the table as text. Their widths are known before a VM is read; the
// last has what is left of a terminal, and no less than minToDo.
type columns struct {
	titles []string
	widths []int
	isWide bool
	width  int // of the terminal, 0 without one
}

// emptyTable is the text of a table of so many VMs that has no line.
func emptyTable(vms int) string {
	if vms == 0 {
		return noVM
	}
	return "each VM that runs has its devices where the hook puts them\n"
}

const minToDo = 24

func newColumns(flags explainFlags, all []cluster.Instance, width int) columns {
	c := columns{
		titles: []string{
			"NAMESPACE", "VM", "NODE", "DEVICES", "GPUDIRECT", "AS ON HOST", "WITH LAYOUT",
			"LAYOUT",
		},
		widths: []int{
			len("NAMESPACE"), len("VM"), len("NODE"), len("DEVICES"), len("GPUDIRECT"),
			len("120 of 120"), len("mirror 8 GPUs direct, 120 pairs"), len("mirror"),
		},
		width: width,
	}

	if c.isWide = flags.Format == cli.Wide; c.isWide {
		c.titles, c.width = append(c.titles, "UNPLACED", "MOVED", "CELLS", "FINDING"), 0
		c.widths = append(c.widths, len("UNPLACED"), len("MOVED"), len("CELLS"), len("FAIL requested-devices"))
	}

	c.titles = append(c.titles, "TO DO")

	for _, in := range all {
		for i, name := range []string{in.Namespace, in.Name, in.Node} {
			c.widths[i] = max(c.widths[i], len(name))
		}
	}

	return c
}

// cells returns the cells of a row.
func (c columns) cells(r row) []string {
	cells := []string{r.Namespace, r.Name, cmp.Or(r.Node, "-")}
	if r.Error != nil {
		for len(cells) < len(c.widths) {
			cells = append(cells, "?")
		}

		what := "error: " + *r.Error
		if r.Phase != "" && !r.isUnread {
			what = "does not run: its phase is " + r.Phase
		}

		return append(cells, strings.TrimSuffix(what+"; "+r.ToDo, "; "))
	}

	direct := "-"
	if r.GPUs > 0 {
		direct = fmt.Sprintf("%d of %d", r.Direct, r.GPUs)
	}

	cells = append(cells, fmt.Sprint(r.Devices), direct, fmt.Sprintf("%d of %d", r.Alike, r.Pairs),
		cmp.Or(plan.Listed(r.Better), "-"), cmp.Or(string(r.Layout), "-"))
	if c.isWide {
		finding := "-"
		if r.Finding != nil {
			finding = fmt.Sprintf("%s %s", r.Finding.Status, r.Finding.Name)
		}
		cells = append(cells, fmt.Sprint(r.Unplaced), fmt.Sprint(r.Moved), fmt.Sprint(r.Cells),
			finding)
	}

	return append(cells, cmp.Or(r.ToDo, "-"))
}

// line pads cells and truncates the last one to the terminal.
func (c columns) line(cells []string) string {
	line := ""
	for i, width := range c.widths {
		line += fmt.Sprintf("%-*s  ", width, words.Printable(cells[i]))
	}

	last := words.Printable(words.OneLine(cells[len(cells)-1]))
	if c.width > 0 {
		last = report.Fit(last, max(minToDo, c.width-len(line)))
	}

	return line + last + "\n"
}
