package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/sidecar"
	"hook-sidecar/pkg/tools/cli"
)

func newMutate(p *cli.Program) *cobra.Command {
	var showDiff, check bool
	var output string
	cmd := &cobra.Command{
		Use:   "mutate [FILE] [flags]",
		Short: "Place the devices of a domain",
		Long: `mutate reads a libvirt domain, FILE or --domain, and writes it with every
passthrough device placed, as serve does. Everything else stays the same, byte for
byte.

Exit status:
  0  success, or no change with --diff or --check
  1  --diff or --check found a change
  2  usage error, invalid input or failure
  3  refused by strict policy`,
		Example: `  hook-sidecar mutate vm.xml --vmi vmi.json --diff
  hook-sidecar mutate --env launcher.env --sysfs host.txtar --output-file placed.xml < vm.xml`,
	}

	in := addInputFlags(cmd.Flags())
	in.addDomain(cmd.Flags(), ", the default")
	cmd.Flags().BoolVar(&showDiff, "diff", false, "print a unified diff instead of the domain")
	cmd.Flags().BoolVar(&check, "check", false, "print no domain; exit status 1 on a change")
	cli.AddOnlyFile(cmd.Flags(), &output)
	cmd.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	cmd.Args = oneFile
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		in.domains = append(in.domains, args...)
		if err := cmp.Or(exclude(cmd, "diff", "check"),
			exclude(cmd, "check", "output-file"), exclude(cmd, "check", "output")); err != nil {
			return err
		}

		read, err := in.read(p, false, false)
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

		warnOfLimit(p, read.domain)
		warnOfResult(p, result)
		return writeDomain(p, output, showDiff, read.domain, result.Domain)
	}

	return cmd
}

// warnOfLimit warns of a domain that serve returns unchanged. Other commands have no limit.
func warnOfLimit(p *cli.Program, domain []byte) {
	if err := sidecar.Limit().Check(domain); err != nil {
		p.Say("warning: serve would return this domain unchanged: %v", err)
	}
}

// warnOfResult prints what a user should know of a result. That all devices are of another machine
// is one warning.
func warnOfResult(p *cli.Program, result plan.Result) {
	if doubt := report.NewSubject(result.Plan.Domain(), result.VMI).Doubt; doubt != "" {
		p.Say("warning: %s", doubt)
	}

	r := report.New(result.Plan, result.Changed(), nil)
	if !r.IsElsewhere() || len(r.Devices) < 2 {
		p.Warn(findings.Of(result.Plan))
		return
	}

	p.Say("warning: %s", strings.Join(r.Headline, "; "))
	p.Say("hint: %s", reasons.TakeSnapshot)
	p.Warn(r.OtherWarnings())
}
