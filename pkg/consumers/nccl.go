package consumers

import (
	"slices"

	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/topology"
)

// nccl judges what NCCL and RCCL decide for a GPU. It is open if GPUDirect RDMA alone is lost, and
// wrong if the GPU takes another NIC. It is harmful if the GPU uses GPUDirect RDMA that it lacks on
// the host, or if a port of the guest slows down its path to the NIC or to other GPUs.
func nccl(b both, yield func(Decision)) {
	onHost, inGuest := ncclChoices(b.host, b.hostGPUs), ncclChoices(b.guest, b.guestGPUs)
	for i, gpu := range b.hostGPUs {
		here, there := inGuest[i], onHost[i]
		d := Decision{GPU: gpu.ID}
		switch {
		case here.isDirect && !there.isDirect, here.isSlower(there):
			d.Verdict = Harmful
		case here.nic != there.nic:
			d.Verdict = Wrong
		case here.isDirect != there.isDirect:
			d.Verdict = Open
		}

		yield(d)
	}
}

// ncclChoice has a GPU's NIC, and how NCCL reaches it and other GPUs.
type ncclChoice struct {
	nic      topology.ID  // nil where the machine has none
	isDirect bool         // it uses GPUDirect RDMA
	limits   [2]ncclLimit // of its path to the NIC, and of that to other GPUs
}

// ncclLimit is the slowest link of a path.
type ncclLimit struct {
	bandwidth float64 // GB/s
	isByPort  bool    // and not by the ends
}

// isSlower reports whether a port slows down a path that is faster on the host.
func (c ncclChoice) isSlower(host ncclChoice) bool {
	for i, limit := range c.limits {
		if limit.isByPort && limit.bandwidth < host.limits[i].bandwidth {
			return true
		}
	}

	return false
}

// ncclChoices returns what NCCL decides for GPUs of a machine.
func ncclChoices(machine Machine, gpus []*topology.Node) []ncclChoice {
	m := machine.Machine
	if machine.NCCL != nil {
		m = *machine.NCCL
	}

	chosen := make([]ncclChoice, len(m.GPUs))
	for i, c := range m.Choices() {
		one := &chosen[i]
		if c.NIC >= 0 {
			one.nic, one.isDirect = m.NICs[c.NIC].ID, c.IsDirect()
			one.limits[0] = ncclLimit{c.Bandwidth, c.Limited}
		}

		// A GPU alone, or one that NVLink or XGMI joins with others, goes to none over the CPU.
		if len(m.GPUs) > 1 && !m.GPUs[i].IsJoined() {
			one.limits[1].bandwidth, one.limits[1].isByPort = m.ToCPU(i)
		}
	}

	return inOrder(m.GPUs, chosen, gpus)
}

// inOrder returns the choices of GPUs in the order of their nodes, of this machine or another.
func inOrder(gpus []ncclgraph.GPU, chosen []ncclChoice, order []*topology.Node) []ncclChoice {
	isOfOne := func(gpu ncclgraph.GPU, n *topology.Node) bool { return gpu.Node.ID == n.ID }
	if slices.EqualFunc(gpus, order, isOfOne) {
		return chosen
	}

	return topology.Map(order, func(n *topology.Node) ncclChoice {
		return chosen[slices.IndexFunc(gpus, func(gpu ncclgraph.GPU) bool {
			return isOfOne(gpu, n)
		})]
	})
}
