package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/cli"
)

// explainFlags are the flags of explain except for its inputs.
type explainFlags struct {
	cli.Explanation // what the flags say of it
	guest           string
	asIs            bool
}

func newExplain(p *cli.Program) *cobra.Command {
	var flags explainFlags
	cmd := &cobra.Command{
		Use:   "explain [FILE] [flags]",
		Short: "Explain where each device is placed, and why",
		Long: `explain plans as mutate does and shows the plan instead of the domain: the PCI
Express trees of host and guest side by side, the path types between the devices
on both, the reason for the place of each device, the budgets of bus numbers, and
warnings with their remedies.

The domain, FILE or --domain, may be one that virt-launcher is about to define, the
output of virsh dumpxml of a running VM, or a line of virt-launcher's log.

Exit status:
  0  success; with --guest: the guest is as planned
  1  --guest found a difference
  2  usage error, invalid input or failure
  3  refused by strict policy`,
		Example: `  hook-sidecar explain vm.xml --vmi vmi.json
  hook-sidecar explain --domain vm.xml --sysfs host.txtar --output-file vm.svg
  virsh dumpxml vm | hook-sidecar explain --as-is
  virsh dumpxml vm | hook-sidecar explain --guest lspci.txt   # from lspci -Dvmmnn in the guest
  hook-sidecar explain -o nccl --domain vm.xml --output-file virtualTopology.xml
  hook-sidecar explain -o json < vm.xml | jq .devices`,
	}

	in := addInputFlags(cmd.Flags())
	in.addDomain(cmd.Flags(), ", the default")
	flags.Output.Add(cmd, cli.Text, cli.JSON, cli.YAML, cli.SVG, cli.NCCL)
	cli.AddDetails(cmd, &flags.Details)
	cmd.Flags().BoolVar(&flags.asIs, "as-is", false,
		"explain the current domain, and what the layout would change")
	cmd.Flags().StringVar(&flags.guest, "guest", "",
		"compare the plan with what was pasted from the guest: lspci,\nlstopo, "+
			"nvidia-smi topo -mp, hook-sidecar snapshot, NCCL's log\nor dump, ...")

	cmd.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && slices.Contains(report.Sections, args[0]) {
			return cli.Failed("write --details="+args[0],
				fmt.Errorf("%q is a section of --details, not a file", args[0]))
		}
		return oneFile(cmd, args)
	}

	cmd.RunE = func(_ *cobra.Command, args []string) error {
		in.domains = append(in.domains, args...)
		return runExplain(p, in, flags)
	}

	return cmd
}

func runExplain(p *cli.Program, in *inputFlags, flags explainFlags) error {
	var formats []string
	switch {
	case flags.guest != "":
		formats = []string{cli.Text, cli.JSON, cli.YAML}
	case len(flags.Details) > 0:
		formats = []string{cli.Text, cli.SVG}
	}

	if err := flags.Check(formats...); err != nil {
		return err
	}

	read, err := in.read(p, true, flags.asIs)
	if err != nil {
		return err
	}

	shown := read.VM.Plan()
	if flags.asIs {
		shown = read.Current()
	}

	if shown.Plan == nil || shown.Err != nil && !shown.IsRefused() {
		return failureOf(shown)
	}

	warnOfLimit(p, read.domain)
	e := flags.Explanation
	e.Subject = subjectOf(p, in, read, shown, flags.Format)
	if flags.guest == "" {
		return cmp.Or(p.Explain(e, read.VM, shown, flags.asIs), failureOf(shown))
	}

	data, err := p.ReadInput(flags.guest)
	if err != nil {
		return err
	}

	return p.CompareGuest(e, e.OfPlan(shown), flags.guest, data)
}

// subject describes the VM. Programs that read the output do not see its doubt, so it is a
// warning for them.
func subjectOf(
	p *cli.Program, in *inputFlags, read vmInput, shown plan.Result, format string,
) report.Subject {
	s := report.NewSubject(shown.Plan.Domain(), shown.VMI)
	s.Host, s.Source, s.Tool = fileName(in.sysfs), read.source, p.Version()
	if _, isKubeVirts := kubevirt.OfDomain(shown.Plan.Domain().Name); in.vmi == "" && isKubeVirts {
		s.Source += " without --vmi"
	}
	if in.sysfs == liveSysfs {
		s.Host = "this machine"
	}

	if format != cli.Text && s.Doubt != "" {
		p.Say("warning: %s", s.Doubt)
	}

	return s
}
