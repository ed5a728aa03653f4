package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/keys/nccl"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/picture"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/pkg/topology"
)

// details is the value of --details: sections of the text, or all.
type details []report.Section

// AddDetails adds the flag --details.
func AddDetails(cmd *cobra.Command, shown *[]report.Section) {
	flag := cmd.Flags().VarPF((*details)(shown), "details", "", "show more of the plan: all, "+
		"or after = any of\n"+strings.Join(report.Sections, ", "))
	flag.NoOptDefVal = allDetails
	Complete(cmd, flag.Name, append([]string{allDetails}, report.Sections...)...)
}

const (
	allDetails = "all"      // the value of --details that names every section
	sections   = "sections" // the type of its values
)

// Set implements pflag.Value.
func (d *details) Set(value string) error {
	for name := range strings.SplitSeq(value, ",") {
		switch {
		case name == allDetails, name == "true": // of when it was a switch
			*d = report.Sections
		case name == "false":
			*d = nil
		case slices.Contains(report.Sections, name):
			*d = append(*d, name)
		default:
			return errors.New("unknown section")
		}
	}

	return nil
}

// Type implements pflag.Value. The help prints it in place of a value.
func (*details) Type() string { return sections }

// String implements pflag.Value.
func (d *details) String() string { return strings.Join(*d, ",") }

// Explanation describes the output of explain.
type Explanation struct {
	Output
	Details []report.Section // to show
	Subject report.Subject
	Heading string                       // before text
	Claims  map[topology.DeviceID]string // that gave devices
}

// OfPlan returns the report of a plan, which may be of the current domain.
func (e Explanation) OfPlan(result plan.Result) report.Report {
	r := report.New(result.Plan, result.Changed(), result.Err)
	r.Subject, r.Details = e.Subject, e.Details
	if r.Shows(report.SectionStart) && result.Plan != nil {
		r.Mapping = new(result.Mapping())
	}

	for i, d := range r.Devices {
		if claim, isGiven := e.Claims[d.ID]; isGiven {
			r.Devices[i].Claim = &claim
		}
	}

	return r
}

// asIs returns the report of the current domain with the changes of the hook.
func (e Explanation) asIs(vm *plan.VM) report.Report {
	planned := e.OfPlan(vm.Plan())
	if result, isCurrent := vm.Prospect(); isCurrent {
		prospect := report.New(result.Plan, result.Changed(), result.Err)
		prospect.Policy, prospect.LayoutReason = planned.Policy, new(report.TreeReason)
		planned = prospect
	}

	return report.AsIs(e.OfPlan(vm.Current()), planned)
}

// Explain writes a plan of the VM, or with asIs the current domain and what the hook would
// change, in the format.
func (p *Program) Explain(e Explanation, vm *plan.VM, shown plan.Result, asIs bool) error {
	if e.Format == NCCL {
		file := nccl.New(shown.Plan)
		err := p.Write(e.File, []byte(file.String()))
		p.Warn(file.Warnings)
		return err
	}

	r := e.OfPlan(shown)
	if asIs {
		r = e.asIs(vm)
	}

	return p.WriteAs(e.Output, r, func(b *bytes.Buffer) error {
		if e.Format == SVG {
			return picture.Write(b, r)
		}

		if b.WriteString(e.Heading); e.Heading != "" && r.IsCurrent() {
			r.Headline = nil // the heading has it
		}

		return r.WriteText(b, p.Style(e.File))
	})
}

// ReadGuest reads what a guest shows, which is in a file of this name.
func (p *Program) ReadGuest(name string, data []byte) (paste.Machine, error) {
	guest, problems, err := paste.Read(data)
	if err != nil {
		return guest, notGuest(name, err)
	}

	p.Warn(problems)
	return guest, nil
}

func notGuest(name string, err error) error {
	return Failed("run in the guest "+paste.WhatToPaste, fmt.Errorf("%s: %w", name, err))
}

// CompareGuest compares the guest that a file shows with the report, and writes the comparison. It
// finds something if any device differs.
func (p *Program) CompareGuest(e Explanation, r report.Report, name string, data []byte) error {
	guest, err := p.ReadGuest(name, data)
	if err != nil {
		return err
	}

	if isHost(r, guest) {
		return notGuest(name,
			errors.New("made on the host and not in the guest: it has every device at its host "+
				"address"))
	}

	c := verdict.CompareGuest(r, guest)
	err = p.WriteAs(e.Output, c, func(b *bytes.Buffer) error {
		return c.WriteText(b, p.Style(e.File))
	})

	if err == nil && len(c.Devices) > 0 && c.Count(verdict.NotCompared) == len(c.Devices) {
		err = Failed("pass the domain as libvirt has it, from virsh dumpxml, and lspci -Dvmmnn of "+
			"the guest, which lists every device",
			fmt.Errorf("no device was compared: the domain has no addresses yet, or %s lists none "+
				"that is planned", c.Source))
	}

	return cmp.Or(err, Found(c.Count(verdict.Differs) > 0))
}

// isHost reports whether a supposed guest is the host itself: it shows every PCI device at the
// host's address and under the host's bridges, and not where it is planned.
func isHost(r report.Report, guest paste.Machine) bool {
	isThere := func(d report.DeviceReport) bool {
		a, isPCI := d.ID.PCI()
		found := guest.FunctionAt(a)
		return isPCI && found != nil && d.PCIeRoot != nil && found.Root == *d.PCIeRoot &&
			slices.Equal(found.Bridges, d.HostPath) &&
			(d.Predicted == nil || *d.Predicted != a)
	}
	return len(r.Devices) > 0 && !slices.ContainsFunc(r.Devices, func(d report.DeviceReport) bool {
		return !isThere(d)
	})
}
