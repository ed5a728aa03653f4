// Package cli is shared by the two programs: text that a terminal shows and does not obey
// (text.go), exit statuses and messages (program.go), files that are written whole or not at
// all (file.go), the style that fits standard output (style.go), flags and usage errors
// (flags.go, policyflags.go), and the flow of snapshot, doctor and explain.
package cli
