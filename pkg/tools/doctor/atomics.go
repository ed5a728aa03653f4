package doctor

import (
	"slices"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/peer"
	"hook-sidecar/pkg/words"
)

// neededAtomics are the AtomicOps that AMD's driver asks for
// (drivers/gpu/drm/amd/amdgpu/amdgpu_device.c).
const neededAtomics = topology.Atomic32 | topology.Atomic64

// atomicsPath checks whether the host's paths from whole AMD GPUs to their root ports have PCIe
// AtomicOps. VFIO offers them to QEMU only if the GPU itself has them, and by the rule of Linux:
// the root port completes them, each port of a switch on the way routes them, and no upstream port
// blocks them (drivers/vfio/pci/vfio_pci_core.c, vfio_pci_info_atomic_cap; drivers/pci/pci.c,
// pci_enable_atomic_ops_to_root).
func atomicsPath(in Inputs) []Result {
	var found []Result
	var unknown, passed []topology.Address
	ids := topology.Map(in.functions(), func(f *topology.Function) topology.DeviceID {
		return topology.PCIDevice(f.Address)
	})
	tree := in.Host.Tree(ids)
	for _, gpu := range in.functions() {
		if !gpu.NeedsAtomics() {
			continue
		}

		at, why, isKnown := in.atomicsEnd(gpu, tree.Node(topology.PCIDevice(gpu.Address)))
		switch {
		case why != "":
			found = append(found, about(topology.PCIDevice(gpu.Address), warn(
				"look for PCIe AtomicOps in the node's firmware, or use a slot whose ports pass them "+
					"on; lspci -vv of root shows AtomicOpsCap and AtomicOpsCtl of each port",
				"%s gets no PCIe AtomicOps in any guest, since %s %s", gpu.Address, at, why))...)

		case !isKnown:
			unknown = append(unknown, gpu.Address)
		default:
			passed = append(passed, gpu.Address)
		}
	}

	if len(unknown) > 0 {
		found = append(found, note(peer.AsRoot, "whether the host's path has PCIe AtomicOps is not "+
			"known of %s", list(unknown))...)
	}

	if len(passed) == 0 {
		return found
	}

	return orPass(found, "the host's paths of %s have PCIe AtomicOps",
		words.Counted(len(passed), "whole AMD GPU"))
}

// atomicsEnd returns the function on a GPU's path at which AtomicOps end, and why; "" for none, or
// where isKnown is false.
func (in Inputs) atomicsEnd(
	gpu *topology.Function, node *topology.Node,
) (at topology.Address, why string, isKnown bool) {
	isKnown = true
	hasRootPort := false
	for _, n := range slices.Backward(node.Path()) {
		var f *topology.Function
		switch n.Kind {
		case topology.Root:
			continue
		case topology.Endpoint:
			f = gpu
		default:
			f = in.Host.FunctionAt(n.ID.(topology.Address))
		}

		// Another function may end them all the same, so the rest of the path is looked at.
		if f == nil || f.Details == nil || f.Details.AtomicOps == nil {
			isKnown = false
			continue
		}

		has, blocks := *f.Details.AtomicOps, f.Details.BlocksAtomics
		hasRootPort = hasRootPort || n.Kind == topology.RootPort
		isSwitch := n.Kind == topology.UpstreamPort || n.Kind == topology.DownstreamPort
		switch {
		case n.Kind == topology.Endpoint && has&neededAtomics != neededAtomics:
			return f.Address, "itself lacks them", true
		case n.Kind == topology.RootPort && has&neededAtomics != neededAtomics:
			return f.Address, "is a root port that does not complete them", true
		case isSwitch && has&topology.AtomicRouting == 0:
			return f.Address, "is a port of a switch that does not route them", true
		case n.Kind == topology.UpstreamPort && blocks == nil:
			isKnown = false
		case n.Kind == topology.UpstreamPort && *blocks:
			return f.Address, "is a port of a switch that blocks them (EgressBlck)", true
		}
	}

	return at, "", isKnown && hasRootPort
}
