// Package report says what a plan decided and why: as JSON with a stable schema
// (report.go), as text for a terminal (text.go, summary.go) and as pictures
// (picture.go, dot.go). subject.go says what a report is about, tree.go has the
// trees that all of them show, and difference.go what differs between host and
// guest. asis.go reports the current domain, guest.go compares a plan with what a
// guest sees. The package is pure: a plan in, text out.
package report
