// Package cli is shared by the two programs: exit statuses and messages (program.go), files that
// are written whole or not at all and JSON that a terminal does not obey (file.go), the style that
// fits standard output (style.go), flags and usage errors (flags.go, policyflags.go), and the flow
// of snapshot, doctor and explain.
package cli
