// Package sidecar stress-tests the built program under the conditions of a
// sidecar's container: a static binary in a read-only root of its own, user 107, no
// capabilities, and the memory and CPU time that KubeVirt gives the sidecars of VMs
// with dedicated CPUs. It needs root, and control groups for memory and CPU time;
// tests that lack one are skipped.
package sidecar
