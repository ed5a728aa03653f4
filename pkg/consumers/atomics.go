package consumers

// atomics judges whole AMD GPUs by whether the root port above completes PCIe AtomicOps, without
// which HIP refuses kernels that print or assert, and RCCL's collectives fail
// (topology.Function.NeedsAtomics has the sources).
func atomics(_, guest view, yield func(Decision)) {
	for _, gpu := range guest.GPUs {
		if completes, isAsked := guest.Atomics[gpu.Node.ID]; isAsked {
			yield(Decision{GPU: gpu.Node.ID, Verdict: verdictIf(completes)})
		}
	}
}
