package findings

import (
	"slices"

	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// hasFile reports whether NCCL sees the host's tree and links in the topology file, whatever the
// guest's are.
func hasFile(plan *placement.Plan) bool {
	return plan.Policy.NCCLTopology != policy.NCCLTopologyNone
}

// gpuDirectOff finds GPUs that use GPUDirect RDMA on the host and not in the guest.
func gpuDirectOff(plan *placement.Plan) []reasons.Finding {
	outcome := plan.GPUDirect()
	if hasFile(plan) || outcome.Guest >= outcome.Host || len(withoutSwitch(plan)) > 0 {
		return nil
	}

	remedy := withSwitches(plan, "set nccl-topology; else NCCL_NET_GDR_LEVEL=PHB in the guest, "+
		"which does not bring the host's NIC")
	return withRemedy(remedy, "GPUDirect RDMA is off for %d of %s that use it on the host: NCCL "+
		"wants GPU and NIC under one switch", outcome.Host-outcome.Guest, words.Counted(outcome.Host, "GPU"))
}

// mergedSwitches finds devices that are under several switches of the host and under one of the
// guest.
func mergedSwitches(plan *placement.Plan) []reasons.Finding {
	merged := plan.MergedPairs()
	if merged == 0 {
		return nil
	}

	return one("%s of devices that are PXB on the host are PIX in the guest: one switch is in place "+
		"of cascaded ones, which NCCL takes for as near, and whose inner uplinks would advertise %s",
		words.Counted(merged, "pair"), libvirt.DefaultUplink())
}

// slowUplinks finds that NCCL takes the link that an emulated switch advertises for that of a
// path that it uses.
func slowUplinks(plan *placement.Plan) []reasons.Finding {
	if hasFile(plan) || !plan.SlowsNCCL() || !hasSlowUplink(plan) {
		return nil
	}

	return one("uplinks of emulated switches advertise %s: NCCL underestimates them",
		libvirt.DefaultUplink())
}

// hasSlowUplink reports whether a switch above a device that NCCL pairs advertises QEMU's default.
func hasSlowUplink(plan *placement.Plan) bool {
	isSlow := func(n *topology.Node) bool {
		return n.Kind == topology.UpstreamPort &&
			libvirt.NodeLink(plan.Domain(), n) == libvirt.DefaultUplink()
	}

	return slices.ContainsFunc(plan.Devices, func(d placement.Decision) bool {
		return d.Function.IsGPUOrNIC() &&
			slices.ContainsFunc(plan.GuestTree.Node(d.ID).Path(), isSlow)
	})
}

// slowRootPorts finds that NCCL and RCCL take the speed of emulated root ports for that of a
// faster link. They take speed and width each as the minimum of a device and the port above it
// (src/graph/xml.cc, ncclTopoGetXmlFromSys), and the slowest link on the path between two
// devices, so that only pairs of fast devices count, at least one of them a GPU.
func slowRootPorts(plan *placement.Plan) []reasons.Finding {
	if hasFile(plan) {
		return nil
	}

	var fast []*topology.Function
	lowest, highest := 0.0, 0.0
	for _, d := range plan.Devices {
		n := plan.GuestTree.Node(d.ID)
		if !isAtRootPort(d, n) {
			continue
		}

		port := libvirt.NodeLink(plan.Domain(), n.Parent)
		speed := plan.Host.SlowestLink(plan.HostTree.Node(d.ID).Path()).Speed
		if speed <= port.Speed {
			continue
		}

		fast = append(fast, d.Function)
		highest = max(highest, speed)
		if lowest == 0 || port.Speed < lowest {
			lowest = port.Speed
		}
	}

	if !topology.HasPair(fast) {
		return nil
	}

	return one("emulated root ports advertise %s GT/s: NCCL underestimates the links of %d GPUs "+
		"and NICs, the fastest of which has %s GT/s on the host",
		words.Number(lowest), len(fast), words.Number(highest))
}

// isAtRootPort reports whether a device is a GPU or a NIC that the topology file would name, and
// is directly under a root port of the guest. The link of a mediated device is unknown.
func isAtRootPort(d placement.Decision, n *topology.Node) bool {
	isUnderRootPort := n != nil && n.Parent != nil && n.Parent.Kind == topology.RootPort
	return isUnderRootPort && d.Function.IsGPUOrNIC() && d.Predicted != nil &&
		d.ID.Kind() == topology.KindPCI
}
