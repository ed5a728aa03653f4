package topology

// What PCI ids name stands here and, for models of GPUs, in boards.go. The names are those of
// pci.ids, where no other source is given.

// The vendors. AMD has two ids: that of ATI for GPUs, and its own for CPUs and chipsets.
const (
	VendorAMDGPU   = 0x1002
	VendorCirrus   = 0x1013
	VendorAMDCPU   = 0x1022
	VendorMatrox   = 0x102b
	VendorTexas    = 0x104c // whose switch QEMU emulates
	VendorNVIDIA   = 0x10de
	VendorRealtek  = 0x10ec
	VendorQEMU     = 0x1234 // QEMU's VGA, docs/specs/standard-vga.rst
	VendorHyperV   = 0x1414 // Microsoft
	VendorBroadcom = 0x14e4
	VendorMellanox = 0x15b3
	VendorVMware   = 0x15ad
	VendorASPEED   = 0x1a03 // displays of management controllers
	VendorVirtio   = 0x1af4 // Red Hat
	VendorRedHat   = 0x1b36 // QEMU's own devices, docs/specs/pci-ids.rst
	VendorAmazon   = 0x1d0f
	VendorHabana   = 0x1da3
	VendorIntel    = 0x8086
)

// Devices that are told by their ids. Lists of Linux (peer) and of models of GPUs (boards.go) are
// where they are used.
const (
	DeviceE1000          = 0x100e // Intel, as QEMU emulates it
	DeviceE1000E         = 0x10d3
	DeviceRTL8139        = 0x8139 // Realtek
	DeviceXIO3130Up      = 0x8232 // Texas Instruments; hw/pci-bridge/xio3130_upstream.c of QEMU
	DeviceXIO3130Down    = 0x8233
	DeviceENA            = 0xec20 // Amazon, does Ethernet alone
	DeviceConnectX7      = 0x1021 // Mellanox
	DeviceH100SXM        = 0x2330 // NVIDIA
	DeviceH100PCIe       = 0x2331
	DeviceMI300X         = 0x74a1 // AMD
	DeviceNVSwitchA100   = 0x1af1
	DeviceNVSwitchHopper = 0x22a3 // H100, H200, H800, H20
)

// The class codes that count, with programming interface (include/linux/pci_ids.h).
const (
	ClassNVMe        = 0x010802
	ClassEthernet    = 0x020000
	ClassInfiniBand  = 0x020700
	ClassVGA         = 0x030000
	Class3D          = 0x030200
	ClassBridge      = 0x060400 // PCI_CLASS_BRIDGE_PCI_NORMAL, also a port of PCI Express
	ClassOtherBridge = 0x068000 // an NVSwitch
	ClassAccelerator = 0x120000
)

// IsBridgeClass reports whether a class is that of PCI-to-PCI bridges, with any programming
// interface.
func IsBridgeClass(class uint32) bool { return class>>8 == ClassBridge>>8 }

// IsEFA reports whether a device of Amazon's is an Elastic Fabric Adapter, which has RDMA.
func IsEFA(device uint16) bool { return device >= 0xefa0 && device <= 0xefa3 }

// IsGraceRootPort reports whether a function with these ids is a root port of Grace (rdma-core,
// rdma_topo: grace_rp).
func IsGraceRootPort(vendor, device uint16) bool {
	return vendor == VendorNVIDIA && (device == 0x22b1 || device == 0x22b2)
}

// IsVeraRootPort reports whether a function with these ids is a root port of NVIDIA's Vera
// (rdma-core, rdma_topo: vera_rp).
func IsVeraRootPort(vendor, device uint16) bool {
	return vendor == VendorNVIDIA && (device == 0x2f95 || device == 0x2f96)
}
