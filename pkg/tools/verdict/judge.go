package verdict

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// decide fills in each GPU with what NCCL decides.
func (v *Verdict) decide() {
	graph := machine(&v.guest, v.gpus, v.nics)
	v.Limited = graph.IsLimited()
	choices := graph.Choices()
	lacks := v.lacksPaths()
	for i, d := range v.gpus {
		gpu := GPU{
			Name: fmt.Sprintf("GPU%d", i), Address: address(d), Node: nodeOf(&v.guest, d),
		}

		gpu.CPUs = v.cpusOf(d)
		v.choose(&gpu, d, choices[i], lacks[i])
		v.GPUs = append(v.GPUs, gpu)
	}
}

// cpusOf returns the CPUs of a GPU's NUMA node, or those near the GPU where the text has no nodes;
// nil where they are not known, and for a GPU on no node.
func (v *Verdict) cpusOf(d *topology.Function) *string {
	node := nodeOf(&v.guest, d)
	for _, n := range v.guest.NUMA {
		if node != nil && int(n.ID) == *node && !n.CPUs.IsEmpty() {
			return new(n.CPUs.String())
		}
	}

	if near := v.guest.CPUs[d.Address]; !v.guest.KnowsNode(d) && !near.IsEmpty() {
		return new(near.String())
	}

	return nil
}

// choose fills in the NIC that NCCL takes for a GPU; lacks says whether a path to one is not in the
// text.
func (v *Verdict) choose(gpu *GPU, d *topology.Function, choice ncclgraph.Choice, lacks bool) {
	// That a GPU which cannot work has no GPUDirect RDMA is certain, so it counts as judged.
	if v.faultOf(d) != (fault{}) {
		v.judged++
		gpu.Direct, gpu.Why = new(false), "it does not work"
		return
	}

	if v.guest.Contradiction != "" {
		gpu.Why = "the texts contradict each other"
		return
	}

	if choice.NIC < 0 {
		gpu.Why = "the guest shows no NIC that NCCL can use"
		return
	}

	// The tree has a place for each device, also where the text lacks a path to it. If the chosen
	// NIC is such a one, the nearest of the others is taken. Over NVLink the path is that of
	// another GPU.
	nic := v.nics[choice.NIC]
	_, isKnown := v.guest.PathType(d.Address, nic.Address)
	if !isKnown && choice.Type != ncclgraph.PXN {
		if nic, choice.Type = v.nearest(d); nic == nil {
			gpu.Why = "the path to its NICs is not in the text"
			if v.isNodeOrSys() {
				gpu.Why = "the path to its NICs is NODE or SYS, and the tree has no NUMA nodes"
			}
			return
		}
	}

	// NCCL goes over NVLink, or over the CPU, only if no NIC is nearer. Where the text may lack
	// NICs or paths that is not known.
	mayHaveOwn := choice.Type == ncclgraph.PXN && v.guest.LacksDevices
	if mayHaveOwn || !choice.IsDirect() && lacks {
		v.unsure++
		gpu.Why = "a nearer NIC may be among those whose path is not in the text"
		return
	}

	if !choice.IsDirect() && v.guest.OverC2C[d.Address] {
		v.viaC2C++
		gpu.Why = "it reaches the CPU over NVLink-C2C, and NCCL may use that"
		return
	}

	v.judged++
	gpu.NIC, gpu.Path = new(v.guest.Label(nic.Address)), new(choice.String())
	gpu.Direct = new(choice.IsDirect())

	switch {
	case choice.IsDirect():
		v.direct++

	// Such a GPU is counted apart from those that lack a switch: another tree would not help it.
	case v.hasBrokenNIC(d):
		v.robbed++
		gpu.Why = "the NIC of its switch does not work"
	case choice.Type == ncclgraph.PHB:
		gpu.Why = "no switch is above both, and NCCL wants one"
	default:
		gpu.Why = "its nearest NIC is on another NUMA node"
	}
}

// lacksPaths reports per GPU whether the path to a NIC is not in the text: from the GPU, or, if it
// is on NVLink, from one over which it might reach the NIC.
func (v *Verdict) lacksPaths() []bool {
	lacks := make([]bool, len(v.gpus))
	isLinkedLacking := false
	for i, gpu := range v.gpus {
		lacks[i] = v.lacksPath(gpu)
		isLinkedLacking = isLinkedLacking || lacks[i] && hasNVLink(&v.guest, gpu)
	}

	// Only now it is known whether any GPU on NVLink lacks a path: then each of them may reach a
	// NIC over that one.
	for i, gpu := range v.gpus {
		lacks[i] = lacks[i] || isLinkedLacking && hasNVLink(&v.guest, gpu)
	}

	return lacks
}

// lacksPath reports whether the path from a GPU to a NIC is not in the text, or the NIC itself.
func (v *Verdict) lacksPath(gpu *topology.Function) bool {
	return v.guest.LacksDevices || slices.ContainsFunc(v.nics, func(nic *topology.Function) bool {
		_, isKnown := v.guest.PathType(gpu.Address, nic.Address)
		return !isKnown
	})
}

// isJoined reports whether NVLink or XGMI joins all GPUs.
func (v *Verdict) isJoined() bool {
	return !slices.ContainsFunc(v.gpus, func(d *topology.Function) bool {
		return !hasNVLink(&v.guest, d) && !hasXGMI(&v.guest, d)
	})
}

// ncclTypes are the path types of NCCL for those of nvidia-smi: NCCL knows no PCIe roots.
var ncclTypes = map[topology.PathType]ncclgraph.Type{
	topology.PIX: ncclgraph.PIX, topology.PXB: ncclgraph.PXB, topology.PHB: ncclgraph.PHB,
	topology.NODE: ncclgraph.PHB, topology.SYS: ncclgraph.SYS,
}

// nearest returns the nearest NIC of those whose path from a GPU is in the text; nil for none.
func (v *Verdict) nearest(
	gpu *topology.Function,
) (nearest *topology.Function, least ncclgraph.Type) {
	for _, nic := range v.nics {
		between, known := v.guest.PathType(gpu.Address, nic.Address)
		if known && (nearest == nil || ncclTypes[between] < least) {
			nearest, least = nic, ncclTypes[between]
		}
	}

	return nearest, least
}

// judge gives the outcome and what it costs.
func (v *Verdict) judge() {
	// If the paths of any GPU to the NICs are known, they decide. Else GPUs are judged alone,
	// unless nothing, or too little, is known of them.
	isUniform, knowsPaths := v.uniform()
	switch {
	case v.guest.Contradiction != "":
		v.Cost = v.guest.Contradiction + ": are both of this boot?"
	case len(v.gpus) == 0:
		v.Cost = "no GPU is in it"
		if len(v.nics) > 0 {
			v.Cost += ": paste " + paste.WhatToPaste + ", too"
		}

		// Without classes nothing is recognised as a GPU: the text lacks them, and the guest may
		// have them.
		if !slices.ContainsFunc(v.guest.Functions, func(d topology.Function) bool {
			return d.Class != 0
		}) {
			v.Cost = "it has no classes, by which GPUs and NICs are recognised"
		}

	case !knowsPaths && !v.knowsNodes() && v.isNodeOrSys():
		v.Cost = "no GPU and NIC share a PCIe root, so NCCL uses no GPUDirect RDMA; whether they are " +
			"on one NUMA node is not in the text: paste lspci -vv, too"
	case !knowsPaths && !v.knowsNodes():
		v.Cost = "it shows neither paths nor NUMA nodes: paste " + paste.WhatToPaste + ", too"
	case v.judged > 0:
		v.judgeNetwork(isUniform)
	case v.unsure > 0:
		v.Cost = "the paths of GPUs to some NICs are not in the text: paste it whole"
	default:
		v.judgeAlone(isUniform, knowsPaths)
	}
}

// nearNICs is the end of a good verdict.
const nearNICs = ", each with a near NIC"

// judgeNetwork judges a guest whose paths between GPUs and NICs are known.
func (v *Verdict) judgeNetwork(isUniform bool) {
	v.Cost = fmt.Sprintf("NCCL uses GPUDirect RDMA on %d of %s", v.direct,
		words.Counted(len(v.gpus), "GPU"))

	// Paths that the text lacks leave two verdicts open: that all is well, if they are those of a
	// GPU, and that all is flat. They cannot make up for a GPU that is seen to lack GPUDirect
	// RDMA.
	lacks := v.Relations[1].Unknown > 0 || v.guest.LacksDevices
	isWellSoFar := v.direct == v.judged && v.judged < len(v.gpus)
	nodes := v.withNode()
	switch {
	case lacks && (isWellSoFar || isUniform):
		v.Cost = fmt.Sprintf("NCCL uses GPUDirect RDMA on %d of the %s whose paths are in the "+
			"text; others are not: paste it whole", v.direct, words.Counted(v.judged, "GPU"))

	case v.direct == 0 && isUniform:
		v.Outcome = Flat
		v.Cost += "; all devices are equally far from each other, so data of each GPU go through " +
			"the CPUs' memory, and which NIC is near which GPU is not known"

	case v.direct == 0:
		v.Outcome = Partly
		v.Cost += ": NUMA nodes or PCIe roots are shown, but no switch has a GPU and a NIC, so " +
			"data go through the CPUs' memory"

	case v.direct == len(v.gpus)-v.broken && v.broken > 0: // judgeFaults names them
		v.Outcome = Partly
	case v.direct < len(v.gpus):
		v.Outcome = Partly
		v.Cost += "; the others' data go through the CPUs' memory"

	// From here on each GPU uses GPUDirect RDMA. What may still be lost is speed, where NCCL
	// believes in slow links, and the nodes of a guest that has several.
	case v.Limited:
		v.Outcome = Partly
		v.Cost = "NCCL believes that a port limits a path: the ports advertise slow links, so it " +
			"takes fewer channels; " + v.Cost

	case v.knowsNodes() && nodes == 0 && len(v.guest.NUMA) > 1:
		v.Outcome = Partly
		v.Cost = "no GPU has a NUMA node, so processes run on any CPU; " + v.Cost

	default:
		v.Outcome = Good
		v.Cost += nearNICs
	}
}

// judgeAlone judges a guest by its GPUs alone.
func (v *Verdict) judgeAlone(isUniform, knowsPaths bool) {
	nodes := v.withNode()
	switch have := "have"; {
	case v.knowsNodes():
		if nodes == 1 || len(v.gpus) == 1 {
			have = "has"
		}
		v.Cost = fmt.Sprintf("%d of %s %s a NUMA node", nodes, words.Counted(len(v.gpus), "GPU"),
			have)

	case v.areApart():
		v.Cost = "GPUs are near different CPUs"
	default:
		v.Cost = "NUMA nodes are not in the text"
	}

	// Equal paths between GPUs are a loss only if data between them take these paths, and not
	// NVLink or XGMI.
	hasFar := knowsPaths && isUniform && len(v.gpus) > 1 && !v.isJoined()
	switch {
	case hasFar:
		v.Outcome = Flat
		v.Cost = "no two GPUs are nearer to each other than the rest, so NCCL takes all transfers " +
			"for transfers through the CPU; " + v.Cost

	case v.knowsNodes() && nodes == 0:
		v.Outcome = Flat
		v.Cost += ", so processes and their memory land on any node"

	case v.knowsNodes() && nodes < len(v.gpus) || v.Limited:
		v.Outcome = Partly
	case v.knowsNodes(), v.areApart():
		v.Outcome = Good
	case knowsPaths:
		v.Outcome = Good
		v.Cost = "some GPUs are nearer to each other than others; " + v.Cost
	}

	v.judgeUnseenNICs()
	if len(v.nics) == 0 && v.Limited {
		v.Cost = "NCCL believes that a port limits the path between GPUs; " + v.Cost
	}
}

// judgeUnseenNICs says which NICs, or paths to them, a verdict by GPUs alone does not know.
func (v *Verdict) judgeUnseenNICs() {
	// A guest has no NICs for sure only if a source that would show them does not. Those of GPUs
	// alone never do.
	showsNICs := slices.ContainsFunc(v.guest.Sources, func(s paste.Source) bool {
		return s != paste.ROCmSMI && s != paste.AMDSMI && s != paste.NVIDIAList
	})

	switch {
	case len(v.nics) == 0 && showsNICs:
	case v.viaC2C > 0:
		v.Outcome = Unknown
		v.Cost = "whether NCCL uses GPUDirect RDMA over NVLink-C2C its log says: lines with " +
			"GDRDMA, with NCCL_DEBUG=INFO; " + v.Cost

	case len(v.nics) == 0:
		v.Cost += "; " + v.guest.SourceNames() + " shows no NICs: paste lspci -vv, too"

	// There are NICs, and no path to any of them is known. GPUs alone do not make a verdict good
	// then.
	case v.Outcome == Good:
		v.Outcome = Unknown
		v.Cost = "paths to NICs are not in the text, which decide about GPUDirect RDMA: paste " +
			"nvidia-smi topo -mp or lspci -vv; " + v.Cost

	default:
		v.Cost += "; paths to NICs are not in the text"
	}
}

// isNodeOrSys reports whether each path from a GPU to a NIC leads over two PCIe roots, and nothing
// tells whether these are on one NUMA node.
func (v *Verdict) isNodeOrSys() bool {
	for _, gpu := range v.gpus {
		for _, nic := range v.nics {
			if !v.guest.IsNodeOrSys(gpu.Address, nic.Address) {
				return false
			}
		}
	}

	return len(v.gpus) > 0 && len(v.nics) > 0
}

// uniform reports whether all pairs of GPUs and NICs are equally far from each other, with the
// CPU between them; known is false if the text has no path. PHB counts as NODE, since NCCL knows
// no PCIe roots. Pairs that are all SYS are not uniform if the NUMA nodes, or the CPUs, of all
// GPUs are known: then they are as far apart as hardware has them.
func (v *Verdict) uniform() (is, known bool) {
	near, node, across := 0, 0, 0
	for _, r := range v.Relations {
		near, node, across = near+r.PIX+r.PXB, node+r.PHB+r.NODE, across+r.SYS
	}

	isApart := across > 0 && (v.withNode() == len(v.GPUs) || v.areApart())
	is = near == 0 && (node == 0) != (across == 0) && !isApart
	return is, near+node+across > 0
}

// areApart reports whether the CPUs near each GPU are known, and not the same ones.
func (v *Verdict) areApart() bool {
	cpus, known := valuesOf(v.GPUs, func(g GPU) *string { return g.CPUs })
	return known && areSeveral(cpus)
}

// knowsNodes reports whether the NUMA node of any GPU is known, which may be none.
func (v *Verdict) knowsNodes() bool { return slices.ContainsFunc(v.gpus, v.guest.KnowsNode) }

// withNode counts the GPUs that have a NUMA node.
func (v *Verdict) withNode() int {
	return topology.CountFunc(v.GPUs, func(g GPU) bool { return g.Node != nil })
}
