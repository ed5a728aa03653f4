package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"hook-sidecar/pkg/doctor"
	"hook-sidecar/pkg/mutate"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/terminal"
)

// VM is what doctor looks at of a domain that was planned, beside what each layout
// would give. A domain without a name gets the other one.
func VM(result mutate.Result, alternatives []doctor.Alternative, name string) doctor.VM {
	return doctor.VM{
		Name: cmp.Or(result.Plan.Domain().Name, name),
		Plan: result.Plan, Layout: result.Plan.Layout, VMI: result.VMI,
		Refusal: result.Err, Alternatives: alternatives,
	}
}

// Alternatives are what each layout would give.
func Alternatives(m mutate.Mutator, req mutate.Request) []doctor.Alternative {
	var all []doctor.Alternative
	for _, layout := range policy.TreeLayouts() {
		if result := m.With(map[policy.Key]string{policy.KeyLayout: string(layout)}).Mutate(req); result.Plan != nil {
			all = append(all, doctor.Alternative{Layout: layout, Alike: result.Plan.Pairs().Alike})
		}
	}
	return all
}

// WriteDoctor writes what doctor found as JSON, or as text: a line per result, then how
// many there are of each status. quiet leaves out what is as it should be.
func WriteDoctor(w io.Writer, r doctor.Report, quiet bool, format string, style report.Style) error {
	if quiet {
		r.Results = slices.DeleteFunc(slices.Clone(r.Results), func(result doctor.Result) bool { return result.Status == doctor.Pass })
	}
	if format == JSON {
		return terminal.EncodeJSON(w, r)
	}
	var b strings.Builder
	for _, result := range r.Results {
		fmt.Fprintln(&b, statusLine(result, style))
	}
	var counts []string
	for _, status := range []doctor.Status{doctor.Fail, doctor.Warn, doctor.Note, doctor.Pass} {
		counts = append(counts, fmt.Sprintf("%d %s", r.Counts[status], status))
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(counts, ", "))
	_, err := io.WriteString(w, b.String())
	return err
}

// statusLine returns a result of doctor as a line, with its status in colour.
func statusLine(r doctor.Result, style report.Style) string {
	status := string(r.Status)
	colour := map[doctor.Status]report.Colour{doctor.Fail: report.Red, doctor.Warn: report.Yellow, doctor.Pass: report.Green, doctor.Note: report.Cyan}[r.Status]
	return style.Paint(colour, status) + strings.TrimPrefix(terminal.Escaped(r.String()), status)
}
