package cli

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/nccl"
	"hook-sidecar/pkg/picture"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/report"
)

// The formats of explain.
const (
	Text = "text"
	JSON = "json"
	SVG  = "svg"
	NCCL = "nccl"
)

// FormatOf returns the format of --format or, where it is "", by the name of the output.
func FormatOf(format, output string) string {
	if format != "" {
		return format
	}
	switch strings.ToLower(filepath.Ext(output)) {
	case ".json":
		return JSON
	case ".svg":
		return SVG
	case ".xml": // nothing else that explain writes is XML without being a picture
		return NCCL
	}
	return Text
}

// Formats returns all of them.
func Formats() []string { return []string{Text, JSON, SVG, NCCL} }

// FormatsWith returns those that --guest and --details permit.
func FormatsWith(guest, details bool) []string {
	return slices.DeleteFunc(Formats(), func(format string) bool {
		return guest && (format == SVG || format == NCCL) || details && (format == JSON || format == NCCL)
	})
}

// Explanation describes the output of explain.
type Explanation struct {
	Subject report.Subject
	Details bool   // show link speeds
	Format  string // any but NCCL, which is not made of a report
	Output  string // a file, "" for standard output
	Heading string // before text
}

// OfPlan returns the report of a plan.
func (e Explanation) OfPlan(result plan.Result) report.Report {
	r := report.New(result.Plan, result.Changed(), result.Err)
	r.Subject, r.Details = e.Subject, e.Details
	return r
}

// OfCurrent returns the report of the current domain.
func (e Explanation) OfCurrent(vm *plan.VM) report.Report {
	r := report.New(vm.Current().Plan, false, nil)
	r.Subject, r.Details = e.Subject, e.Details
	return r
}

// AsIs returns the report of the current domain with the changes of the hook.
func (e Explanation) AsIs(vm *plan.VM) report.Report {
	planned := e.OfPlan(vm.Plan())
	if result, isCurrent := vm.Prospect(); isCurrent {
		prospect := report.New(result.Plan, result.Changed(), result.Err)
		prospect.Policy, prospect.LayoutReason = planned.Policy, new(report.TreeReason)
		planned = prospect
	}
	return report.AsIs(e.OfCurrent(vm), planned)
}

// Explain writes a report.
func (p *Program) Explain(e Explanation, r report.Report) error {
	return p.WriteAs(e.Format, e.Output, r, func(b *bytes.Buffer) error {
		if e.Format == SVG {
			return picture.Write(b, r)
		}
		if b.WriteString(e.Heading); e.Heading != "" && r.IsCurrent() {
			r.Headline = nil // the heading has it
		}
		return r.WriteText(b, p.Style(e.Output))
	})
}

// WriteNCCL writes the topology file for NCCL, and returns its warnings.
func (p *Program) WriteNCCL(plan *placement.Plan, output string) ([]reasons.Warning, error) {
	file := nccl.New(plan)
	return file.Warnings, p.Write(output, []byte(file.String()))
}

// CompareGuest writes which devices a guest shows as the report has them, and the problems
// of reading the guest.
func (p *Program) CompareGuest(e Explanation, r report.Report, guest host.Guest, problems []reasons.Problem) (report.GuestComparison, error) {
	for _, problem := range problems {
		p.Say("warning: %s: %s: %s", problem.Code, problem.Source, problem.Text)
	}
	c := report.CompareGuest(r, guest)
	return c, p.WriteAs(e.Format, e.Output, c, func(b *bytes.Buffer) error { return c.WriteText(b, p.Style(e.Output)) })
}
