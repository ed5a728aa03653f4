package sidecar

import (
	"runtime"
	"runtime/debug"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/hooks"
)

// KubeVirt gives a sidecar 64 MB (61 MiB) when the VM has dedicated CPUs, and a VM cannot
// ask for more (pkg/virt-controller/services/renderresources.go, sidecarResources). A
// sidecar that needs more is killed, and its VM does not start. So serve limits its input;
// test/sidecar measures its memory.
const (
	// memoryLimit is the soft limit of the garbage collector in bytes, unless GOMEMLIMIT is
	// set. The rest is for allocations while it runs.
	memoryLimit = 32 << 20

	// collectAt is the growth of memory, in percent, that starts the garbage collector,
	// unless GOGC is set. With Go's 100 it took a fifth of a call with 64 devices; it runs
	// after each call in any case.
	collectAt = 200

	// maxDomain, maxSigns and maxHostdevs limit domains, see domain.Limit. They are about ten
	// times what a VM with 64 devices has.
	maxDomain = 2 << 20
	maxSigns  = 50_000

	// maxHostdevs is four times the maximum of a guest with a port for each device:
	// libvirt's highest index of a PCI controller is 255.
	maxHostdevs = 1024
)

// Limit returns the limit of domains. Other commands than serve have none.
func Limit() domain.Limit {
	return domain.Limit{
		Bytes: maxDomain, Signs: maxSigns, Hostdevs: maxHostdevs, Result: hooks.MaxReply,
	}
}

// FitMemory makes the garbage collector keep memory under memoryLimit and run between calls, and
// the process run on one processor, because a sidecar has a share of one: with two, most calls
// take some 5% longer, because threads wake each other. A variable of the environment that sets
// one of them is left to Go.
func FitMemory(environ func(variable string) string) {
	if environ("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}

	if environ("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}

	if environ("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}
