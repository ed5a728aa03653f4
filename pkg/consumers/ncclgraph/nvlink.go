package ncclgraph

import "hook-sidecar/pkg/topology"

// HasNVLink reports whether a function is a whole GPU that its board joins with others over NVLink;
// false for nil.
func HasNVLink(f *topology.Function) bool {
	return isJoined(f, topology.VendorNVIDIA) && f.PhysFn == nil
}

// HasXGMI reports whether a function is a GPU that its board joins with others over XGMI; false for
// nil. RCCL takes XGMI as NCCL takes NVLink, one link for each neighbour at one hop (ROCm/rccl
// 0cbce2a7, src/graph/xml.cc:781, topo.cc:557). A virtual function is one if its GPU has no other:
// with several, AMD's host driver shares no XGMI (MxGPU-Virtualization, libgv, mi300_xgmi.c). How
// many there are counts as one where that is not recorded; see IsXGMIAssumed.
func HasXGMI(f *topology.Function) bool {
	switch {
	case !isJoined(f, topology.VendorAMDGPU):
		return false
	case f.GPUModel().Virtual:
		return f.VFs == nil || *f.VFs == 1
	}

	return f.PhysFn == nil
}

// IsXGMIAssumed reports whether HasXGMI counts a virtual function although the number of its GPU's
// virtual functions is not recorded; false for nil.
func IsXGMIAssumed(f *topology.Function) bool {
	return isJoined(f, topology.VendorAMDGPU) && f.GPUModel().Virtual && f.VFs == nil
}

// isJoined reports whether a function is a GPU of a vendor for a board that joins its GPUs.
func isJoined(f *topology.Function, vendor uint16) bool {
	return f != nil && f.Vendor == vendor && f.GPUModel().Board.Joins()
}
