package main

import (
	"fmt"
	"runtime/debug"

	"hook-sidecar/pkg/mutate"
)

// KubeVirt gives a sidecar 64 MB (61 MiB) where the VM has dedicated CPUs, and a
// VM cannot ask for more (KubeVirt
// pkg/virt-controller/services/renderresources.go, sidecarResources). A sidecar
// that outgrows them is killed, and its VM does not start. What serve accepts
// is bounded so that it fits; test/sidecar measures that it does.
const (
	// memoryLimit is what the garbage collector aims at, in bytes, where
	// GOMEMLIMIT does not say otherwise.
	memoryLimit = 48 << 20

	// maxMessage is the size in bytes of the largest request: more than the
	// largest domain that virt-launcher can receive (hooks.MaxReply), with a
	// VMI of 3 MiB, twice what etcd stores.
	maxMessage = 8 << 20

	// maxDomain and maxMarks are what serve works on, see mutate.Limit: some
	// ten times what a VM with 64 devices has. A larger domain goes back
	// unchanged.
	maxDomain = 2 << 20
	maxMarks  = 50_000
)

// serveLimit bounds the domains that serve works on.
func serveLimit() mutate.Limit { return mutate.Limit{Bytes: maxDomain, Marks: maxMarks} }

// tellLimit warns of a domain that serve would not work on: the other commands
// have no such bound.
func (a *app) tellLimit(domain []byte) {
	if err := serveLimit().Check(domain); err != nil {
		fmt.Fprintf(a.err, "hook-sidecar: warning: serve would hand this domain back unchanged: %v\n", err)
	}
}

// limitMemory makes the garbage collector keep to memoryLimit.
func (a *app) limitMemory() {
	if a.variable("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
