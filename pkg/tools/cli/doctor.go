package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/doctor"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// AddQuiet adds the flag --quiet of doctor.
func AddQuiet(cmd *cobra.Command, quiet *bool) {
	cmd.Flags().BoolVarP(quiet, "quiet", "q", false, "leave out what is as it should be")
}

var statusColours = map[doctor.Status]report.Colour{
	doctor.Fail: report.Red,
	doctor.Warn: report.Yellow,
	doctor.Pass: report.Green,
	doctor.Note: report.Cyan,
}

// Doctor writes a report as JSON, or as text: a heading, one line per result, and the number
// of each status. A quiet one lacks results that are as they should be. A FAIL is ErrFound.
func (p *Program) Doctor(r doctor.Report, heading string, quiet bool, to Output) error {
	if quiet {
		r.Results = r.Problems()
	}

	style := p.Style(to.File)
	err := p.WriteAs(to, r, func(b *bytes.Buffer) error {
		b.WriteString(heading)
		for _, result := range r.Results {
			status, text := string(result.Status), words.Printable(result.String())
			if style.Width > 0 { // a terminal; a file has one line per result, for grep
				text = report.Wrap(text, style.Columns(), 0, len("FAIL "))
			}

			fmt.Fprintln(b,
				style.Paint(statusColours[result.Status], status)+strings.TrimPrefix(text, status))
		}

		counts := topology.Map([]doctor.Status{
			doctor.Fail, doctor.Warn, doctor.Note, doctor.Pass,
		}, func(status doctor.Status) string {
			return fmt.Sprintf("%d %s", r.Counts[status], status)
		})

		fmt.Fprintf(b, "\n%s\n", strings.Join(counts, ", "))
		return nil
	})

	return cmp.Or(err, Found(r.Counts[doctor.Fail] > 0))
}
