// Package explain joins a plan with what is said of it: a report in the formats of
// explain (explain.go), and the checks of doctor (doctor.go). It does no I/O.
package explain
