package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/cluster/fit"
	"hook-sidecar/pkg/topology"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	fleetFlags
	layout, guestFile string
	guest, isCheck    bool
	details           []report.Section
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
-A of all namespaces, with -l of those with these labels. Lines come as VMs are read.
-o wide adds columns to the table, and link speeds to a VM.

With --check the table has only VMs of which a device has no place, or is not where the
hook puts it at the next start, and VMs that cannot be read.

Exit status:
  0  success; with --guest: the guest is as the domain has it
  1  --guest found a difference, or --check a VM
  2  usage error or failure`,
		Example: `  kubectl hostdev explain dgx -n ml
  kubectl hostdev explain dgx --layout mirror -o svg > dgx.svg
  kubectl hostdev explain -A -o wide
  kubectl hostdev explain -A -l hostdev.vm.kubevirt.io/placement=enabled --check`,
		Args: oneVMOrNone,
	}

	flags.add(cmd, cli.Text, cli.Wide, cli.JSON, cli.YAML, cli.Name, cli.SVG, cli.NCCL)
	cli.AddDetails(cmd, &flags.details)
	cmd.Flags().StringVar(&flags.layout, "layout", "",
		"show what this layout would build, instead of what the VM has")
	cmd.Flags().BoolVar(&flags.guest, "guest", false,
		"compare the VM with what its guest sees, by the guest agent; exit status 1 on "+
			"a\ndifference")

	cmd.Flags().BoolVar(&flags.isCheck, "check", false,
		"of the table, VMs that are not as the hook plans them; exit status 1 if\nthere is one")

	cmd.Flags().StringVar(&flags.guestFile, "guest-file", "",
		"as --guest, with a file of what was pasted from the guest:\nnvidia-smi topo -mp, lspci, "+
			"lstopo, NCCL's log or dump, ...")

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := flags.check(args); err != nil {
			return err
		}

		if err := a.open(flags.archives); err != nil {
			return err
		}
		if len(args) == 0 {
			return a.table(cmd.Context(), flags)
		}

		return a.explain(cmd.Context(), args[0], flags)
	}

	cmd.ValidArgsFunction = a.completeVMs
	cli.Complete(cmd, "layout", topology.Map(policy.TreeLayouts(), func(l policy.Layout) string {
		return string(l)
	})...)

	return cmd
}

// check checks the flags of explain with these arguments.
func (f *explainFlags) check(args []string) error {
	f.guest = f.guest || f.guestFile != ""
	var formats []string
	switch {
	case len(args) == 0 && (f.layout != "" || len(f.details) > 0 || f.guest):
		return cli.Failed("name the VM",
			errors.New("--layout, --details and --guest require a VM name"))

	case len(args) > 0 && f.isCheck:
		return cli.Failed("leave out the VM, or select VMs with -l",
			errors.New("--check cannot be combined with a VM"))

	case f.guest && (f.layout != "" || len(f.details) > 0):
		return cli.Failed("leave out one of them",
			errors.New("--guest cannot be combined with --layout or --details"))

	case f.guest:
		formats = []string{cli.Text, cli.JSON, cli.YAML}
	case f.isCheck:
		formats = []string{cli.Text, cli.Wide, cli.JSON, cli.YAML}
	case len(args) == 0:
		formats = []string{cli.Text, cli.Wide, cli.JSON, cli.YAML, cli.Name}
	case len(f.details) > 0:
		formats = []string{cli.Text, cli.SVG}
	}

	if err := f.fleetFlags.check(args, formats...); err != nil || f.layout == "" {
		return err
	}

	_, _, err := policy.Resolve(policy.Source{
		Flags: map[policy.Key]string{policy.KeyLayout: f.layout},
	})

	return err
}

func (a *app) explain(ctx context.Context, argument string, flags explainFlags) error {
	client, vm, err := a.load(ctx, argument, cluster.DevicesOnly)
	if err != nil {
		return err
	}

	switch flags.Format {
	case cli.Name:
		return a.Write(flags.File, []byte(cluster.ResourceName(vm.Name)+"\n"))
	case cli.Wide:
		flags.Format, flags.details = cli.Text, report.Sections
	}

	e := cli.Explanation{Output: flags.Output, Details: flags.details}
	running, err := a.planned(ctx, client, vm, plan.Planner{
		Sysfs: vm.Host, Details: true, Partitions: a.partitions(ctx, client, vm),
	})
	if err != nil {
		return err
	}

	shown := running.VM.Current()
	if flags.layout != "" {
		if shown = running.WithLayout(policy.Layout(flags.layout)); shown.Plan == nil {
			return shown.Err
		}
	}

	e.Heading, e.Subject = running.Heading(), report.NewSubject(running.Planned.Plan.Domain(),
		vm.VMI)
	e.Subject.Host, e.Subject.Source, e.Subject.Tool = "node "+vm.Node, "pod "+vm.Pod, a.Version()

	if err := a.addClaims(ctx, client, vm, &e); err != nil {
		return err
	}

	if lacksHook(vm, running) {
		a.sayProblems(ctx, client)
	}

	if !flags.guest {
		return a.Explain(e, running.VM, shown, flags.layout == "")
	}

	data, err := a.readGuest(ctx, client, vm, flags.guestFile)
	if err != nil {
		return err
	}

	return a.CompareGuest(e, e.OfPlan(shown), guestName(flags.guestFile), data)
}

// addClaims adds to an explanation what the VM's claims got, and whether nearer devices are free.
func (a *app) addClaims(
	ctx context.Context, client *cluster.Client, vm cluster.RunningVM, e *cli.Explanation,
) error {
	requests := slices.Concat(vm.GPUs, vm.HostDevices)
	if !slices.ContainsFunc(requests, kubevirt.Request.IsClaim) {
		return nil
	}

	objects, err := fit.Parse(a.list(ctx, client, append(
		resourcesOf(resourceapi.GroupName, "resourceslices", "resourceclaims"),
		cluster.TaintRules)...)...)
	if err != nil {
		return err
	}

	found := fit.New(objects).Given(vm.Node, vm.Namespace, vm.Pod)
	e.Claims = found.Claims
	if found.Nearer != "" {
		e.Heading += "nearer devices of the same drivers are free on its node: " +
			found.Nearer + " (kubectl hostdev fit --claim)\n\n"
	}

	return nil
}

// sayProblems warns of what keeps the hook from placing a VM's devices.
func (a *app) sayProblems(ctx context.Context, client *cluster.Client) {
	problems, err := a.problems(ctx, client)
	if err != nil {
		a.Say("warning: not read: %s", reasons.Text(err))
	}

	for _, problem := range problems {
		a.Say("warning: the VM requests the hook, which did not place its devices: %s", problem)
	}
}

// readGuest reads what a guest shows of itself, from a file or from its agent.
func (a *app) readGuest(
	ctx context.Context, client *cluster.Client, vm cluster.RunningVM, file string,
) ([]byte, error) {
	if file != "" {
		return a.ReadInput(file)
	}

	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	return client.Guest(ctx, vm)
}

// guestName names the source of a guest, for messages.
func guestName(file string) string {
	if file == "" {
		return "the answer of the guest's agent"
	}
	return cli.InputName(file)
}
