// Package report explains a plan: as JSON (report.go) and as text (headline.go, text.go, asis.go
// for the current domain). device.go, change.go and tree.go serve text and pictures (package
// picture): names of devices, how their path types differ between host and guest, and the two
// trees. Package verdict compares a report with the guest itself.
package report

import (
	"encoding/json"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/plan/mapping"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/peer"
)

// SchemaVersion is the version of Report as JSON. It rises when a field is
// removed or changes its meaning, not when one is added.
const SchemaVersion = 1

// Report is the JSON of explain. An unknown value is null.
type Report struct {
	// 1; it rises when a field is removed or changes its meaning
	SchemaVersion int `json:"schemaVersion"`
	// the layout that is built: keep, numa, root, switch or mirror
	Layout policy.Layout `json:"layout"`
	// why it is that one, as the end of a sentence; null where the policy names it
	LayoutReason *string `json:"layoutReason"`
	// whether the plan changes the domain, also in a dry run
	Changed bool `json:"changed"`
	// whether the domain is returned as it came, even if changed is true
	DryRun  bool                   `json:"dryRun"`
	Error   *string                `json:"error"`   // why the call fails
	Policy  map[policy.Key]Setting `json:"policy"`  // by key
	Devices []DeviceReport         `json:"devices"` // by id, PCI before mdev
	// after the plan, by index; the root bus, index 0, only if the domain names it
	Controllers []Controller `json:"controllers"`
	Paths       Paths        `json:"paths"` // the path types between devices
	// the host's paths from NICs and drives to the GPUs that the guest shows under one switch
	PeerPaths []PeerPath `json:"peerPaths"`
	// what each consumer of the tree decides that decides anything about the devices
	Consumers []consumers.Tally `json:"consumers"`
	// how much of each scarce resource is used
	Budgets  bus.Budgets       `json:"budgets"`
	Warnings []reasons.Finding `json:"warnings"` // by code
	// results of policy keys besides places
	Extras []placement.Extra `json:"extras"`

	// the devices in the order of the guest's kernel; absent if that is the host's
	GuestOrder []topology.DeviceID `json:"guestOrder,omitempty"`

	// how long a start allocates and maps memory, and maps BARs, derived; only with --details
	Mapping *mapping.Estimate `json:"mapping,omitempty"`

	// of the current domain (--as-is) only: the changes that the layout would make
	WouldChange *Prospect `json:"wouldChange,omitempty"`

	Subject Subject   `json:"-"`
	Details []Section `json:"-"` // what text and picture show beyond the short form
	// the outcome in parts of a line; empty if an error came before the plan
	Headline []string `json:"-"`

	peerGroups  []peer.Group    // what PeerPaths has, by cause
	plan        *placement.Plan // nil if an error came before it
	host, guest *topology.Tree
}

// IsCurrent reports whether the report is about the current domain, not a plan.
func (r Report) IsCurrent() bool { return r.WouldChange != nil }

// Setting is the value of a policy key with its origin.
type Setting struct {
	Value  string        `json:"value"`  // as text
	Origin policy.Origin `json:"origin"` // default, flag or annotation
}

// DeviceReport is a passthrough device, where it is and why.
type DeviceReport struct {
	// PCI address on the host, or UUID of a mediated device; unique, unlike an alias
	ID       topology.DeviceID `json:"id"`
	Alias    *string           `json:"alias"`    // in the domain
	Kind     topology.Kind     `json:"kind"`     // pci or mdev
	Resource *string           `json:"resource"` // resource name, if the VMI has it
	Added    bool              `json:"added"`    // whether the plan adds it to the domain
	// NUMA node; of a mediated device that of its parent, as pcieRoot and hostPath
	HostNode *topology.NodeID `json:"hostNode"`
	// host bridge, as in sysfs and in Kubernetes' attribute resource.kubernetes.io/pcieRoot
	PCIeRoot   *topology.PCIeRoot `json:"pcieRoot"`
	HostPath   []topology.Address `json:"hostPath"`   // the bridges above it, root port first
	IOMMUGroup *int               `json:"iommuGroup"` // number of its IOMMU group
	Outcome    placement.Outcome  `json:"outcome"`    // placed, kept or unplaced
	Reason     reasons.Reason     `json:"reason"`     // a reason of reasons.md
	// cell of the expander bus above it; null on the root bus
	GuestCell *topology.CellID `json:"guestCell"`
	// as libvirt numbers it: the bus is a controller's index in hex; null until libvirt gives one
	GuestAddress *topology.Address `json:"guestAddress"`
	// indexes of the controllers above it, expander bus first; empty on the root bus and without
	// an address
	GuestPath []int `json:"guestPath"`
	// address in the guest's kernel; null until it is known
	Predicted *topology.Address `json:"predicted"`

	// name, request and driver of the claim that gave it; absent of a device plugin, and where it
	// was not read
	Claim *string `json:"claim,omitempty"`

	// cells that are the GPU's own memory (Grace), such as 2-9; missing for other devices
	MemoryCells string `json:"memoryCells,omitempty"`

	function *topology.Function // on the host; the parent of a mediated device
	link     *topology.Link     // that the device supports on the host; nil if not known
}

// PeerPath says whether a NIC or a drive reaches a GPU's memory on the host, in a VM.
type PeerPath struct {
	Requester topology.DeviceID `json:"requester"` // the NIC or drive, which reads and writes
	Completer topology.DeviceID `json:"completer"` // the GPU
	// ready, through the root complex, not ready or unknown
	Readiness peer.Readiness `json:"readiness"`
	Cause     peer.Cause     `json:"cause"` // of the table in doctor.md
	// the ports of the host, or the requester, that are the cause; may be empty
	Functions []topology.Address `json:"functions"`
	Remedy    string             `json:"remedy"` // for the administrator; "" for none
}

// Controller is a PCI controller of the domain after the plan.
type Controller struct {
	Index int          `json:"index"` // as in the domain
	Model domain.Model `json:"model"` // as in the domain
	// index of the controller that it is attached to; null until libvirt gives an address, as
	// slot and function
	Parent   *int             `json:"parent"`
	Slot     *int             `json:"slot"`     // in its parent
	Function *int             `json:"function"` // in its slot
	BusNr    *int             `json:"busNr"`    // first bus number of an expander bus
	Cell     *topology.CellID `json:"cell"`     // guest NUMA cell of an expander bus
	Origin   string           `json:"origin"`   // existing in the domain, or planned

	predicted *topology.Address // as the guest's kernel shows it
}

// Paths are the path types between devices.
type Paths struct {
	Devices []topology.DeviceID `json:"devices"` // names rows and columns of the matrices
	Host    PathTypes           `json:"host"`    // a path type per pair; X is the device itself
	Guest   PathTypes           `json:"guest"`   // the same in the guest
}

// PathTypes are the path types between all pairs of a tree's devices, computed on demand: n
// devices have n*n of them, and a call's log has none.
type PathTypes struct {
	tree *topology.Tree
	ids  []topology.DeviceID
}

// Between returns the path type between the devices at two positions.
func (p PathTypes) Between(i, j int) topology.PathType {
	return p.tree.PathType(p.ids[i], p.ids[j])
}

// MarshalJSON returns the matrix, one row per device.
func (p PathTypes) MarshalJSON() ([]byte, error) {
	rows := make([][]topology.PathType, len(p.ids))
	for i := range p.ids {
		for j := range p.ids {
			rows[i] = append(rows[i], p.Between(i, j))
		}
	}

	return json.Marshal(rows)
}

// Prospect is the changes that a layout would make to a domain.
type Prospect struct {
	Layout       policy.Layout `json:"layout"`       // the planned layout
	LayoutReason *string       `json:"layoutReason"` // as in the report
	// whether it changes the domain
	Changed bool    `json:"changed"`
	Error   *string `json:"error"` // why it cannot
	// those that would get another address, or be added
	Devices            []Move `json:"devices"`
	ControllersAdded   int    `json:"controllersAdded"`   // how many
	ControllersRemoved int    `json:"controllersRemoved"` // how many
	// number of devices per reason
	Reasons map[reasons.Reason]int `json:"reasons"`

	planned Report
}

// Move is a device that would be somewhere else.
type Move struct {
	ID        topology.DeviceID `json:"id"`        // as in the report
	Alias     *string           `json:"alias"`     // as in the report
	Added     bool              `json:"added"`     // whether it would be added
	Reason    reasons.Reason    `json:"reason"`    // why it would be there
	GuestCell *topology.CellID  `json:"guestCell"` // cell that it would have
	// address that it would have, as libvirt numbers it
	GuestAddress *topology.Address `json:"guestAddress"`
	// address that it would have in the guest's kernel
	Predicted *topology.Address `json:"predicted"`
	// address that it has there now; null until it is known
	Now *topology.Address `json:"now"`
	// name that systemd would give it; null for other devices than NICs
	Name *string `json:"name"`
	// name that systemd gives it now
	NameNow *string `json:"nameNow"`

	from, to string
}

// Subject is the VM, the host and the program of a report; "" if not known.
type Subject struct {
	VM     string // "VM default/dgx", or "domain dgx" if KubeVirt did not make it
	Host   string // where the host was read: "host.txtar"
	Source string // where the domain comes from: "launcher.log, dump 2 of 2"
	Tool   string // the program with its version
	Doubt  string // why the domain and the VMI do not belong together
}

// NewSubject names the VM of a domain. The VMI may be nil.
func NewSubject(d *domain.Domain, vmi *kubevirt.VMI) Subject {
	var s Subject

	named, isKubeVirts := kubevirt.OfDomain(d.Name)
	switch {
	case isKubeVirts:
		s.VM = "VM " + named.String()
	case d.Name != "":
		s.VM = "domain " + d.Name
	case vmi != nil && vmi.Name != "":
		s.VM = "VM " + vmi.NamespacedName.String()
	}

	if vmi != nil {
		s.Doubt = vmi.Doubt(d.Name, d.UID)
	}

	return s
}
