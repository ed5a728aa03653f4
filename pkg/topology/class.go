package topology

// IsPaired reports whether NCCL or RCCL looks for the path between a device and
// others: GPUs, network controllers and AMD's accelerators, by the base class of
// the PCI function (NCCL src/graph/topo.cc, kvDictPciClass; RCCL the same with
// class 0x12). It is false for nil.
func (d *Device) IsPaired() bool {
	const network, display, accelerator = 0x02, 0x03, 0x12
	if d == nil {
		return false
	}
	base := d.Class >> 16
	return base == network || base == display || base == accelerator
}
