// Package sidecar runs the built program as a sidecar's container has to: a
// static binary in a root of its own that it cannot write to, as user 107
// without capabilities, with the memory and the CPU time that KubeVirt gives
// the sidecars of VMs with dedicated CPUs; and treats it badly there. It takes
// root, and control groups for the memory and the CPU time; what is missing is
// said and skipped.
package sidecar
