package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/cluster"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	format, output, layout string
	all, details, guest    bool
}

func (a *app) newExplain() *cobra.Command {
	var flags explainFlags
	cmd := &cobra.Command{
		Use:   "explain [VM] [flags]",
		Short: "Explain where a VM's devices are, and where they could be",
		Long: `explain prints how many pairs of a VM's passthrough devices are as far from each
other in the guest as on the host, how many would be with hook-sidecar, and what to
do; then the PCI Express trees of host and guest side by side, the path types, and
what the hook would change. With --layout it shows what that layout would build.

Without a VM it prints a table of the namespace's VMs with passthrough devices, with
-A of all namespaces.

Exit status:
  0  success; with --guest: the guest is as the domain has it
  1  --guest found a difference
  2  usage error or failure`,
		Example: `  kubectl hostdev explain dgx -n ml
  kubectl hostdev explain dgx --layout mirror -o dgx.svg
  kubectl hostdev explain -A`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVar(&flags.format, "format", "", "text, json, svg (a picture) or nccl (a topology file for NCCL in the guest)\n(default: as --output ends, in .json, .svg, or .xml for nccl; else text)")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "", "write to this file (default: standard output)")
	cmd.Flags().StringVar(&flags.layout, "layout", "", "show what this layout would build, instead of what the VM has")
	cmd.Flags().BoolVarP(&flags.all, "all-namespaces", "A", false, "a table of the VMs of all namespaces")
	cmd.Flags().BoolVar(&flags.guest, "guest", false, "compare the VM with what its guest sees, by the guest agent; exit status 1 on a\ndifference")
	cmd.Flags().BoolVar(&flags.details, "details", false, "add link speeds")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return a.table(cmd.Context(), flags)
		}
		return a.explain(cmd.Context(), args[0], flags)
	}
	a.completeExplain(cmd)
	return cmd
}

// check checks the flags of explain for one VM.
func (f *explainFlags) check() error {
	f.format = cli.FormatOf(f.format, f.output)
	if err := cli.CheckFormat(f.format, cli.FormatsWith(f.guest, f.details && !f.guest)...); err != nil {
		return err
	}
	if f.guest && (f.layout != "" || f.details) {
		return cli.Failed("leave out one of them", errors.New("--guest is of the VM as it is, without --layout and --details"))
	}
	if f.all {
		return cli.Failed("leave out one of them", errors.New("-A is a table of all VMs, and a VM is given"))
	}
	if f.layout == "" {
		return nil
	}
	_, _, err := policy.Resolve(policy.Source{Flags: map[policy.Key]string{policy.KeyLayout: f.layout}})
	return err
}

func (a *app) explain(ctx context.Context, argument string, flags explainFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	client, vm, err := a.load(ctx, argument, cluster.DevicesOnly)
	if err != nil {
		return err
	}
	running, err := newRunning(vm, plan.Planner{Sysfs: vm.Host, Details: flags.details || flags.format == cli.NCCL})
	if err != nil {
		return planFailed(vm, err)
	}
	e := cli.Explanation{
		Subject: report.NewSubject(running.Planned.Plan.Domain(), vm.VMI),
		Details: flags.details, Format: flags.format, Output: flags.output, Heading: running.Heading(),
	}
	e.Subject.Host, e.Subject.Source, e.Subject.Tool = "node "+vm.Node, "pod "+vm.Pod, version()
	if flags.guest {
		return a.compareWithGuest(ctx, client, vm, e, e.OfCurrent(running.VM))
	}
	return a.show(e, running, policy.Layout(flags.layout))
}

// show writes the current tree, or that of a layout.
func (a *app) show(e cli.Explanation, running cli.Running, layout policy.Layout) error {
	shown := running.VM.Current()
	if layout != "" {
		if shown = running.WithLayout(layout); shown.Plan == nil {
			return shown.Err
		}
	}
	switch {
	case e.Format == cli.NCCL:
		warnings, err := a.WriteNCCL(shown.Plan, e.Output)
		for _, w := range warnings {
			a.Say("warning: %s: %s", w.Code, w.Text)
		}
		return err
	case layout != "":
		return a.Explain(e, e.OfPlan(shown))
	}
	return a.Explain(e, e.AsIs(running.VM))
}

// compareWithGuest compares the guest with the domain.
func (a *app) compareWithGuest(ctx context.Context, client *cluster.Client, vm cluster.VM, e cli.Explanation, current report.Report) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	data, err := client.Guest(ctx, vm)
	if err != nil {
		return err
	}
	guest, problems, err := host.ReadGuest(data)
	if err != nil {
		return fmt.Errorf("read what the guest's agent prints: %w", err)
	}
	comparison, err := a.CompareGuest(e, current, guest, problems)
	return cmp.Or(err, cli.Found(comparison.Count(report.Differs) > 0))
}

// completeExplain sets the values that shells complete.
func (a *app) completeExplain(cmd *cobra.Command) {
	cmd.ValidArgsFunction = a.completeVMs
	var names []string
	for _, l := range policy.TreeLayouts() {
		names = append(names, string(l))
	}
	fixed(cmd, "layout", names)
	fixed(cmd, "format", cli.Formats())
}
