package ncclgraph

import (
	"slices"

	"hook-sidecar/pkg/topology"
)

// The vendor ids of NVIDIA and AMD.
const (
	nvidia = 0x10de
	amd    = 0x1002
)

// boardGPUs are the device ids of NVIDIA's GPUs for a baseboard that joins them over NVLink: SXM
// modules and the HGX and DGX boards' own (README.md of NVIDIA/open-gpu-kernel-modules,
// "Compatible GPUs"; pci.ids). Cards with an NVLink bridge are missing, since their ids do not
// say whether it is there.
var boardGPUs = []uint16{
	0x15f9,                         // P100 SXM2
	0x1db1, 0x1db5, 0x1db8, 0x1df5, // V100 SXM2, SXM3
	0x20b0, 0x20b2, 0x20b3, // A100 SXM4
	0x20bd, 0x20f3, // A800 SXM4
	0x2324, 0x2329, 0x232c, // H800, H20, H20-3e
	0x2330, 0x2336, 0x2339, // H100 SXM5
	0x2335,         // H200
	0x2901, 0x3182, // B200, B300
}

// HasNVLink reports whether a function is a whole GPU that its board joins with others over NVLink;
// false for nil.
func HasNVLink(f *topology.Function) bool {
	return f != nil && f.Vendor == nvidia && f.PhysFn == nil && slices.Contains(boardGPUs, f.Device)
}

// meshedGPUs are the device ids of AMD's GPUs for a baseboard that joins each with each other over
// XGMI: MI300 and MI350 (ROCm/gpu-operator, gpu-nfd-default-rule.yaml). RCCL takes XGMI as NCCL
// takes NVLink, one link for each neighbour at one hop (ROCm/rccl 0cbce2a7, src/graph/xml.cc:781,
// topo.cc:557). MI200 is missing, since not all of a board's GPUs are neighbours; cards with a
// bridge, as of NVIDIA.
var meshedGPUs = []uint16{
	0x74a0, 0x74a1, 0x74a9, // MI300A, MI300X
	0x74a2, 0x74a8, // MI308X
	0x74a5,         // MI325X
	0x75a0, 0x75a3, // MI350X, MI355X
}

// meshedVFs are the device ids of their virtual functions, of MI300X, MI325X, MI350X and MI355X.
var meshedVFs = []uint16{0x74b5, 0x74bd, 0x74b9, 0x75b0, 0x75b3}

// HasXGMI reports whether a function is a GPU that its board joins with others over XGMI; false for
// nil. A virtual function is one if its GPU has no other: with several, AMD's host driver shares no
// XGMI (MxGPU-Virtualization, libgv, mi300_xgmi.c). How many there are counts as one where that is
// not recorded; see IsXGMIAssumed.
func HasXGMI(f *topology.Function) bool {
	if f == nil || f.Vendor != amd {
		return false
	}
	if isVirtualMeshed(f) {
		return f.VFs == nil || *f.VFs == 1
	}

	return f.PhysFn == nil && slices.Contains(meshedGPUs, f.Device)
}

// IsXGMIAssumed reports whether HasXGMI counts a virtual function although the number of its GPU's
// virtual functions is not recorded; false for nil.
func IsXGMIAssumed(f *topology.Function) bool { return isVirtualMeshed(f) && f.VFs == nil }

func isVirtualMeshed(f *topology.Function) bool {
	return f != nil && f.Vendor == amd && slices.Contains(meshedVFs, f.Device)
}
