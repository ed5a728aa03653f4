package main

import (
	"cmp"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
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

Exit status:
  0  success, or no change with --diff or --check
  1  --diff or --check found a change
  2  usage error, invalid input or failure
  3  refused by strict policy`,
		Example: `  hook-sidecar mutate --domain vm.xml --vmi vmi.json --diff
  hook-sidecar mutate --env launcher.env --sysfs host.txtar -o placed.xml < vm.xml`,
	}

	in := addInputFlags(cmd.Flags())
	in.addDomain(cmd.Flags(), ", the default")
	cmd.Flags().BoolVar(&showDiff, "diff", false, "print a unified diff instead of the domain")
	cmd.Flags().BoolVar(&check, "check", false, "print no domain; exit status 1 on a change")
	cli.AddOutput(cmd.Flags(), &output)
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := cmp.Or(exclude(cmd, "diff", "check"),
			exclude(cmd, "check", "output")); err != nil {
			return err
		}

		read, err := a.read(in, false)
		if err != nil {
			return err
		}

		result := read.Plan()
		if result.Err != nil {
			return failureOf(result)
		}
		if check {
			return cli.Found(string(result.Domain) != string(read.domain))
		}

		a.warnOfLimit(read.domain)
		if doubt := report.NewSubject(result.Plan.Domain(), result.VMI).Doubt; doubt != "" {
			a.Say("warning: %s", doubt)
		}

		warnings := findings.Of(result.Plan)
		if r := report.New(result.Plan, result.Changed(), nil); r.IsElsewhere() &&
			len(r.Devices) > 1 {
			a.Say("warning: %s", strings.Join(r.Headline, "; "))
			a.Say("hint: %s", reasons.TakeSnapshot)
			warnings = r.OtherWarnings()
		}

		a.Warn(warnings)
		return a.writeDomain(output, showDiff, read.domain, result.Domain)
	}

	return cmd
}

// writeDomain writes a domain, or its changes.
func (a *app) writeDomain(output string, showDiff bool, before, after []byte) error {
	if !showDiff {
		return a.Write(output, after)
	}

	if err := a.Write(output,
		colouredDiff(diff.Diff("a/domain.xml", before, "b/domain.xml", after),
			a.Style(output))); err != nil {
		return err
	}

	return cli.Found(string(before) != string(after))
}

// failureOf returns the error of a call. A refusal gets its exit status and a hint.
func failureOf(result plan.Result) error {
	if !result.IsRefused() {
		return result.Err
	}

	hint := "without --strict they stay where they are"
	if result.Policy.Origins[policy.KeyStrict] == policy.OriginAnnotation {
		hint = "without the annotation " + policy.AnnotationPrefix + string(policy.KeyStrict) +
			" they stay where they are (try --strict=false)"
	}

	return cli.Refused("explain shows every device; "+hint, result.Err)
}

// colouredDiff returns a unified diff in the colours of git diff.
func colouredDiff(diff []byte, style report.Style) []byte {
	if !style.Colour {
		return diff
	}

	colours := map[byte]report.Colour{'@': report.Cyan, '-': report.Red, '+': report.Green}
	lines := strings.Split(string(diff), "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = style.Paint(colours[line[0]], line)
		}
	}

	return []byte(strings.Join(lines, "\n"))
}
