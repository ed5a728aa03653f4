// Package env reads every input but the domain: the environment variables of
// device plugins, sysfs of a live host or of a snapshot, and the
// VirtualMachineInstance. It returns values and logs nothing; an input that
// cannot be used becomes a Problem.
package env
