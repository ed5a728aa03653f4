package consumers

import (
	"hook-sidecar/pkg/topology"
)

// nccl judges what NCCL and RCCL decide for a GPU. It is wrong if the GPU takes another NIC, uses
// GPUDirect RDMA that it lacks on the host, or if a port of the guest slows down its path to the
// NIC or to other GPUs; it is open if GPUDirect RDMA alone is lost.
func nccl(host, guest view, yield func(Decision)) {
	onHost, inGuest := ncclChoices(host), ncclChoices(guest)
	for _, gpu := range host.GPUs {
		there := onHost[gpu.Node.ID]
		here, isInGuest := inGuest[gpu.Node.ID]
		if !isInGuest {
			continue
		}

		d := Decision{GPU: gpu.Node.ID}
		switch {
		case here.nic != there.nic, here.isDirect && !there.isDirect, here.isSlower(there):
			d.Verdict = Wrong
		case here.isDirect != there.isDirect:
			d.Verdict = Open
		}

		yield(d)
	}
}

// ncclChoice is what NCCL decides for a GPU.
type ncclChoice struct {
	nic      topology.ID // nil where the machine has none
	isDirect bool        // it uses GPUDirect RDMA
	limits   []ncclLimit // of its path to the NIC, and of that to other GPUs
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

// ncclChoices returns what NCCL decides for each GPU.
func ncclChoices(v view) map[topology.ID]ncclChoice {
	m := v.Machine.Machine
	if v.NCCL != nil {
		m = *v.NCCL
	}

	chosen := make(map[topology.ID]ncclChoice, len(m.GPUs))
	for i, c := range m.Choices() {
		var one ncclChoice
		var nic, gpus ncclLimit
		if c.NIC >= 0 {
			one.nic, one.isDirect = m.NICs[c.NIC].ID, c.IsDirect()
			nic = ncclLimit{c.Bandwidth, c.Limited}
		}

		if len(m.GPUs) > 1 && !m.GPUs[i].IsJoined() {
			gpus.bandwidth, gpus.isByPort = m.ToCPU(i)
		}

		one.limits = []ncclLimit{nic, gpus}
		chosen[m.GPUs[i].Node.ID] = one
	}

	return chosen
}

