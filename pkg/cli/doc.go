// Package cli is shared by the two programs: exit statuses and messages (program.go), text
// that a terminal shows and does not obey (text.go), the style that fits standard output
// (style.go), files that are written whole or not at all (file.go), and the flow of
// explain, doctor and snapshot.
package cli
