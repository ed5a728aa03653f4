package placement

import (
	"cmp"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

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

// Extra is what the guest gets besides places, because a policy key asks for it.
type Extra struct {
	Key  policy.Key
	Text string // what it gets, in one line
}

// Plan says where each device goes, why, and what to change for it.
type Plan struct {
	Policy      policy.Policy
	Choice                   // of the layout
	Devices     []Decision   // by id
	Controllers []Controller // by index
	Budgets     Budgets
	Warnings    []reasons.Warning
	Changes     domain.Changes
	Extras      []Extra

	Host      *topology.Host // what was read of it
	HostTree  *topology.Tree // to the devices of the plan
	GuestTree *topology.Tree // after Changes, with the root ports that libvirt adds for missing indexes

	input  *domain.Domain
	result *domain.Domain // the read model after Changes
}

// Domain is the read model of the domain after Changes.
func (p *Plan) Domain() *domain.Domain { return p.result }

// IDs are the ids of the devices, in their order.
func (p *Plan) IDs() []topology.DeviceID { return idsOf(p.Devices) }

func idsOf(decisions []Decision) []topology.DeviceID {
	ids := make([]topology.DeviceID, len(decisions))
	for i, d := range decisions {
		ids[i] = d.ID
	}
	return ids
}

// Pairs are numbers of pairs of devices.
type Pairs struct {
	All, Known int // in the plan; of which the host shows both devices
	Alike      int // of these, with the host's path type in the guest
}

// Pairs counts the pairs of the plan's devices.
func (p *Plan) Pairs() Pairs {
	var pairs Pairs
	host, guest := p.HostTree.Devices(p.IDs()), p.GuestTree.Devices(p.IDs())
	for i := range p.Devices {
		for j := range i {
			pairs.All++
			if p.Devices[i].Function == nil || p.Devices[j].Function == nil {
				continue
			}
			pairs.Known++
			if host[i].PathType(host[j]) == guest[i].PathType(guest[j]) {
				pairs.Alike++
			}
		}
	}
	return pairs
}

// With is the plan with what policy keys give besides places.
func (p *Plan) With(managed map[domain.Mark]domain.Managed, extras []Extra, warnings []reasons.Warning) *Plan {
	next := *p
	next.Changes.Managed = managed
	next.result = p.input.After(next.Changes)
	next.Extras = slices.Concat(p.Extras, extras)
	next.Warnings = reasons.Sort(slices.Concat(p.Warnings, warnings))
	return &next
}

// New plans. An error means that the input contradicts itself so that nothing
// can be decided; what merely cannot be placed is a Decision.
func New(in Input) (*Plan, error) {
	if err := checkUnique(in.Domain); err != nil {
		return nil, err
	}
	current := currentGuest(in)
	stock := takeInventory(in)
	cells, unread := readCells(in.Domain, in.Host)
	ids := make([]topology.DeviceID, len(stock.devices))
	for i, d := range stock.devices {
		ids[i] = d.ID
	}
	hostTree := in.Host.Tree(ids)
	s := start{
		Input: in, current: current, devices: stock.devices, cells: cells, hostTree: hostTree, hostPlaces: hostTree.Devices(ids),
		base:  domain.Changes{SetMode: withoutMode(in.Domain), AddHostdevs: stock.added},
		ports: portCountOf(in, current, stock.devices),
	}
	placed := place(s)
	plan := finish(in, placed)
	plan.HostTree = hostTree
	plan.Warnings = reasons.Sort(slices.Concat(in.Warnings, stock.warnings, unread, placed.warnings))
	return plan, nil
}

// Diagnosed is the plan after all of its devices' host has been read, with the
// warnings of that reading, and of what the plan leaves to the user.
func (p *Plan) Diagnosed(host *topology.Host, warnings []reasons.Warning) *Plan {
	next := *p
	next.Host, next.Devices = host, slices.Clone(p.Devices)
	for i, d := range next.Devices {
		if now := hostDevice(host, d.ID); now.Function != nil { // else the device is gone by now
			next.Devices[i].Function, next.Devices[i].IOMMUGroup = now.Function, now.IOMMUGroup
		}
	}
	next.Budgets.BARBytes64 = barBytes64(next.Devices)
	next.Warnings = reasons.Sort(slices.Concat(p.Warnings, warnings, concerns(&next)))
	return &next
}

// withoutMode is the positions of the PCI hostdevs without a mode. KubeVirt writes
// none, and its own plugin pipeline and libvirtxml then fail (libvirtxml
// domain.go, DomainHostdev.UnmarshalXML).
func withoutMode(d *domain.Domain) []int {
	var positions []int
	for i, h := range d.Hostdevs {
		if h.ID.Kind() == topology.KindPCI && !h.HasMode {
			positions = append(positions, i)
		}
	}
	return positions
}

// finish reads from the changed domain where each device and controller is.
func finish(in Input, placed placing) *Plan {
	g, result := placed.result, placed.result.source
	seen := predict(g)
	p := &Plan{
		Policy: in.Policy, Choice: placed.Choice, Changes: placed.changes, Host: in.Host, GuestTree: g.tree, input: in.Domain, result: result,
		Budgets: budgetsOf(g, placed),
	}
	p.Controllers = make([]Controller, 0, len(result.Controllers))
	for i, c := range result.Controllers {
		origin := ControllerExisting
		if i >= len(result.Controllers)-len(placed.changes.AddControllers) {
			origin = ControllerPlanned
		}
		controller := Controller{Controller: c, Origin: origin}
		if c.Address != nil && c.Index != 0 && c.Model != domain.ExpanderBus {
			controller.Predicted = seen(*c.Address)
		}
		p.Controllers = append(p.Controllers, controller)
	}
	slices.SortFunc(p.Controllers, func(a, b Controller) int { return cmp.Compare(a.Index, b.Index) })
	made := map[int]bool{}
	for _, c := range p.Controllers {
		made[c.Index] = true
	}
	p.Devices = make([]Decision, 0, len(placed.decisions))
	for _, d := range placed.decisions {
		d.Address = result.Hostdevs[d.position].Address
		if d.Address != nil {
			d.GuestPath = guestPath(g, made, d.Address.Bus)
			d.Predicted = seen(*d.Address)
		}
		d.Cell = cellOf(g.expander(d.Address))
		p.Devices = append(p.Devices, d)
	}
	return p
}

// guestPath is the controllers from the root bus to the one with an index, both
// included but for the root bus itself. It is nil where one of them is not made yet:
// libvirt will.
func guestPath(g guest, made map[int]bool, index int) []int {
	var path []int
	for _, n := range g.node(index).Path() {
		at := int(n.ID.(topology.Index))
		if n == g.rootBus() {
			continue
		}
		if !made[at] {
			return nil
		}
		path = append(path, at)
	}
	return path
}
