// Package cluster reads a running VM where it runs: the VMI and its pod from the API server
// (vmi.go, pod.go), the domain from libvirt and the host from sysfs, both by exec in the pod
// (read.go, exec.go), and the guest's sysfs from its agent (guest.go). It changes nothing; only
// Node with an image makes a pod, and deletes it. The output of a pod is not trusted: its size is
// bounded, and callers escape it for a terminal.
package cluster
