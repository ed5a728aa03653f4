package main

import (
	"cmp"
	"errors"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"hook-sidecar/pkg/mutate"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
)

func (a *app) newMutate() *cobra.Command {
	var showDiff, check bool
	var output string
	cmd := &cobra.Command{
		Use:   "mutate [flags]",
		Short: "Place the devices of a domain",
		Long: `mutate reads a libvirt domain and writes it with every passthrough device
placed, as serve does. Everything else stays the same, byte for byte.

` + exitStatus,
		Example: `  hook-sidecar mutate --domain vm.xml --vmi vmi.json --diff
  hook-sidecar mutate --env launcher.env --sysfs host.txtar -o placed.xml < vm.xml`,
		Args: noArguments,
	}
	in := addInputFlags(cmd.Flags())
	cmd.Flags().BoolVar(&showDiff, "diff", false, "print a unified diff instead of the domain")
	cmd.Flags().BoolVar(&check, "check", false, "print no domain; the exit status says whether there is a change")
	addOutputFlag(cmd.Flags(), &output)
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := cmp.Or(exclude(cmd, "diff", "check"), exclude(cmd, "check", "output")); err != nil {
			return err
		}
		read, err := a.read(in)
		if err != nil {
			return err
		}
		result := read.Mutate(read.Request)
		if result.Err != nil {
			return failureOf(result)
		}
		if check {
			return changeError(string(result.Domain) != string(read.Domain))
		}
		a.warnOfLimit(read.Domain)
		if doubt := report.NewSubject(result.Plan.Domain(), result.VMI).Doubt; doubt != "" {
			a.say("warning: %s", doubt)
		}
		a.warn(result.Plan.Warnings)
		return a.writeDomain(output, showDiff, read.Domain, result.Domain)
	}
	return cmd
}

// writeDomain writes a domain, or what was changed in it.
func (a *app) writeDomain(output string, showDiff bool, before, after []byte) error {
	if !showDiff {
		return a.write(output, after)
	}
	if err := a.write(output, colouredDiff(diff.Diff("a/domain.xml", before, "b/domain.xml", after), a.style(output))); err != nil {
		return err
	}
	return changeError(string(before) != string(after))
}

// failureOf returns the error of a call with its exit code and a hint.
func failureOf(result mutate.Result) error {
	var remedied interface{ Remedy() string }
	switch err := result.Err; {
	case err == nil:
		return nil
	case mutate.IsRefusal(err):
		hint := "without --strict they stay where they are"
		if result.Policy.Origins[policy.KeyStrict] == policy.OriginAnnotation {
			hint = "without the annotation " + policy.AnnotationPrefix + string(policy.KeyStrict) + " they stay where they are (try --strict=false)"
		}
		return failure{exitRefused, err, "explain shows every device; " + hint}
	case errors.As(err, &remedied):
		return failed(remedied.Remedy(), err)
	default:
		return failed("", err)
	}
}
