// Package env reads the inputs that are neither the domain nor the host: the environment
// variables of device plugins, the VirtualMachineInstance, a file that holds a domain, and
// the container's limits. It returns values and logs nothing; an input that cannot be used
// becomes a Problem.
package env
