package consumers

import "hook-sidecar/pkg/topology"

// p2pdma judges pairs that are under one switch of the host by whether Linux lets one of the two
// reach the other's memory. amdgpu's and xe's dma-buf, GPUDirect Storage and nvmet ask it. Parts of
// one GPU or NIC are no pair, and a mediated device has no memory of its own on the bus.
func p2pdma(b both, yield func(Decision)) {
	b.pairs(func(x, y, guestX, guestY *topology.Node) {
		common := topology.Common(x, y)
		if common == nil || !common.Kind.IsSwitch() || x.IsMediated() || y.IsMediated() {
			return
		}

		yield(Decision{x.ID, y.ID, verdictIf(AllowsPeers(b.guest.CPU, guestX, guestY))})
	})
}

// AllowsPeers reports whether Linux in a guest lets one of two devices reach the other's memory:
// under one bridge, and on AMD CPUs from Zen on everywhere (drivers/pci/p2pdma.c,
// calc_map_type_and_dist and cpu_supports_p2pdma). Neither q35's host bridge nor an expander bus is
// on its list of host bridges.
func AllowsPeers(cpu topology.CPU, x, y *topology.Node) bool {
	under := topology.Common(x, y)
	return cpu.IsZen() || under != nil && under.Kind != topology.Root
}
