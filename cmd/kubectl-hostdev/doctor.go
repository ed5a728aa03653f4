package main

import (
	"bytes"
	"context"

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
	_, vm, err := a.load(ctx, argument, cluster.WholeNode, false)
	if err != nil {
		return err
	}
	r := doctor.NewReport(doctorInputs(vm))
	var b bytes.Buffer
	if format == explain.Text {
		b.WriteString(heading(vm.Running))
	}
	err = explain.WriteDoctor(&b, r, quiet, format, terminal.StyleOf(a.Out, a.environ, ""))
	if err == nil {
		err = a.write("", b.Bytes())
	}
	if err == nil && r.Counts[doctor.Fail] > 0 {
		err = errFound
	}
	return err
}
