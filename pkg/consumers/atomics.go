package consumers

// atomics judges whole AMD GPUs by whether the root port above completes PCIe AtomicOps, without
// which HIP refuses kernels that print or assert, and RCCL's collectives fail
// (topology.Function.NeedsAtomics has the sources).
func atomics(b both, yield func(Decision)) {
	if len(b.guest.Atomics) == 0 {
		return
	}

	for _, gpu := range b.guestGPUs {
		if completes, isAsked := b.guest.Atomics[gpu.ID]; isAsked {
			yield(Decision{GPU: gpu.ID, Verdict: verdictIf(completes)})
		}
	}
}
