package consumers

import "hook-sidecar/pkg/topology"

// hwloc judges what programs take from hwloc's tree of a machine (Open MPI, MPICH, aws-ofi-nccl):
// the NICs under the lowest object that is above a GPU, too, and the CPUs of the GPU's NUMA node. A
// device without a node is local to all CPUs, on the host as in a guest. With several cells that
// adds CPUs of other nodes. In a guest with one cell all CPUs are in that cell: nothing is lost.
func hwloc(b both, yield func(Decision)) {
	for i, gpu := range b.hostGPUs {
		verdict := b.compareTaken(i, HwlocDepth)
		isLost := gpu.NUMANode() != nil && b.guestGPUs[i].NUMANode() == nil
		if isLost && b.guest.HasCells && !b.guest.HasOneCell {
			verdict = max(verdict, Open)
		}

		yield(Decision{GPU: gpu.ID, Verdict: verdict})
	}
}

// HwlocDepth returns how deep the lowest object above two devices is: the machine, a NUMA node's,
// a host bridge or one of the bridges under it.
func HwlocDepth(_ Machine, x, y *topology.Node) int {
	const node, hostBridge = 1, 2
	common := topology.Common(x, y)
	switch own, others := x.NUMANode(), y.NUMANode(); {
	case common != nil:
		return hostBridge + common.Depth()
	case own != nil && others != nil && *own == *others:
		return node
	}

	return 0
}
