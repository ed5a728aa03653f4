package cli

import (
	"bytes"
	"path/filepath"
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

// FormatOf is the format that the name of an output file asks for.
func FormatOf(output string) string {
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

// Explanation is what explain shows of a VM, and how.
type Explanation struct {
	Subject report.Subject
	Details bool   // link speeds too, and path types in pictures
	Format  string // but NCCL, which is not of a report
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

// AsIs returns the report of the current domain with what the hook would change in it.
func (e Explanation) AsIs(vm *plan.VM) report.Report {
	current := e.OfCurrent(vm)
	planned := e.OfPlan(vm.Plan())
	if result, isCurrent := vm.Prospect(); isCurrent {
		prospect := report.New(result.Plan, result.Changed(), result.Err)
		prospect.Policy, prospect.LayoutReason = planned.Policy, new(report.TreeReason)
		planned = prospect
	}
	return report.AsIs(current, planned)
}

// Explain writes a report.
func (p *Program) Explain(e Explanation, r report.Report) error {
	var b bytes.Buffer
	var err error
	switch e.Format {
	case JSON:
		err = EncodeJSON(&b, r)
	case SVG:
		err = picture.Write(&b, r)
	default:
		b.WriteString(e.Heading)
		err = r.WriteText(&b, p.Style(e.Output))
	}
	if err != nil {
		return err
	}
	return p.Write(e.Output, b.Bytes())
}

// WriteNCCL writes the topology file for NCCL, and returns its warnings.
func (p *Program) WriteNCCL(plan *placement.Plan, output string) ([]reasons.Warning, error) {
	file := nccl.New(plan)
	return file.Warnings, p.Write(output, []byte(file.String()))
}

// CompareGuest writes which devices a guest shows as the report has them, and what of the
// guest could not be read.
func (p *Program) CompareGuest(e Explanation, r report.Report, guest host.Guest, problems []reasons.Problem) (report.GuestComparison, error) {
	for _, problem := range problems {
		p.Say("warning: %s: %s: %s", problem.Code, problem.Source, problem.Text)
	}
	c := report.CompareGuest(r, guest)
	var b bytes.Buffer
	var err error
	if e.Format == JSON {
		err = EncodeJSON(&b, c)
	} else {
		err = c.WriteText(&b, p.Style(e.Output))
	}
	if err == nil {
		err = p.Write(e.Output, b.Bytes())
	}
	return c, err
}
