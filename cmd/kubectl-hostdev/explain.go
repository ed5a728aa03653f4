package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cluster"
	"hook-sidecar/pkg/explain"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/nccl"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/terminal"
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
	cmd.Flags().BoolVar(&flags.details, "details", false, "add link speeds, and to svg the path types as nvidia-smi topo -m shows them")
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
	f.format = cmp.Or(f.format, explain.FormatOf(f.output))
	formats := explain.Formats()
	if f.details {
		formats = []string{explain.Text, explain.SVG}
	}
	if f.guest {
		formats = []string{explain.Text, explain.JSON}
	}
	if err := checkFormat(f.format, formats...); err != nil {
		return err
	}
	if f.guest && (f.layout != "" || f.details) {
		return usage{errors.New("--guest is of the VM as it is, without --layout and --details"), "leave out one of them"}
	}
	if f.all {
		return usage{errors.New("-A is a table of all VMs, and a VM is given"), "leave out one of them"}
	}
	return checkLayout(f.layout)
}

func checkLayout(layout string) error {
	if layout == "" {
		return nil
	}
	_, _, err := policy.Resolve(policy.Source{Flags: map[policy.Key]string{policy.KeyLayout: layout}})
	return err
}

func (a *app) explain(ctx context.Context, argument string, flags explainFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	client, vm, err := a.load(ctx, argument, cluster.DevicesOnly, flags.details || flags.format == explain.NCCL)
	if err != nil {
		return err
	}
	if flags.guest {
		return a.compareWithGuest(ctx, client, vm, flags)
	}
	data, err := a.shown(vm, flags)
	if err != nil {
		return err
	}
	return a.write(flags.output, data)
}

// shown is what explain prints: of the current tree, or of what --layout would build.
func (a *app) shown(vm planned, flags explainFlags) ([]byte, error) {
	subject := subjectOf(vm)
	result, plan := vm.Planned, vm.Planned.Plan
	if flags.layout != "" {
		result = vm.mutator.With(map[policy.Key]string{policy.KeyLayout: flags.layout}).Mutate(vm.request)
		if plan = result.Plan; plan == nil {
			return nil, result.Err
		}
	}
	r := report.New(result.Plan, result.Changed(), result.Err)
	r.Subject, r.Details = subject, flags.details
	if flags.layout == "" {
		current := vm.Current
		current.Subject, current.Details = subject, flags.details
		r = report.AsIs(current, explain.Prospect(vm.mutator, vm.request, vm.CurrentPlan, r))
		plan = vm.CurrentPlan
	}
	var b bytes.Buffer
	switch flags.format {
	case explain.NCCL:
		file := nccl.New(plan)
		for _, w := range file.Warnings {
			a.say("warning: %s: %s", w.Code, w.Text)
		}
		return []byte(file.String()), nil
	case explain.Text:
		b.WriteString(heading(vm.Running))
	}
	err := explain.Write(&b, r, flags.format, terminal.StyleOf(a.Out, a.environ, flags.output))
	return b.Bytes(), err
}

// subjectOf says what is explained.
func subjectOf(vm planned) report.Subject {
	s := report.NewSubject(vm.Planned.Plan.Domain(), vm.VMI)
	s.Host, s.Source, s.Tool = "node "+vm.Node, "pod "+vm.Pod, version()
	return s
}

// compareWithGuest prints which devices the guest shows where the domain has them.
func (a *app) compareWithGuest(ctx context.Context, client *cluster.Client, vm planned, flags explainFlags) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	data, err := client.Guest(ctx, vm.VM)
	if err != nil {
		return err
	}
	guest, problems, err := host.ReadGuest(data)
	if err != nil {
		return fmt.Errorf("read what the guest's agent prints: %w", err)
	}
	for _, p := range problems {
		a.say("warning: %s: %s: %s", p.Code, p.Source, p.Text)
	}
	current := vm.Current
	current.Subject = subjectOf(vm)
	comparison := report.CompareGuest(current, guest)
	var b bytes.Buffer
	if err = explain.WriteComparison(&b, comparison, flags.format, terminal.StyleOf(a.Out, a.environ, flags.output)); err == nil {
		err = a.write(flags.output, b.Bytes())
	}
	if err == nil && comparison.Count(report.Differs) > 0 {
		err = errFound
	}
	return err
}

// heading is the first lines of the text: the verdict and what to do.
func heading(r explain.Running) string {
	text := terminal.Escaped(r.Verdict()) + "\n"
	if todo := r.ToDo(); todo != "" {
		text += terminal.Escaped("to do: "+todo) + "\n"
	}
	return text + "\n"
}

// completeExplain sets what shells complete.
func (a *app) completeExplain(cmd *cobra.Command) {
	cmd.ValidArgsFunction = a.completeVMs
	var names []string
	for _, l := range policy.TreeLayouts() {
		names = append(names, string(l))
	}
	fixed(cmd, "layout", names)
	fixed(cmd, "format", explain.Formats())
}
