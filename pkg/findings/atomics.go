package findings

import (
	"fmt"
	"maps"
	"slices"

	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// atomicsLost finds whole AMD GPUs for which QEMU does not let a root port complete PCIe AtomicOps.
// A GPU without an address gets a root port of its own from libvirt.
func atomicsLost(plan *placement.Plan) []reasons.Finding {
	lost := map[string][]string{} // ids of devices, by what is wrong with their place
	for _, d := range plan.Devices {
		n := plan.GuestTree.Node(d.ID)
		if d.NeedsAtomics() && d.Address != nil && !placement.HasAtomics(n, d.Address) {
			why := whyNoAtomics(n)
			lost[why] = append(lost[why], d.ID.String())
		}
	}

	var found []reasons.Finding
	for _, why := range slices.Sorted(maps.Keys(lost)) {
		found = append(found, one("no PCIe AtomicOps for %s, %s: HIP refuses kernels that print or "+
			"assert, and RCCL's collectives fail", words.FirstOf(lost[why], 8, ", "), why)...)
	}

	return found
}

// whyNoAtomics says which condition of QEMU a place does not meet.
func whyNoAtomics(n *topology.Node) string {
	switch {
	case n == nil || n.Parent == nil:
		return "under no root port"
	case n.IsUnderSwitch():
		return "under a switch of the guest"
	case n.Parent.Kind != topology.RootPort:
		return "under no root port"
	}

	return "in a slot for several functions"
}

// atomicsWithoutSwitch finds whole AMD GPUs that share a switch with a NIC of the VM on the host and
// not in the guest, where they are alone on a root port.
func atomicsWithoutSwitch(plan *placement.Plan) []reasons.Finding {
	gpus := withoutSwitch(plan)
	if len(gpus) == 0 {
		return nil
	}

	rdma := ""
	if outcome := plan.GPUDirect(); outcome.Guest < outcome.Host {
		rdma = fmt.Sprintf(": GPUDirect RDMA is off for %d of %s that use it on the host",
			outcome.Host-outcome.Guest, words.Counted(outcome.Host, "GPU"))
	}

	return one("no switch joins %s with NICs as on the host, since PCIe AtomicOps need a root "+
		"port%s", words.Counted(len(gpus), "whole AMD GPU"), rdma)
}

// withoutSwitch returns the whole AMD GPUs that have a root port of their own in the guest, and a
// switch in common with a NIC of the VM on the host.
func withoutSwitch(plan *placement.Plan) (gpus []placement.Decision) {
	sharesSwitch := func(gpu, nic placement.Decision) bool {
		types := []topology.PathType{topology.PIX, topology.PXB}
		return nic.Function.IsNIC() && slices.Contains(types,
			plan.HostTree.Node(gpu.ID).PathType(plan.HostTree.Node(nic.ID)))
	}

	for _, d := range plan.Devices {
		if d.OwnPort && d.NeedsAtomics() && slices.ContainsFunc(plan.Devices,
			func(other placement.Decision) bool { return sharesSwitch(d, other) }) {
			gpus = append(gpus, d)
		}
	}

	return gpus
}

// xgmiAssumed finds virtual functions of AMD GPUs that count as joined over XGMI although nothing
// says how many virtual functions their GPUs have.
func xgmiAssumed(plan *placement.Plan) []reasons.Finding {
	assumed := topology.CountFunc(plan.Devices, func(d placement.Decision) bool {
		return ncclgraph.IsXGMIAssumed(d.Function)
	})
	if assumed < 2 {
		return nil
	}

	return one("%s of AMD GPUs count as joined over XGMI: sriov_numvfs of their GPUs is not "+
		"recorded, and XGMI joins only those that are a GPU's only one",
		words.Counted(assumed, "virtual function"))
}
