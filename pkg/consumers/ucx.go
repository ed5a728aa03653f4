package consumers

import "hook-sidecar/pkg/topology"

// ucx judges the NIC that UCX takes for a GPU: the one with the most bandwidth between the two, by
// what UCX assumes of the tree (openucx/ucx src/ucs/sys/topo/base/topo.c, from 1.17 on;
// src/ucp/proto/proto_common.c and proto_multi.c). Where several are equal, another rule chooses
// among them, which is why a tie that has the host's NIC is open.
func ucx(b both, yield func(Decision)) {
	for i, gpu := range b.hostGPUs {
		if len(b.hostNICs) > 0 {
			yield(Decision{GPU: gpu.ID, Verdict: b.compareTaken(i, UCXBandwidth)})
		}
	}
}

// What UCX assumes of paths, in MB/s.
const (
	ucxOneBridge = 1 << 20 // no limit: of the NIC's and this, the NIC's counts
	ucxOneNode   = 17000   // two PCIe roots of one NUMA node
	ucxOneRoot   = 3500    // one PCIe root, and no bridge in common; at most ucxHops per hop
	ucxHops      = 19200
	ucxTwoNodes  = 220

	// By UCX's own ucx.conf (openucx/ucx config/ucx.conf), sections AMD and Grace Hopper: the latter
	// counts by the CPU's model, Grace.
	ucxTwoNodesOnAMD   = 5100
	ucxTwoNodesOnGrace = 16500
)

// UCXBandwidth returns the MB/s that UCX assumes of the path between two devices of a machine.
func UCXBandwidth(m Machine, x, y *topology.Node) int {
	switch common := topology.Common(x, y); {
	case common != nil && common.Kind == topology.Root:
		hops := x.Depth() + y.Depth() - 2*common.Depth()
		return min(ucxOneRoot, ucxHops/hops)

	case common != nil:
		return ucxOneBridge

	// Two devices without a node count as of one node (topo.c, ucs_topo_is_same_numa_node).
	case topology.Same(x.NUMANode(), y.NUMANode()):
		return ucxOneNode

	case m.CPU.IsAMD():
		return ucxTwoNodesOnAMD
	case m.CPU.IsGrace:
		return ucxTwoNodesOnGrace
	}

	return ucxTwoNodes
}
