package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cluster"
	"hook-sidecar/pkg/doctor"
	"hook-sidecar/pkg/explain"
	"hook-sidecar/pkg/terminal"
)

func (a *app) newDoctor() *cobra.Command {
	var format string
	var quiet bool
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
	cmd.Flags().StringVar(&format, "format", explain.Text, "text or json")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "leave out what is as it should be")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.doctor(cmd.Context(), args[0], format, quiet) }
	cmd.ValidArgsFunction = a.completeVMs
	fixed(cmd, "format", []string{explain.Text, explain.JSON})
	return cmd
}

func (a *app) doctor(ctx context.Context, argument, format string, quiet bool) error {
	if err := checkFormat(format, explain.Text, explain.JSON); err != nil {
		return err
	}
	client, namespace, err := a.connect()
	if err != nil {
		return err
	}
	name, err := vmName(namespace, argument)
	if err != nil {
		return err
	}
	vm, err := a.read(ctx, client, name, cluster.WholeNode)
	if err != nil {
		return err
	}
	m, request := planner(vm, false)
	running, err := explain.NewRunning(m, request, vm.Hook)
	if err != nil {
		return fmt.Errorf("plan VM %s: %w", name, err)
	}
	r := doctor.NewReport(doctorInputs(vm, running))
	if quiet {
		r.Results = slices.DeleteFunc(r.Results, func(result doctor.Result) bool { return result.Status == doctor.Pass })
	}
	var b bytes.Buffer
	if format == explain.JSON {
		err = terminal.EncodeJSON(&b, r)
	} else {
		b.WriteString(heading(running))
		err = explain.WriteDoctor(&b, r, terminal.StyleOf(a.Out, a.environ, ""))
	}
	if err == nil {
		err = a.write("", b.Bytes())
	}
	if err == nil && r.Counts[doctor.Fail] > 0 {
		err = errFound
	}
	return err
}
