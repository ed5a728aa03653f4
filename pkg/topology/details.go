package topology

import (
	"fmt"
	"strconv"
	"strings"

	"hook-sidecar/pkg/words"
)

// Details has the attributes of a PCI function that placement does not need. Each field names its
// file in /sys/bus/pci/devices/<address>/.
type Details struct {
	SubsystemVendor uint16 // subsystem_vendor
	SubsystemDevice uint16 // subsystem_device

	Link *Link // current_link_speed and current_link_width; nil where there is no link

	// ResetMethods are in the kernel's order: "flr", "bus". ResetKnown is false without a file
	// reset_method: the kernel is older than 5.15 or cannot reset the function (drivers/pci/pci.c,
	// pci_dev_reset_method_attr_is_visible).
	ResetMethods []string
	ResetKnown   bool

	// ExtendedConfig is false when config has no extended configuration space: without
	// CAP_SYS_ADMIN the kernel shows 64 bytes (drivers/pci/pci-sysfs.c, pci_read_config). ACS,
	// ATS and AtomicOps are then unknown.
	ExtendedConfig bool
	ACS            *ACS // nil: no such capability
	ATS            bool // has Address Translation Services (PCI Express 5.0, 10.5.1)
	// AtomicOps is nil without Device Capabilities 2, and in a snapshot of before they were kept.
	AtomicOps *AtomicOps
	// BlocksAtomics is AtomicOp Egress Blocking of Device Control 2 (PCI Express 5.0, 7.5.3.16): a port
	// passes none on. It is nil as AtomicOps is, and in a snapshot of before it was kept.
	BlocksAtomics *bool

	MDEVTypes []MDEVType // mdev_supported_types, by ID
	VGPU      *VGPU      // nvidia/; nil for what is not a virtual function of NVIDIA's vendor VFIO
}

// MDEVType is a type of mediated device that a function supports (kernel
// Documentation/ABI/testing/sysfs-bus-vfio-mdev).
type MDEVType struct {
	ID        string // the directory: "nvidia-232"
	Name      string // name: "GRID T4-8Q"
	Max       int    // max_instance in NVIDIA's description, 0 when not known
	Available *int   // available_instances, nil when not known
}

// VGPU is the vGPU on a virtual function where NVIDIA's driver makes it without a
// mediated device (NVIDIA vGPU software user guide, "vendor-specific VFIO framework").
type VGPU struct {
	Type      int        // current_vgpu_type, 0 for no vGPU
	Creatable []VGPUType // creatable_vgpu_types
}

// VGPUType is a line of creatable_vgpu_types: "1428 : NVIDIA H200X-141C".
type VGPUType struct {
	ID   int
	Name string
}

// Link is a PCI Express link's speed in GT/s and its width in lanes.
type Link struct {
	Speed float64
	Width int
}

// ParseLinkSpeed reads the kernel's form, "16.0 GT/s PCIe" (drivers/pci/pci.h, PCIE_SPEED2STR).
// "Unknown" is an error.
func ParseLinkSpeed(s string) (float64, error) {
	number, unit, _ := strings.Cut(s, " ")
	speed, err := strconv.ParseFloat(number, 64)
	isSpeed := speed > 0 && speed <= maxLinkSpeed // NaN is neither
	if err != nil || !isSpeed || !strings.HasPrefix(unit, "GT/s") {
		return 0, fmt.Errorf("invalid link speed %q: want GT/s, such as 16.0 GT/s PCIe",
			words.Abridge(s))
	}

	return speed, nil
}

// maxLinkSpeed is far above any real link: PCI Express 7.0 has 128 GT/s.
const maxLinkSpeed = 4096

// String formats the link as lspci does: "16 GT/s x16"; the zero Link is "unknown".
func (l Link) String() string {
	if l == (Link{}) {
		return "unknown"
	}
	return strconv.FormatFloat(l.Speed, 'f', -1, 64) + " GT/s x" + strconv.Itoa(l.Width)
}

// ACS is the Access Control Services capability of a port (PCI Express 5.0, 7.7.8).
type ACS struct {
	Capable ACSBits // capability register: what the port can control
	Control ACSBits // control register: what it does

	// Partial is true in a snapshot of a release that kept only some of the bits.
	Partial bool
}

// ACSBits are bits of the ACS registers: each controls something in the control register, and says
// in the capability register that the port can (PCI Express 5.0, 7.7.8.2 and 7.7.8.3).
type ACSBits uint16

// The bits, with their names in the specification and in lspci.
const (
	SourceValidation    ACSBits = 1 << iota // V, SrcValid: checks the sender's bus number
	TranslationBlocking                     // B, TransBlk: blocks addresses that ATS translated
	RequestRedirect                         // R, ReqRedir: requests go up to the IOMMU
	CompletionRedirect                      // C, CmpltRedir: answers to reads go up, too
	UpstreamForwarding                      // U, UpstreamFwd: what comes back up is passed on
	EgressControl                           // E, EgressCtrl: a vector names permitted ports
	DirectTranslated                        // T, DirectTrans: what ATS translated goes straight
)

// acsNames has the names of the bits in Linux's and NVIDIA's documents, the lowest bit first.
var acsNames = []string{"SV", "TB", "RR", "CR", "UF", "EC", "DT"}

// Has reports whether all of the bits are in b.
func (b ACSBits) Has(bits ACSBits) bool { return b&bits == bits }

// String lists the bits: "SV RR CR UF".
func (b ACSBits) String() string {
	var names []string
	for i, name := range acsNames {
		if b.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// AtomicOps are the bits of Device Capabilities 2 that are about AtomicOps (PCI Express 5.0,
// 7.5.3.15).
type AtomicOps uint32

// The bits.
const (
	AtomicRouting AtomicOps = 1 << (6 + iota) // a port passes them on
	Atomic32                                  // completes those of 32 bits
	Atomic64                                  // completes those of 64 bits
	Atomic128                                 // completes compare-and-swap of 128 bits
	AllAtomics    = AtomicRouting | Atomic32 | Atomic64 | Atomic128
)

// LinkEnd returns the function at the lower end of the device's link: a virtual function has the
// link of its physical function.
func (d *Function) LinkEnd() Address {
	if d.PhysFn != nil {
		return *d.PhysFn
	}
	return d.Address
}

// PortAbove returns the bridge at the upper end of the device's link; nil in the root complex.
func (d *Function) PortAbove() *Address {
	if n := len(d.Bridges); n > 0 {
		return &d.Bridges[n-1]
	}
	return nil
}

// Hardware returns the function at the lower end of a function's link, or the function itself
// where the host does not show that; nil for nil.
func (h *Host) Hardware(f *Function) *Function {
	if f == nil {
		return nil
	}

	if lower := h.FunctionAt(f.LinkEnd()); lower != nil {
		return lower
	}
	return f
}

// MaxLink returns the fastest link that a function supports, nil where it is unknown.
func (h *Host) MaxLink(f *Function) *Link {
	lower := h.Hardware(f)
	if lower == nil {
		return nil
	}
	return lower.MaxLink
}

// BestLink returns the fastest link that a function and the port above it support, or the one that
// is known; nil where neither is.
func (h *Host) BestLink(f *Function) *Link {
	own := h.MaxLink(f)
	if f == nil || f.PortAbove() == nil {
		return own
	}

	above := h.MaxLink(h.FunctionAt(*f.PortAbove()))
	switch {
	case own == nil:
		return above
	case above == nil:
		return own
	}

	return &Link{Speed: min(own.Speed, above.Speed), Width: min(own.Width, above.Width)}
}

// SlowestLink returns the least speed and the least width of the links on a part of a path; the
// zero Link if none is known. A link belongs to the node at its lower end.
func (h *Host) SlowestLink(path []*Node) Link {
	var slowest Link
	for _, n := range path {
		link := h.BestLink(h.LowerEnd(n))
		switch {
		case link == nil:
		case slowest == Link{}:
			slowest = *link
		default:
			slowest = Link{
				Speed: min(slowest.Speed, link.Speed), Width: min(slowest.Width, link.Width),
			}
		}
	}

	return slowest
}

// LowerEnd returns the function of the host at the lower end of a link, nil for a node that is
// none.
func (h *Host) LowerEnd(n *Node) *Function {
	switch n.Kind {
	case UpstreamPort, Bridge, MDEVParent:
		return h.FunctionAt(n.ID.(Address))
	case Endpoint:
		if id := n.ID.(DeviceID); id.Kind() == KindPCI {
			return h.Function(id)
		}
	}

	return nil
}
