package placement

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/ncclgraph"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// choose returns the proposal of the layout that the policy names. With auto it is that of the
// simplest layout that shows as much of the host as the finest one that serves NCCL. It depends on
// the devices, the host and the cells, so that all calls of a boot choose the same.
func choose(s start) proposal {
	if s.Policy.Layout != policy.LayoutAuto {
		return propose(s, s.Policy.Layout, "")
	}

	finest, why := finestForNCCL(s, propose(s, policy.LayoutMirror, ""))
	for _, layout := range policy.TreeLayouts() {
		if layout == finest.Layout {
			break
		}

		decisions := finest.decisions
		if layout == policy.LayoutNUMA {
			decisions = decide(s, layout)
		}

		if p := proposalOf(s, decisions, layout, why); p.isAsNear(finest, s) {
			return p
		}
	}

	return finest
}

// finestForNCCL returns the finest layout whose switch ports make NCCL decide no worse than without
// them: mirror, else root. why is the reason for a simpler layout that shows as much.
func finestForNCCL(s start, mirror proposal) (finest proposal, why string) {
	// Mirror puts vGPUs of one GPU, or virtual functions of one NIC, under a switch without one on
	// the host, too.
	isHosts := anyPairedUnderSwitch(mirror.decisions, mirror.wanted, s.hostTree)
	why = "a finer tree would bring no two devices nearer to the host's path type"
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
		return proposalOf(s, mirror.decisions, policy.LayoutRoot, why), why
	}

	return mirror, why
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
	m := machineOf(p.decisions, p.wanted, guestLinks(s.Host, silentPort))
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
