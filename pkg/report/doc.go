// Package report says what a plan decided and why: as JSON with a stable
// schema, as text for a terminal and as a picture. It is pure: a plan in, text
// out.
//
//	report.go      the JSON and its types
//	tree.go        the trees of host and guest, cut into NUMA nodes
//	difference.go  which pairs of devices differ
//	text.go        the text; texttree.go, matrix.go: its trees and path types
//	picture.go     where each box is, in pixels; side.go: one tree of it
//	svg.go         the picture as SVG; dot.go: the trees as DOT
//	asis.go        the current domain, and what the layout would change
//	guest.go       the plan compared with what a guest sees
//	summary.go     the short text for demo and tests
package report
