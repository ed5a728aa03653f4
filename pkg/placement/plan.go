package placement

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Input is everything that a plan depends on.
type Input struct {
	Domain    *domain.Domain
	Host      *topology.Host
	Variables []env.Variable
	VMI       *env.VMI // nil when there is none
	Policy    policy.Policy
}

// Outcome says what became of a device.
type Outcome string

// The outcomes.
const (
	Placed   Outcome = "placed"   // its place is planned
	Kept     Outcome = "kept"     // it stays on purpose
	Unplaced Outcome = "unplaced" // it should have a place and has none
)

// Decision is what was decided for one device.
type Decision struct {
	ID       topology.DeviceID
	Alias    string // "" when the domain gives none
	Resource string // "" when not known
	Added    bool

	HostNode   topology.Affinity
	PCIeRoot   topology.PCIeRoot  // "" when not known
	HostPath   []topology.Address // bridges above it, root port first
	IOMMUGroup *int
	Function   *topology.Device // the host's function that it is, or that its parent is; nil when not known

	Outcome   Outcome
	Reason    reasons.Reason
	Cell      *topology.CellID     // of the expander bus that it stands below; nil without one
	Address   *domain.GuestAddress // nil until libvirt gives one
	GuestPath []int                // controller indexes, expander first; nil without an address
	Predicted *topology.Address    // what the guest's kernel shows; nil when not known
}

// Origin of a controller in the plan.
const (
	ControllerExisting = "existing"
	ControllerPlanned  = "planned"
)

// Controller is a PCI controller of the domain after the plan.
type Controller struct {
	domain.Controller
	Origin    string            // ControllerExisting or ControllerPlanned
	Predicted *topology.Address // of a bridge: what the guest's kernel shows; nil when not known
}

// Plan says where each device stands, why, and what to change for it.
type Plan struct {
	Policy      policy.Policy
	Devices     []Decision   // by id
	Controllers []Controller // by index
	Paths       Paths
	Budgets     Budgets
	Warnings    []reasons.Warning
	Changes     domain.Changes
	Host        *topology.Host // what was read of the host

	want *domain.Domain // the read model after Changes
}

// Paths are the path types between the devices of the plan, in their order.
type Paths struct {
	Host  [][]topology.PathType
	Guest [][]topology.PathType
}

// Domain is the read model of the domain after Changes.
func (p *Plan) Domain() *domain.Domain { return p.want }

// SetFirmwareEntry adds an entry of fw_cfg to Changes, unless the domain has it
// already with this very text.
func (p *Plan) SetFirmwareEntry(entry domain.FirmwareEntry) {
	if !slices.Contains(p.want.FirmwareEntries, entry) {
		p.Changes.SetFirmwareEntry = &entry
	}
}

// New plans. An error means that the input contradicts itself so that nothing
// can be decided; what merely cannot be placed is a Decision.
func New(in Input) (*Plan, error) {
	b := &builder{Input: in, tree: newTree(in.Domain)}
	if err := b.collect(); err != nil {
		return nil, err
	}
	b.spare = b.hotplugPorts()
	b.decide()
	if b.Policy.Layout != policy.LayoutKeep {
		b.place()
	}
	return b.plan(), nil
}

// builder carries a plan while it is made.
type builder struct {
	Input
	tree     *tree     // of the domain as it came
	devices  []*device // by id
	spare    int       // root ports to keep free for hotplug, as far as they fit
	changes  domain.Changes
	warnings []reasons.Warning
}

// device is one passthrough device while it is planned.
type device struct {
	Decision
	hostdev int  // position in Domain.Hostdevs, or -1 when added
	movable bool // no rule keeps it where it is
}

func (b *builder) warn(code reasons.Code, device *topology.DeviceID, text string) {
	b.warnings = append(b.warnings, reasons.NewWarning(code, device, text))
}

// plan puts together what was decided.
func (b *builder) plan() *Plan {
	want := after(b.Domain, b.changes)
	tree := newTree(want)
	p := &Plan{Policy: b.Policy, Changes: b.changes, Host: b.Host, want: want}
	existing := len(b.Domain.Controllers) - len(b.changes.RemoveControllers)
	for i, c := range want.Controllers {
		origin := ControllerExisting
		if i >= existing {
			origin = ControllerPlanned
		}
		p.Controllers = append(p.Controllers, Controller{Controller: c, Origin: origin})
	}
	slices.SortFunc(p.Controllers, func(a, b Controller) int { return cmp.Compare(a.Index, b.Index) })
	seen := predict(tree)
	for i, c := range p.Controllers {
		if c.Address != nil && c.Index != 0 && c.Model != domain.ExpanderBus {
			p.Controllers[i].Predicted = seen(*c.Address)
		}
	}
	for i, d := range b.devices {
		hostdev := want.Hostdevs[b.position(i)]
		d.Address = hostdev.Address
		if d.Address != nil {
			d.GuestPath = tree.path(d.Address.Bus)
			d.Predicted = seen(*d.Address)
		}
		d.Cell = tree.cellAbove(d.Address)
		p.Devices = append(p.Devices, d.Decision)
	}
	p.Paths = b.paths(tree)
	p.Budgets = b.budgets(newTree(filled(want)))
	b.concerns(tree)
	p.Warnings = reasons.Sort(b.warnings)
	return p
}

// position is where device i stands among the hostdevs after the changes.
func (b *builder) position(i int) int {
	d := b.devices[i]
	if d.hostdev >= 0 {
		return d.hostdev
	}
	at := slices.IndexFunc(b.changes.AddHostdevs, func(h domain.Hostdev) bool { return h.ID == d.ID })
	return len(b.Domain.Hostdevs) + at
}
