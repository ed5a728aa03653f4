// Package peer says if the host's path between two devices of a VM is fit for peer-to-peer DMA:
// GPUDirect RDMA between a NIC and a GPU, GPUDirect Storage, and P2P between GPUs.
//
// In a VM a device sends guest addresses, and only the IOMMU at the root translates them. A switch
// that may route a request directly compares the address with the host's windows, and may deliver
// it to the wrong device. So the ports above both devices have to send requests up (ACS), which is
// the opposite of the advice for bare metal without an IOMMU. Then the path leads through the root
// complex, or straight through a switch that both are under: if the requester asks the IOMMU for
// translations (ATS) and its port lets translated requests through (Direct Translated).
//
// Nothing on the host checks this: VFIO maps a peer's BARs without asking drivers/pci/p2pdma.c
// (vfio_iommu_type1.c, follow_fault_pfn).
package peer

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"hook-sidecar/pkg/topology"
)

// Facts are what decides whether one device, the requester, can read and write the BARs of another,
// the completer.
type Facts struct {
	Mapping  Mapping
	AtHT     bool  // the completer's BARs may be where the IOMMU maps nothing
	Obstacle Cause // why the rule does not know this kind of path, "" if it does

	// The root ports and the ports of switches above the requester alone, above the completer
	// alone, and above both; the nearest to the devices first.
	Own, Peers, Shared []Port
	OneSwitch          bool // the paths part in a switch, not in the root complex

	Requester     topology.Address
	ATS           bool // the requester itself has Address Translation Services
	ATSUnreadable bool
	NoTranslation bool // the IOMMU answers no device that asks for translations
	SameGroup     bool // both are in one IOMMU group
	Root          RootComplex
}

// Port is a root port or the downstream port of a switch.
type Port struct {
	Address    topology.Address
	IsRootPort bool
	IsVera     bool          // a root port of NVIDIA's Vera CPU
	ACS        *topology.ACS // nil: no such capability, unless it is unreadable
	Unreadable bool
}

// has reports whether a port does something by ACS.
func (p Port) has(bit topology.ACSBits) bool { return p.ACS != nil && p.ACS.Control.Has(bit) }

// Mapping says whether VFIO maps a peer's BARs for a device.
type Mapping int

// VFIO's type1 maps all. iommufd maps them as DMA-BUFs, from Linux 6.19 (commits 5d74781ebc86 and
// 71db84a092c3) and QEMU 11.0 (hw/vfio/region.c, vfio_region_create_dma_buf) on.
const (
	Mapped Mapping = iota
	NotMapped
	MappingUnknown
)

// mapsBARs is the first kernel whose iommufd may map BARs.
const mapsBARs = "6.19"

// iommufdMapping returns what is known about iommufd's mappings from the kernel's release. QEMU's
// version is known nowhere before the VM runs.
func iommufdMapping(kernel string) Mapping {
	release, err := version.ParseGeneric(kernel)
	if err == nil && release.LessThan(version.MustParseGeneric(mapsBARs)) {
		return NotMapped
	}
	return MappingUnknown
}

// RootComplex says what is known about requests that have to go from one root port to another, or
// back through the same one. PCI Express leaves it open (5.0, 1.3.1).
type RootComplex int

// Linux has a list of the root complexes that pass them.
const (
	RootUnknown  RootComplex = iota // neither the CPU nor the first function of the root bus is known
	RootUnlisted                    // identified, and not in Linux's list
	RootListed
)

// Guest is what decides about a path beside the host.
type Guest struct {
	UsesIOMMUFD func(topology.DeviceID) bool // how VFIO maps BARs for a device; nil: none does
	HasIOMMU    bool                         // a vIOMMU, which may translate what devices send
	PhysBits    int                          // of its addresses, where the domain says so; else 0
	UEFI        bool                         // its firmware is OVMF, not SeaBIOS
}

// endsAt1TiB reports whether firmware may put BARs at 0xfd00000000 to 1 TiB, which AMD's IOMMU keeps
// for HyperTransport (Linux drivers/iommu/amd/iommu.c, HT_RANGE_START). SeaBIOS, since 1.16.3, puts
// them at the end of the address space; OVMF begins an eighth of it below (edk2
// MdeModulePkg/Bus/Pci/PciHostBridgeDxe/PciHostBridge.c, AllocateResource).
func (g Guest) endsAt1TiB() bool { return g.PhysBits == 40 && !g.UEFI }

// Between returns the facts about two devices of a host, with the details of the devices, the ports
// above them and the first function of their root buses.
func Between(h *topology.Host, requester, completer topology.DeviceID, guest Guest) Facts {
	from, to := h.Function(requester), h.Function(completer)
	tree := h.Tree([]topology.DeviceID{requester, completer})
	own, peers := tree.Node(requester).Path(), tree.Node(completer).Path()
	shared := len(topology.Shared(own, peers))
	f := Facts{Obstacle: obstacle(h, requester, completer, shared, own, peers)}
	if guest.HasIOMMU && f.Obstacle == "" {
		f.Obstacle = CauseGuestIOMMU
	}

	if guest.UsesIOMMUFD != nil && guest.UsesIOMMUFD(requester) {
		f.Mapping = iommufdMapping(h.Kernel)
	}

	f.AtHT = h.CPU.IsAMD() && guest.endsAt1TiB()

	// All nodes and functions are there from here on: what is missing is an obstacle.
	if f.Obstacle != "" {
		return f
	}

	f.Own, f.Peers = ports(h, own[shared:]), ports(h, peers[shared:])
	f.Shared = ports(h, own[:shared])
	f.OneSwitch = shared > 0 && own[shared-1].Kind == topology.UpstreamPort
	f.Requester = from.Address
	f.ATSUnreadable = from.Details == nil || !from.Details.ExtendedConfig
	f.ATS = !f.ATSUnreadable && from.Details.ATS
	f.NoTranslation = h.AnswersATS != nil && !*h.AnswersATS
	f.SameGroup = from.IOMMUGroup != nil && topology.Same(from.IOMMUGroup, to.IOMMUGroup)
	f.Root = rootComplex(h, from.Root, to.Root)
	return f
}

// obstacle returns why the rule does not know a path, "" if it does.
func obstacle(
	h *topology.Host, requester, completer topology.DeviceID, shared int, paths ...[]*topology.Node,
) Cause {
	for i, id := range []topology.DeviceID{requester, completer} {
		path := paths[i]
		switch {
		case id.Kind() != topology.KindPCI:
			return CauseMediatedDevice
		case h.Function(id) == nil || path[0].Kind != topology.Root:
			return CauseNotShown
		case len(path) == 2: // directly on the root bus
			return CauseRootComplexDevice
		}

		for _, n := range path {
			if n.Kind == topology.Bridge {
				return CauseConventionalBridge
			}
		}

		port := h.FunctionAt(path[1].ID.(topology.Address))
		if port != nil && topology.IsGraceRootPort(port.Vendor, port.Device) {
			return CauseGrace
		}
	}

	// Paths that part at a port, and not at a switch or root, lead to two functions of one
	// device.
	if shared > 0 && paths[0][shared-1].Kind.IsPort() {
		return CauseOneDevice
	}

	return ""
}

// ports returns the ports among the nodes of a path, the nearest to the device first.
func ports(h *topology.Host, path []*topology.Node) []Port {
	var found []Port
	for _, n := range slices.Backward(path) {
		if !n.Kind.IsPort() {
			continue
		}

		found = append(found, portAt(h, n.ID.(topology.Address), n.Kind == topology.RootPort))
	}

	return found
}

// PortOf returns a port of a host.
func PortOf(h *topology.Host, port *topology.Function) Port {
	return portAt(h, port.Address, len(port.Bridges) == 0)
}

func portAt(h *topology.Host, a topology.Address, isRootPort bool) Port {
	port := Port{Address: a, IsRootPort: isRootPort, Unreadable: true}
	if f := h.FunctionAt(a); f != nil {
		port.IsVera = topology.IsVeraRootPort(f.Vendor, f.Device)
		if f.Details != nil && f.Details.ExtendedConfig {
			port.ACS, port.Unreadable = f.Details.ACS, false
		}
	}

	return port
}

// listedRoots has the first functions of Intel's root buses whose root complex passes requests
// between its root ports; withinRoot those that do within one root bus (drivers/pci/p2pdma.c of
// Linux 7.2, pci_p2pdma_whitelist).
var (
	listedRoots = []uint16{
		0x2030, 0x2031, 0x2032, 0x2033, 0x2020, 0x09a2, // Skylake to Granite Rapids
		0x0b25, 0x0cfe, 0x11fb, 0x1212, 0x1216, // DSA, IAX
		0x4940, 0x4942, 0x4944, 0x4946, 0x4948, // QAT
	}
	withinRoot = []uint16{0x3c00, 0x3c01, 0x2f00, 0x2f01} // Xeon E5 and E7 up to v3
)

// rootComplex returns what is known about the root complex of two root buses.
func rootComplex(h *topology.Host, a, b topology.PCIeRoot) RootComplex {
	// Requests have to pass at both ends, so what is known least, or is worst, decides.
	return min(rootBus(h, a, a == b), rootBus(h, b, a == b))
}

// rootBus returns what is known about one root bus: as Linux does it by the CPU, else by the first
// function. A function other than 00.0 may come after one that was not read.
func rootBus(h *topology.Host, root topology.PCIeRoot, within bool) RootComplex {
	if h.CPU.Arch == "x86" && h.CPU.IsZen() {
		return RootListed
	}

	first := slices.IndexFunc(h.Functions, func(f topology.Function) bool {
		return f.Root == root && len(f.Bridges) == 0
	})
	if first < 0 {
		return RootUnknown
	}

	f := &h.Functions[first]
	isListed := slices.Contains(listedRoots, f.Device) ||
		within && slices.Contains(withinRoot, f.Device)

	// A listed function tells the root complex wherever it is. That none is listed is certain
	// only of 00.0, since before another one there may be one that was not read.
	switch {
	case f.Vendor == topology.VendorIntel && isListed:
		return RootListed
	case f.Address.Device != 0 || f.Address.Function != 0:
		return RootUnknown

	// Without its model an AMD CPU may be a Zen, which Linux knows by the CPU alone.
	case f.Vendor == topology.VendorAMDCPU && h.CPU.Arch == "":
		return RootUnknown
	}

	return RootUnlisted
}
