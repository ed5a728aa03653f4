package report

import "slices"

// Section is a part of a report's text that is shown on request.
type Section = string

// The sections, in the order of the text.
const (
	SectionTrees     Section = "trees"     // of host and guest, side by side
	SectionPaths     Section = "paths"     // path types, and how fit the host's are for peer-to-peer
	SectionConsumers Section = "consumers" // decisions as on the host, one row per consumer
	SectionLinks     Section = "links"     // speed of each device and of its port
	SectionStart     Section = "start"     // how long a start maps memory and BARs
	SectionBudgets   Section = "budgets"   // bus numbers and indexes
)

// Sections has every section.
var Sections = []Section{
	SectionTrees, SectionPaths, SectionConsumers, SectionLinks, SectionStart, SectionBudgets,
}

// Shows reports whether a section was asked for.
func (r Report) Shows(section Section) bool { return slices.Contains(r.Details, section) }
