// Package env makes values of everything that is read from outside: the
// variables of device plugins, sysfs of a live host or of a snapshot, and the
// VirtualMachineInstance. What is wrong with an input is a Problem, a value
// too; nothing is logged here.
package env
