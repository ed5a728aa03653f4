package topology

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
)

// PCIeRoot is the sysfs name of a host bridge, "pci0000:17", and the value of the Kubernetes
// attribute resource.kubernetes.io/pcieRoot.
type PCIeRoot string

// String returns the name.
func (r PCIeRoot) String() string { return string(r) }

// Function is a PCI function of the host. Each field names its file in
// /sys/bus/pci/devices/<address>/.
type Function struct {
	Address    Address
	Class      uint32    // class: 0x030200 is a 3D controller
	Vendor     uint16    // vendor
	Device     uint16    // device
	Node       Affinity  // numa_node
	Root       PCIeRoot  // the nearest pci<domain>:<bus> of the link's path
	Bridges    []Address // the bridges above it in the link's path, root port first
	PhysFn     *Address  // physfn: the physical function of a virtual function
	VFs        *int      // sriov_numvfs of an AMD GPU's PhysFn; nil when not recorded
	IOMMUGroup *int      // iommu_group
	Driver     string    // driver, "" when unbound
	BARs       []BAR     // resource: the BARs in use; nil when the file is absent
	IsBridge   bool      // class 0x0604, PCI-to-PCI; an NVSwitch (0x0680) is not a bridge

	Conventional bool // conventional PCI: config has 256 bytes

	MaxLink *Link // max_link_speed and max_link_width; nil where there is no link, or unless read
	// MutesLink is true for a virtual function whose max_link_speed is "Unknown", so that only the
	// port above it has a speed; false unless read.
	MutesLink bool
	Details   *Details // nil unless host.Read has read them
}

// BAR is a base address register in use.
type BAR struct {
	Bytes uint64
	IO    bool // flag 0x100, IORESOURCE_IO (kernel include/linux/ioport.h)
	Is64  bool // flag 0x100000, IORESOURCE_MEM_64

	Unassigned bool // neither the firmware nor the kernel gave it an address
}

// MDEV is a mediated device of the host.
type MDEV struct {
	UUID UUID
	// the PCI function above it in the link's path; nil under /sys/devices/virtual
	Parent     *Address
	Type       string // mdev_type: "nvidia-222"
	IOMMUGroup *int   // iommu_group
}

// Host is the part of the host that was read. Each list is sorted by ID.
type Host struct {
	Nodes     []NUMANode
	Functions []Function
	MDEVs     []MDEV

	Packages int // CPU packages with a CPU online; 0 unless details were read
	CPU      CPU // the zero CPU unless classes were read
	// Kernel is the release of the kernel, "6.1.0-50-amd64"; "" if unknown, or unless details were
	// read.
	Kernel string
	// Arguments are the kernel's that decide about ACS, ATS and the IOMMU: "pci=noats"; nil for none,
	// if unknown, or unless details were read.
	Arguments []string
	// AnswersATS says whether the IOMMUs answer devices that ask for translations (ATS); nil if
	// unknown, or unless details were read.
	AnswersATS *bool
}

// CPU is the model of a host's CPUs, as devices/system/cpu/modalias of sysfs has it.
type CPU struct {
	Arch string // "x86", "aarch64"; "" if unknown
	// Vendor and Family of x86 are in Linux's numbers (arch/x86/include/asm/processor.h): AMD is 2.
	Vendor, Family uint16
	IsGrace        bool // NVIDIA's Grace
}

// CPUVendorAMD is AMD in Linux's numbers of x86 vendors (arch/x86/include/asm/processor.h,
// X86_VENDOR_AMD).
const CPUVendorAMD = 2

// IsKnown reports whether anything is known of the CPUs' maker.
func (c CPU) IsKnown() bool { return c != CPU{} }

// IsAMD reports whether CPUs are AMD's.
func (c CPU) IsAMD() bool { return c.Vendor == CPUVendorAMD }

// IsZen reports whether CPUs are AMD's from Zen on (drivers/pci/p2pdma.c, cpu_supports_p2pdma), as
// those of an unknown family count.
func (c CPU) IsZen() bool { return c.IsAMD() && (c.Family == 0 || c.Family >= 0x17) }

// CPUOfRootPort returns what the ids of a root port tell of the CPUs: AMD's and Grace have their own.
func CPUOfRootPort(vendor, device uint16) (cpu CPU) {
	if vendor == VendorAMDCPU {
		cpu.Vendor = CPUVendorAMD
	}

	cpu.IsGrace = IsGraceRootPort(vendor, device)
	return cpu
}

// FunctionAt returns the PCI function at a, or nil when the host has none.
func (h *Host) FunctionAt(a Address) *Function {
	// Verdicts on guests ask this twice per pair, so no function is copied.
	i, found := sort.Find(len(h.Functions), func(i int) int {
		return a.Compare(h.Functions[i].Address)
	})
	if !found {
		return nil
	}
	return &h.Functions[i]
}

// MDEV returns the mediated device u, or nil when the host does not have it.
func (h *Host) MDEV(u UUID) *MDEV {
	i, found := slices.BinarySearchFunc(h.MDEVs, u, func(m MDEV, u UUID) int {
		return cmp.Compare(m.UUID, u)
	})
	if !found {
		return nil
	}
	return &h.MDEVs[i]
}

// Function returns the PCI function of a device, of a mediated device its parent; nil when the
// host does not show the device, or when the parent is not a PCI device.
func (h *Host) Function(id DeviceID) *Function {
	if a, ok := id.PCI(); ok {
		return h.FunctionAt(a)
	}

	uuid, _ := id.MDEV()
	m := h.MDEV(uuid)
	if m == nil || m.Parent == nil {
		return nil
	}

	return h.FunctionAt(*m.Parent)
}

// Affinity returns the NUMA node of a device. On a host with a single node every PCI device
// belongs to it, even with numa_node -1: such firmware often leaves _PXM out (ACPI 6.5, 6.2.15).
func (h *Host) Affinity(id DeviceID) Affinity {
	f := h.Function(id)
	if f == nil {
		return Affinity{}
	}
	if len(h.Nodes) == 1 {
		return OnNode(h.Nodes[0].ID)
	}

	return f.Node
}

// NodeID is a NUMA node of the host.
type NodeID int

// CellID is a NUMA cell of the guest: a type of its own, because a host node is not a guest cell.
type CellID int

// Affinity is the host NUMA node of a device, or none. The kernel writes -1 for none, which must
// not become node 0.
type Affinity struct {
	node  NodeID
	known bool
}

// OnNode returns the affinity to node n. The zero Affinity is no affinity.
func OnNode(n NodeID) Affinity { return Affinity{node: n, known: true} }

// Node returns the node, or false when there is no affinity.
func (a Affinity) Node() (NodeID, bool) { return a.node, a.known }

// String returns the node's number, or "none".
func (a Affinity) String() string {
	if !a.known {
		return "none"
	}
	return strconv.Itoa(int(a.node))
}

// NUMANode is one online NUMA node of the host.
type NUMANode struct {
	ID   NodeID
	CPUs IDs // devices/system/node/node<ID>/cpulist
}

// Tree returns the part of the host's PCI Express tree that leads to devices, each with its NUMA
// node. A device whose place the host does not show is at the top, without a root.
func (h *Host) Tree(ids []DeviceID) *Tree { return h.treeOn(ids, h.Affinity) }

// AsShown returns the tree of these devices as programs find it in sysfs, where a device of a host
// with one node may be on none (Affinity). It is the tree of Tree unless there is such a device.
func (h *Host) AsShown(tree *Tree, ids []DeviceID) *Tree {
	shown := func(id DeviceID) Affinity {
		if f := h.Function(id); f != nil {
			return f.Node
		}
		return Affinity{}
	}

	if !slices.ContainsFunc(ids, func(id DeviceID) bool { return shown(id) != h.Affinity(id) }) {
		return tree
	}

	return h.treeOn(ids, shown)
}

func (h *Host) treeOn(ids []DeviceID, node func(DeviceID) Affinity) *Tree {
	t := NewTree(len(ids), 2*len(ids))
	for _, id := range ids {
		t.addDevice(h, id, node(id))
	}
	return t
}

func (t *Tree) addDevice(h *Host, id DeviceID, on Affinity) {
	device := Node{Kind: Endpoint, ID: id, Slot: NoSlot}
	if node, known := on.Node(); known {
		device.NUMA = new(int(node))
	}

	f := h.Function(id)
	if f == nil || f.Root == "" {
		t.Add(nil, device)
		return
	}

	at := t.Add(nil, Node{Kind: Root, ID: f.Root})
	for i, bridge := range f.Bridges {
		at = t.Add(at, Node{
			Kind:     bridgeKind(i, len(f.Bridges)),
			ID:       bridge,
			Slot:     hostSlot(bridge),
			Function: int(bridge.Function),
		})
		if at.Kind == Bridge && i+1 < len(f.Bridges) {
			at.Kind = UpstreamPort // another device is directly under it
		}
	}

	slot, function := hostSlot(f.Address), int(f.Address.Function)
	if _, isMDEV := id.MDEV(); isMDEV {
		at = t.Add(at, Node{Kind: MDEVParent, ID: f.Address, Slot: slot, Function: function})
	} else {
		device.Slot, device.Function = slot, function
	}

	t.Add(at, device)
}

// hostSlot returns the Slot of a function of the host: its address without the function number.
// Virtual functions may be on another bus number than that of the port above them.
func hostSlot(a Address) int { return int(a.Domain)<<13 | int(a.Bus)<<5 | int(a.Device) }

// bridgeKind returns the kind of bridge i of the n bridges above a device, the root port first.
// Under it a switch is a pair of upstream and downstream port (PCI Express 5.0, 1.3.3). sysfs does
// not say which is which.
func bridgeKind(i, n int) NodeKind {
	switch {
	case i == 0:
		return RootPort
	case i%2 == 0:
		return DownstreamPort
	case i+1 < n:
		return UpstreamPort
	}

	return Bridge
}
