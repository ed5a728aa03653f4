package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"hook-sidecar/pkg/mutate"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
)

func (a *app) newMutate() *cobra.Command {
	var showDiff, check bool
	var output string
	cmd := &cobra.Command{
		Use:   "mutate [flags]",
		Short: "Rewrite a domain as the server would",
		Long: `mutate reads a libvirt domain and writes it with every passthrough device at
its place. What is not changed stays byte for byte.

` + exitStatus,
		Example: `  hook-sidecar mutate --domain vm.xml --vmi vmi.json --diff
  hook-sidecar mutate --env launcher.env --sysfs host.txtar -o placed.xml < vm.xml`,
		Args: noArguments,
	}
	in := addInputFlags(cmd.Flags())
	cmd.Flags().BoolVar(&showDiff, "diff", false, "print a unified diff instead of the domain")
	cmd.Flags().BoolVar(&check, "check", false, "print nothing, only tell by the exit status whether there is a change")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this file, whole or not at all (default: standard output)")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := cmp.Or(exclude(cmd, "diff", "check"), exclude(cmd, "check", "output")); err != nil {
			return err
		}
		m, req, closer, err := a.request(in)
		if err != nil {
			return err
		}
		result := m.Mutate(req)
		if err := errors.Join(failureOf(result), closer.Close()); err != nil {
			return err
		}
		changed := string(result.Domain) != string(req.Domain)
		if check {
			return changeError(changed)
		}
		a.tellLimit(req.Domain)
		a.tellWarnings(result.Plan.Warnings)
		data := result.Domain
		if showDiff {
			data = diff.Diff("a/domain.xml", req.Domain, "b/domain.xml", result.Domain)
		}
		if err := a.write(output, data); err != nil {
			return err
		}
		return changeError(changed && showDiff)
	}
	return cmd
}

func changeError(changed bool) error {
	if changed {
		return errChanged
	}
	return nil
}

// failureOf gives the error of a call its exit code and what to do about it.
func failureOf(result mutate.Result) error {
	err := result.Err
	var e *mutate.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Kind == mutate.Refused:
		return failure{exitRefused, err, "explain shows every device; " + withoutStrict(result.Policy.Origins[policy.KeyStrict])}
	}
	var remedied interface{ Remedy() string }
	if errors.As(err, &remedied) {
		return failure{exitFailed, err, remedied.Remedy()}
	}
	return failure{exitFailed, err, ""}
}

// withoutStrict says how strict, which comes from there, is switched off.
func withoutStrict(origin policy.Origin) string {
	if origin == policy.OriginAnnotation {
		return "without the annotation " + policy.AnnotationPrefix + string(policy.KeyStrict) + " they stay where they are (to try it, --strict=false with mutate and explain)"
	}
	return "without --strict they stay where they are"
}

func (a *app) tellWarnings(warnings []reasons.Warning) {
	for i, w := range warnings {
		fmt.Fprintf(a.err, "hook-sidecar: warning: %s: %s\n", w.Code, w.Text)
		// One hint is enough for several warnings of a kind.
		last := i == len(warnings)-1 || warnings[i+1].Code != w.Code
		if last && w.Remedy != "" {
			fmt.Fprintf(a.err, "hook-sidecar: hint: %s\n", w.Remedy)
		}
	}
}
