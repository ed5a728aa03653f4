package main

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/explain"
	"hook-sidecar/pkg/mutate"
	"hook-sidecar/pkg/nccl"
	"hook-sidecar/pkg/report"
)

// explainFlags are the flags of explain except for its inputs.
type explainFlags struct {
	format, guest, output string
	asIs, details         bool
}

func (a *app) newExplain() *cobra.Command {
	var flags explainFlags
	cmd := &cobra.Command{
		Use:   "explain [flags]",
		Short: "Explain where each device is placed, and why",
		Long: `explain plans as mutate does and shows the plan instead of the domain: the PCI
Express trees of host and guest side by side, the path types between the devices
on both, the reason for the place of each device, the budgets of bus numbers, and
warnings with their remedies.

The domain may be one that virt-launcher is about to define, the output of
virsh dumpxml of a running VM, or a line of virt-launcher's log.

Exit status:
  0  success; with --guest: the guest is as planned
  1  --guest found a difference
  2  usage error, invalid input or failure
  3  refused by strict policy`,
		Example: `  hook-sidecar explain --domain vm.xml --vmi vmi.json
  hook-sidecar explain --domain vm.xml --sysfs host.txtar -o vm.svg
  virsh dumpxml vm | hook-sidecar explain --as-is
  virsh dumpxml vm | hook-sidecar explain --guest lspci.txt   # from lspci -Dvmmnn in the guest
  hook-sidecar explain --format nccl --domain vm.xml -o virtualTopology.xml
  hook-sidecar explain --format json < vm.xml | jq .devices`,
		Args: noArguments,
	}
	in := addInputFlags(cmd.Flags())
	cmd.Flags().StringVar(&flags.format, "format", "", "text, json, svg (a picture) or nccl (a topology file for NCCL in the guest)\n(default: as --output ends, in .json, .svg, or .xml for\nnccl; else text)")
	cmd.Flags().BoolVar(&flags.asIs, "as-is", false, "explain the current domain, and what the layout would change")
	cmd.Flags().StringVar(&flags.guest, "guest", "", "compare the plan with the guest: the output of lspci -Dvmmnn or of\nhook-sidecar snapshot in the guest")
	cmd.Flags().BoolVar(&flags.details, "details", false, "add link speeds, and to svg the path types as nvidia-smi topo -m shows them")
	addOutputFlag(cmd.Flags(), &flags.output)
	cmd.RunE = func(*cobra.Command, []string) error { return a.explain(in, flags) }
	return cmd
}

func (a *app) explain(in *inputFlags, flags explainFlags) error {
	flags.format = cmp.Or(flags.format, explain.FormatOf(flags.output))
	formats := explain.Formats()
	if flags.guest != "" {
		formats = []string{explain.Text, explain.JSON}
	}
	if flags.details {
		formats = slices.DeleteFunc(formats, func(format string) bool { return format == explain.JSON || format == explain.NCCL })
	}
	if err := checkFormat(flags.format, formats...); err != nil {
		return err
	}
	read, err := a.read(in)
	if err != nil {
		return err
	}
	read.Details = flags.format == explain.NCCL || flags.details
	planned := read.Mutate(read.Request)
	shown := planned
	if flags.asIs {
		shown = read.Mutator.Unchanged().Mutate(read.Request)
	}
	if shown.Plan == nil || shown.Err != nil && !mutate.IsRefusal(shown.Err) {
		return failureOf(shown)
	}
	a.warnOfLimit(read.Domain)
	subject := a.subject(in, read, shown, flags)
	if flags.format == explain.NCCL {
		file := nccl.New(shown.Plan)
		a.warn(file.Warnings)
		return errors.Join(a.write(flags.output, []byte(file.String())), failureOf(shown))
	}
	r := report.New(planned.Plan, planned.Changed(), planned.Err)
	r.Subject, r.Details = subject, flags.details
	if flags.asIs {
		current := report.New(shown.Plan, false, nil)
		current.Subject, current.Details = subject, flags.details
		r = report.AsIs(current, explain.Prospect(read.Mutator, read.Request, shown.Plan, r))
	}
	if flags.guest != "" {
		return a.compareWithGuest(r, flags)
	}
	if err := a.writeExplanation(r, flags); err != nil {
		return err
	}
	return failureOf(shown)
}

// subject says what is explained. Programs that read the output do not see its doubt,
// so it is a warning for them.
func (a *app) subject(in *inputFlags, read input, shown mutate.Result, flags explainFlags) report.Subject {
	s := report.NewSubject(shown.Plan.Domain(), shown.VMI)
	s.Host, s.Source, s.Tool = fileName(in.sysfs), read.source, programVersion()
	if in.sysfs == liveSysfs {
		s.Host = "this machine"
	}
	if flags.format != explain.Text && s.Doubt != "" {
		a.say("warning: %s", s.Doubt)
	}
	return s
}

func (a *app) writeExplanation(r report.Report, flags explainFlags) error {
	var b bytes.Buffer
	if err := explain.Write(&b, r, flags.format, a.style(flags.output)); err != nil {
		return err
	}
	return a.write(flags.output, b.Bytes())
}
