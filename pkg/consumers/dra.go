package consumers

import "hook-sidecar/pkg/topology"

// draRoot judges pairs by the attribute pcieRoot, with which a claim of Kubernetes' Dynamic Resource
// Allocation asks for devices of one PCIe root: the name of the host bridge above a device in sysfs
// (k8s.io/dynamic-resource-allocation deviceattribute, pci_linux.go). Devices in two guest cells
// cannot be on one root.
func draRoot(b both, yield func(Decision)) {
	b.pairs(func(x, y, guestX, guestY *topology.Node) {
		wanted, claimed := topology.Common(x, y) != nil, topology.Common(guestX, guestY) != nil
		isByCells := !topology.Same(guestX.NUMANode(), guestY.NUMANode())
		yield(Decision{x.ID, y.ID, verdictIf(claimed == wanted || wanted && isByCells)})
	})
}

// draNode judges pairs by the attribute numaNode, which a device without a node does not have, also
// on a host with one node (deviceattribute, numa_linux.go). A guest without cells has no nodes, and
// in one with cells they decide which devices are of one node.
func draNode(b both, yield func(Decision)) {
	b.pairs(func(x, y, guestX, guestY *topology.Node) {
		onHost := x.NUMANode()
		wanted := onHost != nil && topology.Same(onHost, y.NUMANode())
		isKnown := guestX.NUMANode() != nil && guestY.NUMANode() != nil
		yield(Decision{x.ID, y.ID, verdictIf(isKnown || !wanted || !b.guest.HasCells)})
	})
}

// verdictIf returns the verdict on a decision that is either as on the host or wrong.
func verdictIf(isRight bool) Verdict {
	if isRight {
		return Right
	}
	return Wrong
}
