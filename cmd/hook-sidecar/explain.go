package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
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
	cmd.Flags().BoolVar(&flags.details, "details", false, "add link speeds")
	addOutputFlag(cmd.Flags(), &flags.output)
	cmd.RunE = func(*cobra.Command, []string) error { return a.explain(in, flags) }
	return cmd
}

func (a *app) explain(in *inputFlags, flags explainFlags) error {
	flags.format = cli.FormatOf(flags.format, flags.output)
	if err := cli.CheckFormat(flags.format, cli.FormatsWith(flags.guest != "", flags.details)...); err != nil {
		return err
	}
	read, err := a.read(in, flags.format == cli.NCCL || flags.details)
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
	a.warnOfLimit(read.domain)
	e := cli.Explanation{Subject: a.subject(in, read, shown, flags), Details: flags.details, Format: flags.format, Output: flags.output}
	switch {
	case flags.format == cli.NCCL:
		warnings, err := a.WriteNCCL(shown.Plan, flags.output)
		a.Warn(warnings)
		return errors.Join(err, failureOf(shown))
	case flags.guest != "" && flags.asIs:
		return a.compareWithGuest(e, e.OfCurrent(read.VM), flags.guest)
	case flags.guest != "":
		return a.compareWithGuest(e, e.OfPlan(shown), flags.guest)
	case flags.asIs:
		err = a.Explain(e, e.AsIs(read.VM))
	default:
		err = a.Explain(e, e.OfPlan(shown))
	}
	return cmp.Or(err, failureOf(shown))
}

// subject describes the VM. Programs that read the output do not see its doubt, so it is a
// warning for them.
func (a *app) subject(in *inputFlags, read input, shown plan.Result, flags explainFlags) report.Subject {
	s := report.NewSubject(shown.Plan.Domain(), shown.VMI)
	s.Host, s.Source, s.Tool = fileName(in.sysfs), read.source, cli.Version(programName)
	if in.sysfs == liveSysfs {
		s.Host = "this machine"
	}
	if flags.format != cli.Text && s.Doubt != "" {
		a.Say("warning: %s", s.Doubt)
	}
	return s
}

// compareWithGuest compares the guest of a file with the report, and finds something if any
// device differs.
func (a *app) compareWithGuest(e cli.Explanation, r report.Report, file string) error {
	data, err := a.readInput(file)
	if err != nil {
		return err
	}
	guest, problems, err := host.ReadGuest(data)
	if err == nil && isHost(r, guest) {
		err = errors.New("a snapshot of the host and not of the guest: it has every device at its host address")
	}
	if err != nil {
		return cli.Failed("run lspci -Dvmmnn or hook-sidecar snapshot in the guest", fmt.Errorf("%s: %w", file, err))
	}
	c, err := a.CompareGuest(e, r, guest, problems)
	if err != nil {
		return err
	}
	if len(c.Devices) > 0 && c.Count(report.NotCompared) == len(c.Devices) {
		return cli.Failed("pass the domain as libvirt has it: virsh dumpxml", errors.New("no device was compared: the domain has no addresses yet"))
	}
	return cli.Found(c.Count(report.Differs) > 0)
}

// isHost reports whether a guest shows every PCI device where the host does and under the
// same bridges, and not where it is planned: then it is the host.
func isHost(r report.Report, guest host.Guest) bool {
	isThere := func(d report.Device) bool {
		a, isPCI := d.ID.PCI()
		found := guest.Device(a)
		return isPCI && found != nil && d.PCIeRoot != nil && found.Root == *d.PCIeRoot && slices.Equal(found.Bridges, d.HostPath) &&
			(d.Predicted == nil || *d.Predicted != a)
	}
	return guest.Paths && len(r.Devices) > 0 && !slices.ContainsFunc(r.Devices, func(d report.Device) bool { return !isThere(d) })
}
