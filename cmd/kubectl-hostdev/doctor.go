package main

import (
	"context"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/cluster"
	"hook-sidecar/pkg/doctor"
	"hook-sidecar/pkg/plan"
)

func (a *app) newDoctor() *cobra.Command {
	var flags cli.DoctorFlags
	cmd := &cobra.Command{
		Use:   "doctor [VM] [flags]",
		Short: "Check a running VM and its node, or the cluster",
		Long: `doctor prints how much of the host a running VM's guest sees, and what to do. Then
it checks the node, and what hook-sidecar would make of the VM. It prints one line
per result: PASS, WARN, FAIL or NOTE, the name of the check, what it found, and what
to do about it. docs/doctor.md describes each check.

Without a VM it checks what the cluster has of KubeVirt and of this hook: KubeVirt's
version and feature gates, Plugin objects, admission policies, the hook's settings.
This needs the ClusterRole hostdev-cluster of manifests/kubectl/clusterrole.yaml.

Exit status:
  0  no FAIL
  1  a FAIL
  2  usage error or failure`,
		Example: `  kubectl hostdev doctor dgx -n ml
  kubectl hostdev doctor`,
		Args: cobra.MaximumNArgs(1),
	}
	flags.Add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.doctor(cmd.Context(), args, flags) }
	cmd.ValidArgsFunction = a.completeVMs
	return cmd
}

func (a *app) doctor(ctx context.Context, vms []string, flags cli.DoctorFlags) error {
	if err := flags.Check(); err != nil {
		return err
	}
	if len(vms) == 0 {
		return a.doctorOfCluster(ctx, flags)
	}
	_, vm, err := a.load(ctx, vms[0], cluster.WholeNode)
	if err != nil {
		return err
	}
	inputs, running, err := check(vm)
	if err != nil {
		return err
	}
	return a.Doctor(doctor.NewReport(inputs), running.Heading(), flags)
}

func (a *app) doctorOfCluster(ctx context.Context, flags cli.DoctorFlags) error {
	client, _, err := a.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	installation, err := client.Installation(ctx)
	if err != nil {
		return err
	}
	return a.Doctor(doctor.NewInstallationReport(installation), "", flags)
}

// check plans a VM on the part of its node that was read, and returns doctor's inputs.
func check(vm cluster.VM) (doctor.Inputs, cli.Running, error) {
	inputs, planner := doctor.NewInputs(plan.Planner{Sysfs: vm.Host})
	running, err := newRunning(vm, planner)
	if err == nil {
		inputs.VM = doctor.NewVM(running.VM, vm.Name)
	}
	return inputs, running, err
}
