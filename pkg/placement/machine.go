package placement

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/ncclgraph"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// machineOf returns the GPUs and NICs among devices as NCCL finds them in a tree, in the order of
// the devices. Those that the tree lacks are left out.
func machineOf(
	devices []Decision, tree *topology.Tree, link func(*topology.Node) topology.Link,
) ncclgraph.Machine {
	m := ncclgraph.Machine{Link: link}
	for _, d := range devices {
		n := tree.Node(d.ID)
		switch {
		case n == nil:
		case d.Function.IsGPU():
			m.GPUs = append(m.GPUs, ncclgraph.GPU{Node: n, NVLink: isBoardGPU(d)})
		case d.Function.IsNIC():
			m.NICs = append(m.NICs, n)
		}
	}

	return m
}

// isBoardGPU reports whether a device is a whole GPU that its board joins with others over NVLink.
func isBoardGPU(d Decision) bool {
	return d.ID.Kind() == topology.KindPCI && ncclgraph.HasNVLink(d.Function)
}

// fastest is a link that limits no path. It stands for one that was not read.
var fastest = topology.Link{Speed: 64, Width: 16}

// guestLinks returns what a guest shows of links: of its ports what port returns, and of a
// passthrough function the function's own.
func guestLinks(
	host *topology.Host, port func(*topology.Node) topology.Link,
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

		return maxLink(host, function)
	}
}

// silentPort returns the link of a port in the tree that a layout wants, as QEMU's ports are
// without port-speed=host.
func silentPort(n *topology.Node) topology.Link {
	return libvirt.PortLink(&domain.Domain{},
		domain.Controller{Model: bus.ModelUnder(n.Parent.Kind)})
}

// portLink returns the link of a port of the planned guest.
func (p *Plan) portLink(n *topology.Node) topology.Link { return libvirt.NodeLink(p.result, n) }

// GPUDirect has the outcome of a plan that NCCL's users feel: how many GPUs move data to and from
// their NIC without the CPU's memory.
type GPUDirect struct {
	GPUs  int // that have a NIC to take; 0 without GPUs or without NICs
	Host  int // of these, that use GPUDirect RDMA to their NIC on the host
	Guest int // and in the guest
	Right int // that take the same NIC as on the host
}

// GPUDirect compares what NCCL decides on the host and in the guest after Changes. A device that
// the host does not show is left out.
func (p *Plan) GPUDirect() GPUDirect {
	onHost := p.onHost()
	inGuest := onHost
	if p.Policy.NCCLTopology == policy.NCCLTopologyNone { // the file shows NCCL the host's tree
		inGuest = p.inGuest()
	}

	if len(onHost.GPUs) == 0 || len(onHost.NICs) == 0 {
		return GPUDirect{}
	}

	wanted := nicsOf(onHost)
	outcome := GPUDirect{GPUs: len(onHost.GPUs)}
	for _, c := range wanted {
		if c.isDirect {
			outcome.Host++
		}
	}

	for gpu, c := range nicsOf(inGuest) {
		if c.isDirect {
			outcome.Guest++
		}
		if c.nic == wanted[gpu].nic {
			outcome.Right++
		}
	}

	return outcome
}

// onHost returns the GPUs and NICs as NCCL finds them on the host.
func (p *Plan) onHost() ncclgraph.Machine {
	return machineOf(shownBy(p.Host, p.Devices), p.HostTree, hostLinks(p.Host))
}

// inGuest returns the GPUs and NICs as NCCL finds them in the guest, without the topology file.
func (p *Plan) inGuest() ncclgraph.Machine {
	shown := shownBy(p.Host, p.Devices)
	return machineOf(byGuestAddress(shown), p.GuestTree, guestLinks(p.Host, p.portLink))
}

// shownBy returns the devices that the host shows.
func shownBy(host *topology.Host, devices []Decision) []Decision {
	return slices.DeleteFunc(slices.Clone(devices), func(d Decision) bool {
		return !host.Shows(d.ID) || d.Function == nil
	})
}

// ShowsHost reports whether the guest's own tree and links show NCCL the paths of the host, so that
// the topology file adds nothing.
func (p *Plan) ShowsHost() bool {
	return p.inGuest().ShowsAs(p.onHost())
}

// chosenNIC is the NIC that NCCL takes for a GPU.
type chosenNIC struct {
	nic      topology.ID
	isDirect bool
}

// nicsOf returns the NIC that NCCL takes for each GPU.
func nicsOf(m ncclgraph.Machine) map[topology.ID]chosenNIC {
	chosen := make(map[topology.ID]chosenNIC, len(m.GPUs))
	for i, c := range m.Choices() {
		chosen[m.GPUs[i].Node.ID] = chosenNIC{m.NICs[c.NIC].ID, c.IsDirect()}
	}
	return chosen
}

// byGuestAddress returns devices in the order in which the guest numbers them. libvirt gives those
// without an address theirs in the order of the domain.
func byGuestAddress(devices []Decision) []Decision {
	ordered := slices.Clone(devices)
	isKnown := !slices.ContainsFunc(ordered, func(d Decision) bool { return d.Predicted == nil })
	slices.SortFunc(ordered, func(x, y Decision) int {
		if isKnown {
			return x.Predicted.Compare(*y.Predicted)
		}
		return cmp.Compare(x.position, y.position)
	})

	return ordered
}

// hostLinks returns what the host shows of links.
func hostLinks(host *topology.Host) func(*topology.Node) topology.Link {
	return func(n *topology.Node) topology.Link {
		switch id := n.ID.(type) {
		case topology.DeviceID:
			return maxLink(host, host.Function(id))
		case topology.Address:
			return maxLink(host, host.Device(id))
		}

		return fastest
	}
}

// maxLink returns the fastest link of a function of the host; fastest where it was not read.
func maxLink(host *topology.Host, function *topology.Device) topology.Link {
	if link := host.MaxLink(function); link != nil {
		return *link
	}
	return fastest
}
