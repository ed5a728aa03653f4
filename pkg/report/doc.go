// Package report says what a plan decided and why: as JSON with a stable
// schema, as text for a terminal and as a picture. It NCCL's topology file. It
// is pure: a plan in, text out.
//
// Text and pictures are made in two steps, so that they agree:
//
//	trees     what stands below what, on host and guest   tree.go
//	classes   which pairs of devices differ               difference.go
//	text      the trees side by side, the matrix          text.go, texttree.go, matrix.go
//	picture   where each box is, in pixels                picture.go, side.go
//	backends  the same as SVG, the trees as DOT           svg.go, dot.go
//
// asis.go reports a domain as it stands, guest.go compares a plan with what a
// guest sees, summary.go is the short form for demo and logs.
package report
