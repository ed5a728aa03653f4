package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/doctor"
	"hook-sidecar/pkg/topology"
)

// doctorFlags are the flags of doctor.
type doctorFlags struct {
	fleetFlags
	quiet bool
}

func (a *app) newDoctor() *cobra.Command {
	var flags doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor [VM] [flags]",
		Short: "Check a running VM and its node, or the cluster",
		Long: `doctor prints how much of the host a running VM's guest sees, and what to do. Then
it checks the node, and the place that hook-sidecar would give each device. It prints
one line per result: PASS, WARN, FAIL or NOTE, the name of the check, what it found,
and what to do about it. ` + reasons.Page("docs/doctor.md") + ` describes each check.

With -A it does so for the VMs of all namespaces with passthrough devices, with -l for
those with these labels.

With neither it checks KubeVirt and this hook as installed in the cluster: KubeVirt's
version and feature gates, Plugin objects, admission policies, the hook's settings.
This needs the ClusterRole hostdev-cluster:
` + reasons.Page("manifests/kubectl/clusterrole.yaml") + `

Exit status:
  0  no FAIL
  1  a FAIL
  2  usage error or failure`,
		Example: `  kubectl hostdev doctor dgx -n ml
  kubectl hostdev doctor -A -q
  kubectl hostdev doctor`,
		Args: oneVMOrNone,
	}

	flags.add(cmd, cli.Text, cli.JSON, cli.YAML)
	cli.AddQuiet(cmd, &flags.quiet)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := flags.check(args); err != nil {
			return err
		}

		if err := a.open(flags.archives); err != nil {
			return err
		}

		switch {
		case len(args) > 0:
			return a.doctor(cmd.Context(), args[0], flags)
		case flags.all || flags.selector != "":
			return a.doctorAll(cmd.Context(), flags)
		}

		return a.doctorOfCluster(cmd.Context(), flags)
	}

	cmd.ValidArgsFunction = a.completeVMs
	return cmd
}

func (a *app) doctor(ctx context.Context, argument string, flags doctorFlags) error {
	client, vm, err := a.load(ctx, argument, cluster.NodeAndEnviron)
	if err != nil {
		return err
	}

	inputs, running, err := a.check(ctx, client, vm)
	if err != nil {
		return err
	}

	return a.Doctor(doctor.NewReport(inputs), running.Heading(), flags.quiet, flags.Output)
}

// doctorOfCluster checks the installation.
func (a *app) doctorOfCluster(ctx context.Context, flags doctorFlags) error {
	client, _, err := a.connect()
	if err != nil {
		return err
	}

	report, err := a.installation(ctx, client)
	if err != nil {
		return err
	}

	return a.Doctor(report, "", flags.quiet, flags.Output)
}

// problems returns what doctor finds wrong with the installation, as lines.
func (a *app) problems(ctx context.Context, client *cluster.Client) ([]string, error) {
	report, err := a.installation(ctx, client)
	return topology.Map(report.Problems(), doctor.Result.String), err
}

// installation checks what the cluster has of KubeVirt and of this hook.
func (a *app) installation(ctx context.Context, client *cluster.Client) (doctor.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	in, err := client.Installation(ctx)
	if err != nil {
		return doctor.Report{}, err
	}

	return doctor.NewInstallationReport(in), nil
}

// lacksHook reports whether a running VM requests the hook, which would place devices that it did
// not place.
func lacksHook(vm cluster.RunningVM, running cli.Running) bool {
	return kubevirt.RequestsHook(vm.Labels, vm.Annotations) && running.Current.TreeLayout() == "" &&
		running.Planned.Changed() && !running.Planned.Policy.DryRun
}

// doctorAll checks many VMs; each result names its VM. One that cannot be read is a warning.
func (a *app) doctorAll(ctx context.Context, flags doctorFlags) error {
	client, all, err := a.instances(ctx, flags.fleetFlags)
	if err != nil {
		return err
	}

	read := func(in cluster.Instance) ([]doctor.Result, error) {
		inputs, _, err := a.checked(ctx, client, in, cluster.NodeAndEnviron)
		if err != nil {
			return nil, err
		}

		found := doctor.NewReport(inputs).Results
		for i := range found {
			found[i].VM = in.String()
		}

		return found, nil
	}

	results, failures := cluster.Each(all, flags.concurrency, a.Progress, read,
		func(_ []doctor.Result, err error) {
			if err != nil {
				a.Say("warning: not checked: %s", reasons.Text(err))
			}
		})
	if err := failure(failures); err != nil {
		return err
	}

	heading := ""
	if len(all) == 0 {
		heading = noVM
	}

	return a.Doctor(doctor.OfResults(slices.Concat(results...)), heading, flags.quiet, flags.Output)
}

// checked reads a VM within --timeout and checks it.
func (a *app) checked(
	ctx context.Context, client *cluster.Client, in cluster.Instance, scope cluster.Scope,
) (doctor.Inputs, cli.Running, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	vm, err := client.VM(ctx, in, scope)
	if err != nil {
		return doctor.Inputs{}, cli.Running{}, err
	}

	return a.check(ctx, client, vm)
}

// check plans a VM on the part of its node that was read, and returns doctor's inputs.
func (a *app) check(
	ctx context.Context, client *cluster.Client, vm cluster.RunningVM,
) (doctor.Inputs, cli.Running, error) {
	inputs, planner := doctor.NewInputs(plan.Planner{
		Sysfs: vm.Host, Partitions: a.partitions(ctx, client, vm),
	})
	running, err := a.planned(ctx, client, vm, planner)
	if err == nil {
		inputs.VMInputs = doctor.NewVMInputs(running.VM, vm.Name)
		inputs.PortHelp = vm.PortHelp
	}

	if err == nil && running.HasHook {
		inputs.Lost = &running.Lost
	}

	if err == nil && vm.Environ != nil { // not the planner's: the hook has none
		variables, problems := env.ParseVariables(vm.Environ)
		inputs.Variables, inputs.Problems = append([]env.Variable{},
			variables...), append(inputs.Problems, problems...)
	}

	return inputs, running, err
}
