package explain

import (
	"io"
	"path/filepath"
	"strings"

	"hook-sidecar/pkg/mutate"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/terminal"
	"hook-sidecar/pkg/topology"
)

// Prospect is the report of what the layout makes of the domain. Where neither a flag
// nor a VMI names the layout, it is that of the current tree: the one that the hook
// was given, rather than its default.
func Prospect(m mutate.Mutator, req mutate.Request, current, planned report.Report) report.Report {
	layout := current.TreeLayout()
	if _, isGiven := m.Flags[policy.KeyLayout]; isGiven || req.Parsed != nil || layout == "" {
		return planned
	}
	result := m.With(map[policy.Key]string{policy.KeyLayout: string(layout)}).Mutate(req)
	r := report.New(result.Plan, result.Changed(), result.Err)
	r.Policy, r.LayoutReason = planned.Policy, new(report.TreeReason)
	return r
}

// Explanation is a report in the formats of explain.
type Explanation interface {
	WriteText(w io.Writer, style report.Style) error
	WriteSVG(w io.Writer) error
	WriteDOT(w io.Writer) error
}

// The formats of explain.
const (
	Text = "text"
	JSON = "json"
	SVG  = "svg"
	DOT  = "dot"
	NCCL = "nccl"
)

// FormatOf is the format that the name of an output file asks for.
func FormatOf(output string) string {
	switch strings.ToLower(filepath.Ext(output)) {
	case ".json":
		return JSON
	case ".svg":
		return SVG
	case ".dot", ".gv":
		return DOT
	case ".xml": // nothing else that explain writes is XML without being a picture
		return NCCL
	}
	return Text
}

// Formats returns all of them.
func Formats() []string {
	return []string{Text, JSON, SVG, DOT, NCCL}
}

// Write writes a report in a format. NCCL is not one of a report.
func Write(w io.Writer, e Explanation, format string, style report.Style) error {
	switch format {
	case JSON:
		return terminal.EncodeJSON(w, e)
	case SVG:
		return writePicture(w, e.WriteSVG)
	case DOT:
		return writePicture(w, e.WriteDOT)
	}
	return e.WriteText(w, style)
}

// WriteComparison writes a comparison with the guest as JSON or as text.
func WriteComparison(w io.Writer, c report.GuestComparison, format string, style report.Style) error {
	if format == JSON {
		return terminal.EncodeJSON(w, c)
	}
	return c.WriteText(w, style)
}

// writePicture writes a picture without what a terminal obeys or what turns the direction
// of text: names in it are text of others.
func writePicture(w io.Writer, write func(io.Writer) error) error {
	var b strings.Builder
	if err := write(&b); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		text, hasEnd := strings.CutSuffix(line, "\n")
		text = topology.Printable(text)
		if hasEnd {
			text += "\n"
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}
