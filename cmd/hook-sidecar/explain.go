package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/mutate"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
)

// explainFlags are the flags of explain beside its inputs.
type explainFlags struct {
	format, guest, output string
	asIs                  bool
}

func (a *app) newExplain() *cobra.Command {
	var flags explainFlags
	cmd := &cobra.Command{
		Use:   "explain [flags]",
		Short: "Say where each device stands, and why",
		Long: `explain plans as mutate does and shows the plan instead of the domain: the host's
PCI Express tree beside the guest's, the path types between the devices on
both sides, the reason of each device, the budgets of bus numbers, and warnings
with their remedies.

The domain may be one that virt-launcher is about to define, the output of
virsh dumpxml of a running VM, or a line of virt-launcher's log.

Exit status:
  0  done; with --guest: the guest is as planned
  1  --guest found a difference
  2  usage, bad input, failure
  3  refused by strict policy`,
		Example: `  hook-sidecar explain --domain vm.xml --vmi vmi.json
  hook-sidecar explain --domain vm.xml --sysfs host.txtar --format svg -o vm.svg
  virsh dumpxml vm | hook-sidecar explain --as-is
  virsh dumpxml vm | hook-sidecar explain --guest lspci.txt   # of lspci -Dvmmnn in the guest
  hook-sidecar explain --format nccl --domain vm.xml -o virtualTopology.xml
  hook-sidecar explain --format json < vm.xml | jq .devices`,
		Args: noArguments,
	}
	in := addInputFlags(cmd.Flags())
	cmd.Flags().StringVar(&flags.format, "format", formatText, "text, json, svg (a picture), dot (for graphviz) or nccl (a topology file for\nNCCL in the guest)")
	cmd.Flags().BoolVar(&flags.asIs, "as-is", false, "explain the domain as it stands, and say what the layout would change")
	cmd.Flags().StringVar(&flags.guest, "guest", "", "compare the plan with what the guest sees: the output of lspci -Dvmmnn\nor a snapshot of /sys, taken in the guest")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "", "write to this file, whole or not at all (default: standard output)")
	cmd.RunE = func(*cobra.Command, []string) error { return a.explain(in, flags) }
	return cmd
}

func (a *app) explain(in *inputFlags, flags explainFlags) error {
	formats := explainFormats()
	if flags.guest != "" {
		formats = []string{formatText, formatJSON}
	}
	if !slices.Contains(formats, flags.format) {
		return failure{exitFailed, fmt.Errorf("flag --format: %q is none of %s", flags.format, strings.Join(formats, ", ")), ""}
	}
	m, req, closer, err := a.request(in)
	if err != nil {
		return err
	}
	m.Details = flags.format == formatNCCL
	planned := m.Mutate(req)
	shown, standing := planned, mutate.Result{}
	if flags.asIs {
		standing = asItStands(m).Mutate(req)
		shown = standing
	}
	if err := closer.Close(); err != nil {
		return err
	}
	if shown.Plan == nil || shown.Err != nil && !isRefusal(shown.Err) {
		return failureOf(shown)
	}
	a.tellLimit(req.Domain)
	if flags.format == formatNCCL {
		return errors.Join(a.writeNCCL(report.NewNCCL(shown.Plan), flags), failureOf(shown))
	}
	r := report.New(planned.Plan, planned.Changed(), planned.Err)
	var e explanation = r
	if flags.asIs {
		asIs := report.NewAsIs(report.New(standing.Plan, false, nil), r)
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

// asItStands is a Mutator that moves and adds nothing.
func asItStands(m mutate.Mutator) mutate.Mutator {
	flags := maps.Clone(m.Flags)
	if flags == nil {
		flags = map[policy.Key]string{}
	}
	flags[policy.KeyLayout] = string(policy.LayoutKeep)
	flags[policy.KeyAdd] = "none"
	flags[policy.KeyCompanions] = "keep"
	flags[policy.KeyStrict] = "false"
	flags[policy.KeyNCCLTopology] = string(policy.NCCLTopologyNone)
	m.Flags, m.AnnotationsFirst = flags, false
	return m
}

// isRefusal reports whether a plan stands all the same: strict refuses it.
func isRefusal(err error) bool {
	var e *mutate.Error
	return errors.As(err, &e) && e.Kind == mutate.Refused
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

func explainFormats() []string {
	return []string{formatText, formatJSON, formatSVG, formatDOT, formatNCCL}
}

// writeNCCL writes the topology file, and says on standard error what is not in it.
func (a *app) writeNCCL(topology report.NCCL, flags explainFlags) error {
	a.tellWarnings(topology.Warnings)
	return a.write(flags.output, []byte(topology.String()))
}

func (a *app) writeExplanation(e explanation, flags explainFlags) error {
	var b bytes.Buffer
	var err error
	switch flags.format {
	case formatJSON:
		err = encodeJSON(&b, e)
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

func encodeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
