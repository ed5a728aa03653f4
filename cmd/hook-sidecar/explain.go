package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/mutate"
	"hook-sidecar/pkg/report"
)

func (a *app) newExplain() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "explain [flags]",
		Short: "Say where each device stands, and why",
		Long: `explain plans as mutate does and prints the plan instead of the domain: a line
a device with its reason, the budgets of bus numbers, and warnings with their
remedies.

` + exitStatus,
		Example: `  hook-sidecar explain --domain vm.xml --vmi vmi.json
  hook-sidecar explain --format json --sysfs host.txtar < vm.xml | jq .devices`,
		Args: cobra.NoArgs,
	}
	in := addInputFlags(cmd.Flags())
	cmd.Flags().StringVar(&format, "format", "text", "text or json")
	cmd.RunE = func(*cobra.Command, []string) error {
		if format != "text" && format != "json" {
			return failure{exitFailed, fmt.Errorf("flag --format: %q is neither text nor json", format), ""}
		}
		m, req, closer, err := a.request(in)
		if err != nil {
			return err
		}
		result := m.Mutate(req)
		if err := closer.Close(); err != nil {
			return err
		}
		if err := failureOf(result.Err); err != nil && !isRefusal(result.Err) {
			return err
		}
		if err := a.writeReport(report.New(result.Plan, result.Changed(), result.Err), format); err != nil {
			return err
		}
		return failureOf(result.Err)
	}
	return cmd
}

// isRefusal reports whether a plan stands all the same: strict refuses it.
func isRefusal(err error) bool {
	var e *mutate.Error
	return errors.As(err, &e) && e.Kind == mutate.Refused
}

func (a *app) writeReport(r report.Report, format string) error {
	if format == "text" {
		return r.WriteText(a.out)
	}
	encoder := json.NewEncoder(a.out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}
