// Package host reads the host's sysfs, live or from a snapshot, and a guest's own PCI
// functions. It returns values and logs nothing; a file that cannot be used becomes a
// warning.
package host
