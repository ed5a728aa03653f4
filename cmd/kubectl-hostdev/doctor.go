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
		Use:   "doctor VM [flags]",
		Short: "Check a running VM and its node",
		Long: `doctor prints how much of the host a running VM's guest sees, and what to do. Then
it checks the node, and what hook-sidecar would make of the VM. It prints one line
per result: PASS, WARN, FAIL or NOTE, the name of the check, what it found, and what
to do about it. docs/doctor.md describes each check.

Exit status:
  0  no FAIL
  1  a FAIL
  2  usage error or failure`,
		Example: "  kubectl hostdev doctor dgx -n ml",
		Args:    oneVM,
	}
	flags.Add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.doctor(cmd.Context(), args[0], flags) }
	cmd.ValidArgsFunction = a.completeVMs
	return cmd
}

func (a *app) doctor(ctx context.Context, argument string, flags cli.DoctorFlags) error {
	if err := flags.Check(); err != nil {
		return err
	}
	_, vm, err := a.load(ctx, argument, cluster.WholeNode)
	if err != nil {
		return err
	}
	inputs, running, err := check(vm)
	if err != nil {
		return err
	}
	return a.Doctor(inputs, running.Heading(), flags)
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
