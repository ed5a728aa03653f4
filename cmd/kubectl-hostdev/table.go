package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/sync/errgroup"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/cluster"
	"hook-sidecar/pkg/doctor"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/topology"
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
	Namespace string         `json:"namespace"` // of the VM
	Name      string         `json:"name"`      // of the VM
	Node      string         `json:"node"`      // that it runs on
	Devices   int            `json:"devices"`   // how many passthrough devices it has
	Pairs     int            `json:"pairs"`     // pairs of devices
	Alike     int            `json:"alike"`     // how many of these are as on the host
	Unplaced  int            `json:"unplaced"`  // devices without a place
	Cells     int            `json:"cells"`     // guest NUMA cells; they come first where there are none
	Layout    policy.Layout  `json:"layout"`    // of the current tree; "" where no device is under an expander bus
	Finding   *doctor.Result `json:"finding"`   // the worst of doctor; null where it has no FAIL and no WARN
	Error     *string        `json:"error"`     // why the VM was not read
}

// concurrency is how many VMs are read at a time.
const concurrency = 8

// table prints the VMs with passthrough devices. One that cannot be read has its error
// in its row; where none can be read, that is the error.
func (a *app) table(ctx context.Context, flags explainFlags) error {
	if err := flags.Check(true); err != nil {
		return err
	}
	if flags.layout != "" || flags.Details {
		return cli.Failed("name the VM", errors.New("--layout and --details require a VM name"))
	}
	client, namespace, err := a.connect()
	if err != nil {
		return err
	}
	if flags.all {
		namespace = ""
	}
	list, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	all, err := client.Instances(list, namespace)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(in cluster.Instance) bool { return !in.MayHaveDevices })
	slices.SortFunc(all, func(x, y cluster.Instance) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	rows, failures := make([]row, len(all)), make([]error, len(all))
	group := errgroup.Group{}
	group.SetLimit(concurrency)
	for i, in := range all {
		group.Go(func() error {
			rows[i], failures[i] = a.row(ctx, client, in)
			return nil
		})
	}
	group.Wait()
	if len(all) > 0 && !slices.Contains(failures, nil) {
		return failures[0]
	}
	return a.WriteAs(flags.Format, flags.Output, vmTable{tableVersion, rows}, func(b *bytes.Buffer) error { return writeTable(b, rows) })
}

// row reads one VM of the table.
func (a *app) row(ctx context.Context, client *cluster.Client, in cluster.Instance) (row, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	r := row{Namespace: in.Namespace, Name: in.Name, Node: in.Node}
	vm, err := client.VM(ctx, in, cluster.DevicesOnly)
	if err == nil {
		err = r.fill(vm)
	}
	if err != nil {
		r.Error = new(err.Error())
	}
	return r, err
}

func (r *row) fill(vm cluster.VM) error {
	inputs, running, err := check(vm)
	if err != nil {
		return err
	}
	r.Devices, r.Pairs, r.Alike, r.Layout = len(running.Current.Devices), running.Pairs.All, running.Pairs.Alike, running.Layout
	r.Unplaced, r.Cells = report.WithoutPlace(running.Planned.Plan), len(running.Current.Domain().Cells)
	found := doctor.NewReport(inputs).Results // the worst first
	if len(found) > 0 && (found[0].Status == doctor.Fail || found[0].Status == doctor.Warn) {
		r.Finding = &found[0]
	}
	return nil
}

// maxFinding is the length of a finding with which a row is one line on most terminals.
const maxFinding = 88

func writeTable(b *bytes.Buffer, rows []row) error {
	if len(rows) == 0 {
		b.WriteString("no VM with passthrough devices\n")
		return nil
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAMESPACE\tVM\tNODE\tDEVICES\tPAIRS AS ON HOST\tUNPLACED\tNUMA CELLS\tLAYOUT\tWORST FINDING")
	for _, r := range rows {
		pairs, finding := fmt.Sprintf("%d of %d", r.Alike, r.Pairs), "-"
		if r.Finding != nil {
			finding = fmt.Sprintf("%s %s: %s", r.Finding.Status, r.Finding.Name, r.Finding.Found)
		}
		devices, unplaced, guestCells := fmt.Sprint(r.Devices), fmt.Sprint(r.Unplaced), "none"
		if r.Cells > 0 {
			guestCells = fmt.Sprint(r.Cells)
		}
		if r.Error != nil {
			devices, pairs, unplaced, guestCells, finding = "?", "?", "?", "?", "error: "+*r.Error
		}
		cells := []string{r.Namespace, r.Name, cmp.Or(r.Node, "-"), devices, pairs, unplaced, guestCells, cmp.Or(string(r.Layout), "-"), topology.AbridgeTo(topology.OneLine(finding), maxFinding)}
		for i := range cells {
			cells[i] = topology.Printable(cells[i])
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}
