// Package env reads the environment variables of device plugins, the
// VirtualMachineInstance, a file that holds a domain, and the container's limits. It
// returns values and logs nothing; invalid input becomes a warning.
package env
