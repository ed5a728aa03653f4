package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/doctor"
	"hook-sidecar/pkg/report"
)

// DoctorFlags are the flags of doctor that both programs have.
type DoctorFlags struct {
	Format string
	Quiet  bool
}

// Add adds the flags to the command.
func (f *DoctorFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Format, "format", Text, "text or json")
	cmd.Flags().BoolVarP(&f.Quiet, "quiet", "q", false, "leave out what is as it should be")
	Complete(cmd, "format", Text, JSON)
}

// Check checks the format.
func (f *DoctorFlags) Check() error { return CheckFormat(f.Format, Text, JSON) }

// Doctor runs all checks and writes their results as JSON, or as text: a heading, one line
// per result, and the number of each status. A FAIL is ErrFound.
func (p *Program) Doctor(in doctor.Inputs, heading string, flags DoctorFlags) error {
	r := doctor.NewReport(in)
	if flags.Quiet {
		r.Results = slices.DeleteFunc(r.Results, func(result doctor.Result) bool { return result.Status == doctor.Pass })
	}
	err := p.WriteAs(flags.Format, "", r, func(b *bytes.Buffer) error {
		writeResults(b, heading, r, p.Style(""))
		return nil
	})
	return cmp.Or(err, Found(r.Counts[doctor.Fail] > 0))
}

func writeResults(b *bytes.Buffer, heading string, r doctor.Report, style report.Style) {
	b.WriteString(heading)
	for _, result := range r.Results {
		fmt.Fprintln(b, statusLine(result, style))
	}
	var counts []string
	for _, status := range []doctor.Status{doctor.Fail, doctor.Warn, doctor.Note, doctor.Pass} {
		counts = append(counts, fmt.Sprintf("%d %s", r.Counts[status], status))
	}
	fmt.Fprintf(b, "\n%s\n", strings.Join(counts, ", "))
}

// statusLine returns a result of doctor as a line, with its status in colour.
func statusLine(r doctor.Result, style report.Style) string {
	status := string(r.Status)
	colour := map[doctor.Status]report.Colour{doctor.Fail: report.Red, doctor.Warn: report.Yellow, doctor.Pass: report.Green, doctor.Note: report.Cyan}[r.Status]
	return style.Paint(colour, status) + strings.TrimPrefix(Escaped(r.String()), status)
}
