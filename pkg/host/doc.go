// Package host reads the host's sysfs, live or from a snapshot, and what a guest shows
// of itself. It returns values and logs nothing; a file that cannot be used becomes a
// Problem.
package host
