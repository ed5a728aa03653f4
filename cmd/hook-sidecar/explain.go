package main

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/mutate"
	"hook-sidecar/pkg/nccl"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/terminal"
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
	cmd.Flags().StringVar(&flags.format, "format", "", "text, json, svg (a picture), dot (for graphviz) or nccl (a topology file for\nNCCL in the guest) (default: as --output ends, in .json, .svg, .dot,\n.gv, or .xml for nccl; else text)")
	cmd.Flags().BoolVar(&flags.asIs, "as-is", false, "explain the current domain, and what the layout would change")
	cmd.Flags().StringVar(&flags.guest, "guest", "", "compare the plan with the guest: the output of lspci -Dvmmnn or of\nhook-sidecar snapshot in the guest")
	cmd.Flags().BoolVar(&flags.details, "details", false, "add link speeds, and to svg the path types as nvidia-smi topo -m shows them")
	addOutputFlag(cmd.Flags(), &flags.output)
	cmd.RunE = func(*cobra.Command, []string) error { return a.explain(in, flags) }
	return cmd
}

func (a *app) explain(in *inputFlags, flags explainFlags) error {
	flags.format = cmp.Or(flags.format, formatOf(flags.output))
	formats := explainFormats()
	if flags.guest != "" {
		formats = []string{formatText, formatJSON}
	}
	if flags.details {
		formats = slices.DeleteFunc(formats, func(format string) bool { return format == formatJSON || format == formatNCCL })
	}
	if err := checkFormat(flags.format, formats...); err != nil {
		return err
	}
	read, err := a.read(in)
	if err != nil {
		return err
	}
	read.Details = flags.format == formatNCCL || flags.details
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
	if flags.format == formatNCCL {
		file := nccl.New(shown.Plan)
		a.warn(file.Warnings)
		return errors.Join(a.write(flags.output, []byte(file.String())), failureOf(shown))
	}
	r := report.New(planned.Plan, planned.Changed(), planned.Err)
	r.Subject, r.Details = subject, flags.details
	var e explanation = r
	if flags.asIs {
		current := report.New(shown.Plan, false, nil)
		current.Subject, current.Details = subject, flags.details
		asIs := report.NewAsIs(current, prospect(read, current, r))
		e, r = asIs, asIs.Report
	}
	if flags.guest != "" {
		return a.compareWithGuest(r, flags)
	}
	if err := a.writeExplanation(e, flags); err != nil {
		return err
	}
	return failureOf(shown)
}

// prospect is the report of what the layout makes of the domain. Where neither a flag
// nor a VMI names the layout, it is that of the current tree: the one that the hook
// was given, rather than its default.
func prospect(read input, current, planned report.Report) report.Report {
	layout := current.TreeLayout()
	if _, isGiven := read.Flags[policy.KeyLayout]; isGiven || read.Parsed != nil || layout == "" {
		return planned
	}
	result := read.Mutator.With(map[policy.Key]string{policy.KeyLayout: string(layout)}).Mutate(read.Request)
	r := report.New(result.Plan, result.Changed(), result.Err)
	r.Policy, r.LayoutReason = planned.Policy, new(report.TreeReason)
	return r
}

// subject says what is explained. Programs that read the output do not see its doubt,
// so it is a warning for them.
func (a *app) subject(in *inputFlags, read input, shown mutate.Result, flags explainFlags) report.Subject {
	s := report.NewSubject(shown.Plan.Domain(), shown.VMI)
	s.Host, s.Source, s.Tool = fileName(in.sysfs), read.source, programVersion()
	if in.sysfs == liveSysfs {
		s.Host = "this machine"
	}
	if flags.format != formatText && s.Doubt != "" {
		a.say("warning: %s", s.Doubt)
	}
	return s
}

// explanation is a report in the formats of explain.
type explanation interface {
	WriteText(w io.Writer, style report.Style) error
	WriteSVG(w io.Writer) error
	WriteDOT(w io.Writer) error
}

// The formats of explain.
const (
	formatText = "text"
	formatJSON = "json"
	formatSVG  = "svg"
	formatDOT  = "dot"
	formatNCCL = "nccl"
)

// formatOf is the format that the name of an output file asks for.
func formatOf(output string) string {
	switch strings.ToLower(filepath.Ext(output)) {
	case ".json":
		return formatJSON
	case ".svg":
		return formatSVG
	case ".dot", ".gv":
		return formatDOT
	case ".xml": // nothing else that explain writes is XML without being a picture
		return formatNCCL
	}
	return formatText
}

func explainFormats() []string {
	return []string{formatText, formatJSON, formatSVG, formatDOT, formatNCCL}
}

func (a *app) writeExplanation(e explanation, flags explainFlags) error {
	var b bytes.Buffer
	var err error
	switch flags.format {
	case formatJSON:
		err = terminal.EncodeJSON(&b, e)
	case formatSVG:
		err = e.WriteSVG(&b)
	case formatDOT:
		err = e.WriteDOT(&b)
	default:
		err = e.WriteText(&b, a.style(flags.output))
	}
	if err != nil {
		return err
	}
	return a.write(flags.output, b.Bytes())
}
