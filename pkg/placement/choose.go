package placement

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// choose returns the proposal of the layout that the policy names. With auto it proposes the
// simplest layout that shows as much of the host as the finest one that serves NCCL. It depends on
// the devices, the host and the cells, so that all calls of a boot choose the same.
func choose(s start) proposal {
	if s.Policy.Layout != policy.LayoutAuto {
		return propose(s, s.Policy.Layout, "")
	}

	finest, why := finestForNCCL(s, propose(s, policy.LayoutMirror, ""))
	if finest.Layout == policy.LayoutSwitch {
		return finest // of the simpler layouts none has a switch
	}

	for _, layout := range []policy.Layout{policy.LayoutNUMA, policy.LayoutRoot} {
		if layout == finest.Layout {
			break
		}

		decisions := finest.decisions
		if layout.IsPerCell() {
			decisions = decide(s, layout)
		}

		if p := proposalOf(s, decisions, layout, why); p.isAsNear(finest, s) {
			return p
		}
	}

	return finest
}

// finestForNCCL returns the finest layout whose switch ports make NCCL decide no worse than without
// them: mirror, else switch, else root. why is the reason for a simpler layout that shows as much.
func finestForNCCL(s start, mirror proposal) (finest proposal, why string) {
	// Mirror puts vGPUs of one GPU, or virtual functions of one NIC, under a switch without one on
	// the host, too.
	isHosts := anyPairedUnderSwitch(mirror.decisions, mirror.wanted, s.hostTree)
	why = "a finer tree would bring no two devices nearer to the host's path type"
	if slices.ContainsFunc(mirror.decisions, func(d Decision) bool { return d.OwnPort }) {
		why = "whole AMD GPUs keep PCIe AtomicOps only directly under a root port, and a finer tree " +
			"would bring no two other devices nearer to the host's path type"
	}

	switch {
	case s.Policy.NCCLTopology != policy.NCCLTopologyNone && !isHosts:
		mirror.Why = "it shows which devices are of one place on the host, such as vGPUs of one " +
			"GPU, and nccl-topology says the speeds"

	case s.Policy.NCCLTopology != policy.NCCLTopologyNone:
		mirror.Why = "it shows the host's switches, and nccl-topology says their speeds"
	case s.switchPortsSpeak() && anyPairedUnderSwitch(mirror.decisions, mirror.wanted):
		mirror.Why = "it shows the host's switches, and port-speed gives their ports the host's " +
			"links"

	case !hasFalseLinkSpeed(mirror.decisions, mirror.wanted):
		mirror.Why = "it shows the host's switches, and none of them is between GPUs, " +
			"accelerators or NICs"

	case servesNCCL(s, mirror):
		mirror.Why = "NCCL uses GPUDirect RDMA only under the host's switches, and no path that " +
			"it uses crosses an uplink of 2.5 GT/s"

	default:
		why = slowSwitches(s, isHosts)
		root := proposalOf(s, mirror.decisions, policy.LayoutRoot, why)
		merged := proposalOf(s, mirror.decisions, policy.LayoutSwitch,
			"NCCL uses GPUDirect RDMA under one switch as under cascaded ones, whose inner "+
				"uplinks would advertise 2.5 GT/s")
		if !merged.asGuest(s).IsLimited() && isBetterForNCCL(s, merged, root) {
			return merged, ""
		}

		return root, why
	}

	return mirror, why
}

// isBetterForNCCL reports whether p brings a GPU GPUDirect RDMA to the NIC that it takes on the
// host, claims it for no GPU that does not use it there, and takes no GPU from the host's NIC that
// it has in q.
func isBetterForNCCL(s start, p, q proposal) bool {
	wanted := nicsOf(machineOf(p.decisions, s.hostTree, fastestLink))
	others, isGain := nicsOf(q.asGuest(s)), false
	for gpu, chosen := range nicsOf(p.asGuest(s)) {
		want := wanted[gpu]
		isRight := chosen.nic == want.nic
		if chosen.usesRDMA && !want.usesRDMA || !isRight && others[gpu].nic == want.nic {
			return false
		}
		isGain = isGain || chosen.usesRDMA && isRight
	}

	return isGain
}

// asGuest returns the GPUs and NICs as NCCL finds them in the tree that a layout wants, under ports
// without the host's speed. Their own links count as fast: not every call reads them, and all calls
// of a boot have to choose the same.
func (p proposal) asGuest(s start) ncclgraph.Machine {
	return machineOf(p.decisions, p.wanted, func(n *topology.Node) topology.Link {
		id, isPassedThrough := n.ID.(topology.DeviceID)
		if !isPassedThrough {
			return silentPort(n)
		}
		if f := s.Host.Function(id); f != nil && f.MutesLink {
			return topology.Link{}
		}
		return fastest
	})
}

// slowSwitches returns why a tree has no switches, and the key that would bring them.
func slowSwitches(s start, isHosts bool) string {
	key := string(policy.KeyPortSpeed) + "=host"
	if s.Policy.PortSpeed == "host" { // which the domain refuses
		key = string(policy.KeyNCCLTopology)
	}

	if isHosts {
		return fmt.Sprintf("GPUs, accelerators or NICs are under switches whose ports would "+
			"advertise 2.5 GT/s; set %s for mirror", key)
	}

	return fmt.Sprintf("devices of one place on the host, such as vGPUs of one GPU, would be "+
		"under a switch of the guest, whose ports advertise 2.5 GT/s; set %s for mirror", key)
}

// servesNCCL reports whether the switches of a proposal bring a GPU GPUDirect RDMA to its NIC, and
// the false speed of their ports limits no path that NCCL uses.
func servesNCCL(s start, p proposal) bool {
	m := p.asGuest(s)
	isDirect := func(c ncclgraph.Choice) bool { return c.NIC >= 0 && c.IsDirect() }
	return slices.ContainsFunc(m.Choices(), isDirect) && !m.IsLimited()
}

// hasFalseLinkSpeed reports whether NCCL or RCCL would take the link speed that QEMU's
// switch ports advertise for that of a device which it pairs with others: two GPUs,
// accelerators or NICs are passed through, and one of them is under a switch of the guest.
func hasFalseLinkSpeed(devices []Decision, guest *topology.Tree) bool {
	isGPUOrNIC := func(d Decision) bool { return d.Function.IsGPUOrNIC() }
	return topology.CountFunc(devices, isGPUOrNIC) > 1 && anyPairedUnderSwitch(devices, guest)
}

// anyPairedUnderSwitch reports whether a device that NCCL pairs is under a switch in each tree.
func anyPairedUnderSwitch(devices []Decision, trees ...*topology.Tree) bool {
	return slices.ContainsFunc(devices, func(d Decision) bool {
		isOutside := func(t *topology.Tree) bool {
			n := t.Node(d.ID)
			return n == nil || !n.IsUnderSwitch()
		}
		return d.Function.IsGPUOrNIC() && !slices.ContainsFunc(trees, isOutside)
	})
}
