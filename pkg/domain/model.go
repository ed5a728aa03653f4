// Package domain has the read model of a libvirt domain, and lossless edits: Parse records where
// every element is in the bytes, and Apply splices changes in at these spans, so that all else
// stays byte for byte. The package knows XML and libvirt, and the marks by
// which it finds what the hook added in an earlier call; it knows no policy.
package domain

import (
	"slices"

	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/pkg/topology"
)

// Domain is the part of a libvirt domain that placement reads. It is read-only.
type Domain struct {
	Name string // name, "" when absent
	UID  string // metadata/kubevirt/uid: of KubeVirt's VMI, "" when absent

	Arch        string // os/type/@arch, "" when absent
	Machine     string // os/type/@machine: "q35", "pc-q35-9.2"
	UEFI        bool   // a pflash loader, a rom with launchSecurity, or firmware='efi'
	MemoryBytes uint64 // memory, 0 when absent

	MaxMemoryBytes uint64 // maxMemory, the limit of memory hotplug; 0 when absent
	MemorySlots    uint64 // maxMemory/@slots

	HardLimitBytes uint64 // memtune/hard_limit, 0 when absent
	HugePages      bool   // memoryBacking has hugepages

	Cells    []Cell
	Memnodes []Memnode
	Pins     []VCPUPin

	Controllers []Controller // type='pci', in document order
	Hostdevs    []Hostdev    // in document order
	Others      []Device     // every other device, in document order

	// of all hostdevs in document order, also of kinds that are not placed
	HostdevAliases []string
	// PCI controllers that iommu/driver/@pciBus, the user's qemu:override or qemu:commandline names
	References []int
	Fragments  []Fragment // each kind in document order
	Args       []string   // qemu:commandline, every arg

	CommandLine CommandLine // what Args have of PCI buses

	VCPUs          int     // vcpu, 0 when absent
	CPUVendor      string  // cpu/vendor: "AMD"; "" when absent
	CPUModel       string  // cpu/model: "EPYC-Milan"; "" when absent
	Sockets        int     // cpu/topology/@sockets, 0 when absent
	IOAPIC         *string // features/ioapic/@driver; nil without an ioapic, or with the hook's
	LaunchSecurity bool
	HyperV         bool    // features/hyperv has a feature that is on: the guest is Windows
	HidesKVM       bool    // features/kvm/hidden is on: the guest sees no hypervisor
	PCIHole64      *uint64 // pcihole64 of the root controller in bytes, nil when absent

	Addressing Addressing

	doc *document
}

// document has the elements that several parts of a Domain are in.
type document struct {
	xml     *xmledit.Document
	devices []*xmledit.Element // every <devices>; libvirt reads them all as one
	written []written          // the fragments
}

// Controller returns the PCI controller with an index, or nil.
func (d *Domain) Controller(index int) *Controller {
	i := slices.IndexFunc(d.Controllers, func(c Controller) bool { return c.Index == index })
	if i < 0 {
		return nil
	}
	return &d.Controllers[i]
}

// Hostdev returns the hostdev of a device, or nil.
func (d *Domain) Hostdev(id topology.DeviceID) *Hostdev {
	i := slices.IndexFunc(d.Hostdevs, func(h Hostdev) bool { return h.ID == id })
	if i < 0 {
		return nil
	}
	return &d.Hostdevs[i]
}

// Cell is a guest NUMA cell, cpu/numa/cell.
type Cell struct {
	ID         topology.CellID // @id, or its position when absent
	CPUs       string          // @cpus as written: a list of vCPUs, may be empty
	Memoryless bool            // @memory is 0
}

// IsBare reports whether a cell has neither memory nor CPUs. The driver of a GPU adds the GPU's
// memory to such cells (KubeVirt pkg/virt-launcher/virtwrap/converter/grace.go).
func (c Cell) IsBare() bool { return c.Memoryless && c.CPUs == "" }

// UsesIOMMUFD reports whether the domain passes a device through with iommufd.
func (d *Domain) UsesIOMMUFD(id topology.DeviceID) bool {
	return slices.ContainsFunc(d.Hostdevs, func(h Hostdev) bool { return h.ID == id && h.IOMMUFD })
}

// CPUCells returns the cells but the bare ones.
func (d *Domain) CPUCells() []Cell { return slices.DeleteFunc(slices.Clone(d.Cells), Cell.IsBare) }

// Memnode binds the memory of a cell to host nodes, numatune/memnode.
type Memnode struct {
	Cell    topology.CellID // @cellid
	Nodeset string          // @nodeset as written: a list of host nodes
}

// VCPUPin binds a vCPU to host CPUs, cputune/vcpupin.
type VCPUPin struct {
	VCPU   int    // @vcpu
	CPUSet string // @cpuset as written: a list of host CPUs
}

// Addressing has the physical address bits of the guest. A value that libvirt would refuse
// counts as absent, because placement does not need it.
type Addressing struct {
	CPUMode   string // cpu/@mode, "" when absent
	PhysBits  int    // cpu/maxphysaddr/@bits, 0 when absent
	HostBits  bool   // cpu/maxphysaddr/@mode is "passthrough"
	LimitBits int    // cpu/maxphysaddr/@limit, 0 when absent
}

// Model is the model of a PCI controller as libvirt spells it.
type Model string

// The models that placement adds or distinguishes (libvirt docs/formatdomain.rst, "Controllers").
const (
	PCIeRoot       Model = "pcie-root"
	ExpanderBus    Model = "pcie-expander-bus"
	RootPort       Model = "pcie-root-port"
	UpstreamPort   Model = "pcie-switch-upstream-port"
	DownstreamPort Model = "pcie-switch-downstream-port"

	PCIeToPCIBridge Model = "pcie-to-pci-bridge"
	DMIToPCIBridge  Model = "dmi-to-pci-bridge"
	PCIBridge       Model = "pci-bridge"
)

// Controller is a PCI controller: existing, or to be added by Apply.
type Controller struct {
	Index      int
	NoIndex    bool // @index is absent; Index is the one that libvirt gives
	Model      Model
	Address    *GuestAddress    // nil: libvirt chooses
	BusNr      *int             // target/@busNr, expander buses only
	Cell       *topology.CellID // target/node, expander buses only
	HotplugOff bool             // target/@hotplug is "off"
	Chassis    *int             // target/@chassis, ports only; nil: libvirt takes the index
	Alias      string           // alias/@name, "" when absent

	AddressType string // address/@type; "pci" without numbers: libvirt chooses

	at *xmledit.Element // nil for one that is added
}

// GuestAddress is a PCI address as libvirt numbers it: Bus is the index of the controller that
// the device is plugged into, not a bus number of the guest. The PCI domain is always 0.
type GuestAddress struct {
	Bus           int
	Slot          int
	Function      int
	Multifunction bool // @multifunction is "on"
}

// Hostdev is a PCI or mediated device that the domain passes through: existing, or to be added
// by Apply. Other kinds of hostdev (usb, scsi, …) are in Domain.Others.
type Hostdev struct {
	ID         topology.DeviceID
	Alias      string        // alias/@name, "" when absent
	HasMode    bool          // @mode is present
	Address    *GuestAddress // nil: libvirt chooses
	Unassigned bool          // address/@type is "unassigned": hidden from the guest on purpose
	Display    bool          // @display is "on"
	RamFB      bool          // @ramfb is "on"
	Nodeset    string        // acpi/@nodeset as written: a list of cells
	IOMMUFD    bool          // driver/@iommufd, else iommufd/@enabled of the domain, is "yes"

	at *xmledit.Element // nil for one that is added
}

// MemoryCells returns the list of the cells that a device names for its own memory, "" for none, or
// where one has memory or CPUs.
func (d *Domain) MemoryCells(h Hostdev) string {
	cells, _ := topology.ParseIDs(h.Nodeset)
	if slices.ContainsFunc(d.Cells, func(c Cell) bool {
		return !c.IsBare() && cells.Contains(int(c.ID))
	}) {
		return ""
	}

	return cells.String()
}

// Device is any other device of the domain. A field is "" or nil where the device does not have
// it.
type Device struct {
	Element    string // the element's name: "interface", "disk", "controller"
	Type       string // @type
	Model      string // @model, or model/@type
	Primary    bool   // model/@primary is "yes"
	Mode       string // @mode
	Index      string // @index
	Bus        string // @bus, or target/@bus
	TargetDev  string // target/@dev
	TargetType string // target/@type
	DriverType string // driver/@type
	Alias      string // alias/@name
	Hostdevs   int    // of a hostdev: how many of Domain.Hostdevs are before it

	AddressType       string // address/@type
	AddressController *int   // address/@controller, 0 where an address has no such number
	// of an address of type "pci" or without a type; nil: libvirt chooses
	Address *GuestAddress

	at *xmledit.Element // nil for one that libvirt adds
}

// Entry is the element of a controller, a hostdev or another device in the domain. It can be
// compared. The zero Entry is of what is not in the domain yet.
type Entry struct{ at *xmledit.Element }

// Entry returns the element of the controller.
func (c Controller) Entry() Entry { return Entry{c.at} }

// Entry returns the element of the hostdev.
func (h Hostdev) Entry() Entry { return Entry{h.at} }

// Entry returns the element of the device.
func (d Device) Entry() Entry { return Entry{d.at} }

// Changes are edits to a domain in which no device and no controller's index appears twice.
type Changes struct {
	// SetMode lists hostdevs that get mode='subsystem'.
	SetMode []topology.DeviceID
	// Place has the new address of hostdevs; nil: libvirt chooses one.
	Place map[topology.DeviceID]*GuestAddress
	// AddHostdevs are added after the existing hostdevs, in this order.
	AddHostdevs []Hostdev
	// HotplugOff lists the indexes of ports that get target/@hotplug "off".
	HotplugOff []int
	// Chassis has a chassis other than the index, by the index of a port.
	Chassis map[int]int
	// Complete has the address and bus number that elements get where they have none.
	Complete map[Entry]Completion
	// RemoveControllers lists the indexes of controllers.
	RemoveControllers []int
	// AddControllers are added after the existing PCI controllers, in this order. Their indexes may be
	// those of controllers that are removed.
	AddControllers []Controller
	// RenameSSIDSizes gives IOMMU.SSIDSize the name that libvirt knows.
	RenameSSIDSizes bool
	// Marked maps marks to the fragments that bear them after the change.
	Marked map[Mark]Marked
}

// Completion has the address and the bus number to write into an element; nil for one that it has,
// or does not take.
type Completion struct {
	Address *GuestAddress
	BusNr   *int // of an expander bus
}

// IsZero reports whether nothing is changed.
func (c Changes) IsZero() bool {
	return len(c.SetMode)+len(c.Place)+len(c.AddHostdevs)+len(c.HotplugOff)+len(c.Chassis)+
		len(c.Complete)+len(c.RemoveControllers)+len(c.AddControllers)+len(c.Marked) == 0 &&
		!c.RenameSSIDSizes
}

// Fragment is a part outside the PCI tree that a hook may write for a policy key. The domain may
// have its own. Each kind is a type that can be compared, in a file of its own.
type Fragment interface {
	// Mark returns the mark of a fragment that a hook wrote, "" for the user's own.
	Mark() Mark
	// replace writes the fragment in the place of one at these elements.
	replace(e *editor, at []*xmledit.Element)
}

// Mark marks the fragments of a policy key: the id of an Option, the name of a FirmwareEntry,
// the alias of an IOMMU, a property of a Clique or PortOverride. Without a mark a fragment is the
// user's.
type Mark string

// Marked lists the fragments that a domain has to have with a mark.
type Marked struct {
	Fragments []Fragment // all that bear the mark; none removes them
	Instead   []Fragment // unmarked ones that they replace
}

// written is a fragment with its elements in the document.
type written struct {
	Fragment
	at []*xmledit.Element
}

// editor collects the edits of one call of Apply.
type editor struct {
	domain  *Domain
	xml     *xmledit.Document
	changes Changes
	edits   []xmledit.Edit

	gone  map[*xmledit.Element]bool // of fragments
	added []Fragment                // those with no place yet

	// Elements for parents that several parts of the domain share: the end of <devices>, and
	// the elements of qemuParents.
	devices []string
	qemu    map[string][]string
}
