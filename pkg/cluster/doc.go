// Package cluster reads a running VM where it runs: the VMI and its pod from the API
// server (vmi.go, pod.go), the domain from libvirt and the host from sysfs, both by exec
// in the pod (exec.go, read.go). It changes nothing. What comes out of a pod is not
// trusted: its size is bounded, and whoever shows it escapes it.
package cluster
