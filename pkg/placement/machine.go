package placement

import (
	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// GPUDirect has the outcome of a plan that NCCL's users feel: how many GPUs move data to and from
// their NIC without the CPU's memory.
type GPUDirect struct {
	GPUs  int // that have a NIC to take; 0 without GPUs or without NICs
	Host  int // of these, that use GPUDirect RDMA to their NIC on the host
	Guest int // and in the guest
	Right int // that take the same NIC as on the host
}

// machineOf returns the GPUs and NICs among devices as NCCL finds them at their nodes, in the order
// of the devices. Those without a node are left out.
func machineOf(
	devices []Decision, node func(topology.ID) *topology.Node,
	link func(*topology.Node) topology.Link,
) ncclgraph.Machine {
	m := ncclgraph.Machine{Link: link}
	for _, d := range devices {
		n := node(d.ID)
		switch {
		case n == nil:
		case d.Function.IsGPU():
			isPCI := d.ID.Kind() == topology.KindPCI
			m.GPUs = append(m.GPUs, ncclgraph.GPU{
				Node:   n,
				NVLink: isPCI && ncclgraph.HasNVLink(d.Function),
				XGMI:   isPCI && ncclgraph.HasXGMI(d.Function),
			})
		case d.Function.IsNIC():
			m.NICs = append(m.NICs, n)
		}
	}

	return m
}

// chosenNIC is the NIC that NCCL takes for a GPU.
type chosenNIC struct {
	nic      topology.ID // nil where the machine has none
	usesRDMA bool
}

// nicsOf returns the NIC that NCCL takes for each GPU.
func nicsOf(m ncclgraph.Machine) map[topology.ID]chosenNIC {
	chosen := make(map[topology.ID]chosenNIC, len(m.GPUs))
	for i, c := range m.Choices() {
		one := chosenNIC{usesRDMA: c.IsDirect()}
		if c.NIC >= 0 {
			one.nic = m.NICs[c.NIC].ID
		}

		chosen[m.GPUs[i].Node.ID] = one
	}

	return chosen
}

// unlimited returns a link that limits no path, for every node.
func unlimited(*topology.Node) topology.Link { return ncclgraph.Unlimited }

// asGuest returns a guest with these GPUs and NICs as the consumers find it: on the host's CPUs, with
// the cells of a domain. The topology file shows NCCL the host.
func asGuest(
	m ncclgraph.Machine, host consumers.Machine, d *domain.Domain, p policy.Policy,
) consumers.Machine {
	guest := consumers.Machine{
		Machine: m, CPU: host.CPU, HasCells: len(d.Cells) > 0, HasOneCell: len(d.Cells) == 1,
	}
	if p.NCCLTopology != policy.NCCLTopologyNone {
		guest.NCCL = &host.Machine
	}

	return guest
}

// guestLinks returns what a guest shows of links: of its ports what port returns, and of a
// passthrough function what own does, unless the function mutes its link.
func guestLinks(
	host *topology.Host, port func(*topology.Node) topology.Link,
	own func(*topology.Function) topology.Link,
) func(*topology.Node) topology.Link {
	return func(n *topology.Node) topology.Link {
		id, isPassedThrough := n.ID.(topology.DeviceID)
		if !isPassedThrough {
			return port(n)
		}

		function := host.Function(id)
		if function != nil && function.MutesLink {
			return topology.Link{}
		}

		return own(function)
	}
}

// silentPort returns the link of a port in the tree that a layout wants, as QEMU's ports are
// without port-speed=host.
func silentPort(n *topology.Node) topology.Link {
	return libvirt.PortLink(&domain.Domain{},
		domain.Controller{Model: bus.ModelUnder(n.Parent.Kind)})
}

// hostLinks returns what the host shows of links.
func hostLinks(host *topology.Host) func(*topology.Node) topology.Link {
	return func(n *topology.Node) topology.Link {
		switch id := n.ID.(type) {
		case topology.DeviceID:
			return maxLink(host, host.Function(id))
		case topology.Address:
			return maxLink(host, host.FunctionAt(id))
		}

		return ncclgraph.Unlimited
	}
}

// maxLink returns the fastest link of a function of the host; Unlimited where it was not read.
func maxLink(host *topology.Host, function *topology.Function) topology.Link {
	if link := host.MaxLink(function); link != nil {
		return *link
	}
	return ncclgraph.Unlimited
}
