package explain

import (
	"io"
	"path/filepath"
	"strings"

	"hook-sidecar/pkg/mutate"
	"hook-sidecar/pkg/picture"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/terminal"
)

// Prospect is the report of what the layout makes of the domain. Where neither a flag
// nor a VMI names the layout, it is that of the current tree: the one that the hook
// was given, rather than its default.
func Prospect(m mutate.Mutator, req mutate.Request, current *placement.Plan, planned report.Report) report.Report {
	layout := current.TreeLayout()
	if _, isGiven := m.Flags[policy.KeyLayout]; isGiven || req.Parsed != nil || layout == "" {
		return planned
	}
	result := m.With(map[policy.Key]string{policy.KeyLayout: string(layout)}).Mutate(req)
	r := report.New(result.Plan, result.Changed(), result.Err)
	r.Policy, r.LayoutReason = planned.Policy, new(report.TreeReason)
	return r
}

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
func Formats() []string {
	return []string{Text, JSON, SVG, NCCL}
}

// Write writes a report in a format. NCCL is not one of a report.
func Write(w io.Writer, r report.Report, format string, style report.Style) error {
	switch format {
	case JSON:
		return terminal.EncodeJSON(w, r)
	case SVG:
		return picture.Write(w, r)
	}
	return r.WriteText(w, style)
}

// WriteComparison writes a comparison with the guest as JSON or as text.
func WriteComparison(w io.Writer, c report.GuestComparison, format string, style report.Style) error {
	if format == JSON {
		return terminal.EncodeJSON(w, c)
	}
	return c.WriteText(w, style)
}
