package placement

import (
	"slices"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

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
		if c.usesRDMA {
			outcome.Host++
		}
	}

	for gpu, c := range nicsOf(inGuest) {
		if c.usesRDMA {
			outcome.Guest++
		}
		if c.nic == wanted[gpu].nic {
			outcome.Right++
		}
	}

	return outcome
}

// Consumers counts, for each consumer of the tree, the decisions that are as on the host in the guest
// after Changes.
func (p *Plan) Consumers() []consumers.Tally { return consumers.Tallies(p.machines()) }

// Decisions counts the decisions of one consumer, by its name, as Consumers does.
func (p *Plan) Decisions(consumer string) consumers.Tally {
	host, guest := p.machines()
	return consumers.TallyOf(consumer, host, guest)
}

// Programs counts, for each program that asks the tree, the GPUs about which it decides as on the
// host in the guest after Changes.
func (p *Plan) Programs() []consumers.Program { return consumers.Programs(p.machines()) }

// machines returns the host and the guest after Changes as the consumers find them.
func (p *Plan) machines() (host, guest consumers.Machine) {
	host = consumers.Machine{Machine: p.onHost(), CPU: cpuOf(p.Host, p.result)}
	guest = asGuest(p.inGuest(), host, p.result, p.Policy)
	guest.Atomics = map[topology.ID]bool{}
	for _, d := range p.Devices {
		if n := p.GuestTree.Node(d.ID); d.NeedsAtomics() && n != nil && d.Address != nil {
			guest.Atomics[d.ID] = HasAtomics(n, d.Address)
		}
	}

	return host, guest
}

// onHost returns the GPUs and NICs as NCCL finds them on the host.
func (p *Plan) onHost() ncclgraph.Machine {
	shown := p.Host.AsShown(p.HostTree, p.IDs())
	m := machineOf(shownBy(p.Host, p.Devices), shown.Node, hostLinks(p.Host))
	return p.joined(m)
}

// inGuest returns the GPUs and NICs as NCCL finds them in the guest, without the topology file.
func (p *Plan) inGuest() ncclgraph.Machine {
	shown := shownBy(p.Host, p.Devices)
	m := machineOf(p.byGuestAddress(shown), p.GuestTree.Node, guestLinks(p.Host, p.portLink,
		func(f *topology.Function) topology.Link { return maxLink(p.Host, f) }))
	return p.joined(m)
}

// joined returns a machine in which only those GPUs have NVLinks that a partition joins with
// another of the VM's: Fabric Manager disables the links of the others.
func (p *Plan) joined(m ncclgraph.Machine) ncclgraph.Machine {
	addresses := make([]topology.Address, len(m.GPUs))
	for i, gpu := range m.GPUs {
		if f := p.Host.Function(gpu.Node.ID.(topology.DeviceID)); f != nil {
			addresses[i] = f.LinkEnd()
		}
	}

	for i := range m.GPUs {
		isJoined := p.Partitions.IsJoined(addresses[i], addresses)
		m.GPUs[i].NVLink = m.GPUs[i].NVLink && isJoined
	}

	return m
}

// portLink returns the link of a port of the planned guest.
func (p *Plan) portLink(n *topology.Node) topology.Link { return libvirt.NodeLink(p.result, n) }

// shownBy returns the devices that the host shows and that are not hidden from the guest.
func shownBy(host *topology.Host, devices []Decision) []Decision {
	return slices.DeleteFunc(slices.Clone(devices), func(d Decision) bool {
		return !host.Shows(d.ID) || d.Function == nil || d.unassigned
	})
}

// PathSpeed returns what NCCL believes of the slowest path that it uses in the guest, as a part of
// the slowest on the host; 0 where it uses none.
func (p *Plan) PathSpeed() float64 {
	slowest := p.onHost().Slowest()
	if slowest == 0 {
		return 0
	}
	return p.inGuest().Slowest() / slowest
}

// ShowsHost reports whether the guest's own tree and links show NCCL the paths of the host, so that
// the topology file adds nothing.
func (p *Plan) ShowsHost() bool {
	return p.inGuest().ShowsAs(p.onHost())
}

// SlowsNCCL reports whether NCCL believes that a port of the guest slows down a path that it uses.
func (p *Plan) SlowsNCCL() bool { return p.inGuest().IsLimited() }

// byGuestAddress returns devices in the order in which the guest numbers them. libvirt gives those
// without an address theirs in the order of the domain.
func (p *Plan) byGuestAddress(devices []Decision) []Decision {
	if slices.ContainsFunc(devices, func(d Decision) bool { return d.Predicted == nil }) {
		return inOrder(p.result.Hostdevs, devices)
	}

	return slices.SortedFunc(slices.Values(devices), func(x, y Decision) int {
		return x.Predicted.Compare(*y.Predicted)
	})
}
