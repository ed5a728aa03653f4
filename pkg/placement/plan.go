package placement

import (
	"cmp"
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
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
	Predicted *topology.Address // of a bridge: its address in the guest's kernel; nil when unknown
}

// Extra is a line about a policy key that gives the guest more than places.
type Extra struct {
	Key  policy.Key `json:"key"`  // the policy key
	Text string     `json:"text"` // the result, with the numbers
}

// Plan has the place of each device, the reason for it, and the changes that lead there.
type Plan struct {
	Policy      policy.Policy
	Choice                   // of the layout
	Devices     []Decision   // by id
	Controllers []Controller // by index
	Budgets     bus.Budgets  // of the guest after Changes; 0 bytes of BARs before Diagnosed
	Warnings    []reasons.Finding
	Changes     domain.Changes
	Extras      []Extra

	Host     *topology.Host // as far as it was read
	HostTree *topology.Tree // to the devices of the plan

	// SwitchPortsRefused is why no switch port may advertise the host's link; "" where they may.
	SwitchPortsRefused string

	// NVLink partitions of the host, as far as they are known; none before Diagnosed
	Partitions nvlink.List

	// after Changes, with the root ports that libvirt adds for missing indexes
	GuestTree *topology.Tree

	guest  bus.Guest // after Changes
	input  *domain.Domain
	result *domain.Domain // the read model after Changes
}

// Domain returns the read model of the domain after Changes.
func (p *Plan) Domain() *domain.Domain { return p.result }

// Before returns the read model of the domain as it came.
func (p *Plan) Before() *domain.Domain { return p.input }

// IDs returns the ids of the devices, in their order.
func (p *Plan) IDs() []topology.DeviceID {
	return topology.Map(p.Devices, func(d Decision) topology.DeviceID { return d.ID })
}

// PairCounts are numbers of pairs of devices.
type PairCounts struct {
	All   int // in the plan
	Known int // whose devices the host shows, both of them
	Alike int // known ones that have the host's path type in the guest
}

// Pairs counts the pairs of the plan's devices.
func (p *Plan) Pairs() PairCounts {
	var pairs PairCounts
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

// GuestOrder returns the positions of the devices in the order of their addresses in the guest's
// kernel, without those that have none on the host or in the guest. It is nil if that is the
// order of their addresses on the host.
func (p *Plan) GuestOrder() []int {
	order := slices.DeleteFunc(hostOrder(p.Devices), func(i int) bool {
		return p.Devices[i].Function == nil || p.Devices[i].Predicted == nil
	})

	compare := func(i, j int) int { return p.Devices[i].Predicted.Compare(*p.Devices[j].Predicted) }
	if slices.IsSortedFunc(order, compare) {
		return nil
	}

	slices.SortFunc(order, compare)
	return order
}

// MovesControllers reports whether the plan adds or removes controllers, so that an index may be
// another controller's.
func (p *Plan) MovesControllers() bool {
	return len(p.Changes.AddControllers)+len(p.Changes.RemoveControllers) > 0
}

// With returns the plan with the fragments, lines and warnings of policy keys.
func (p *Plan) With(
	marked map[domain.Mark]domain.Marked, extras []Extra, warnings []reasons.Finding,
) *Plan {
	next := *p
	next.Changes.Marked = marked
	next.result = p.input.After(next.Changes)
	next.Extras = slices.Concat(p.Extras, extras)
	next.Warnings = reasons.Sort(slices.Concat(p.Warnings, warnings))
	return &next
}

// New plans. An error means that the input contradicts itself so that nothing
// can be decided; a device that cannot be placed is not an error, but a Decision.
func New(in Input) (*Plan, error) {
	if err := checkUnique(in.Domain); err != nil {
		return nil, err
	}

	s, warnings := newStart(in)
	placed := withChassis(s, placeDevices(s))
	plan := finish(s, placed)
	plan.Warnings = reasons.Sort(
		slices.Concat(in.Warnings, warnings, placed.warnings, placed.faults.warnings()))
	return plan, nil
}

// Describe returns the plan that changes nothing: where each device of the domain is. An error is
// that of New.
func Describe(in Input) (*Plan, error) {
	if err := checkUnique(in.Domain); err != nil {
		return nil, err
	}

	in.Policy = in.Policy.AsIs()
	s, warnings := newStart(in)
	s.base = domain.Changes{}
	plan := finish(s, unchanged(s))
	plan.Warnings = reasons.Sort(slices.Concat(in.Warnings, warnings))
	return plan, nil
}

// WholeTree returns GuestTree with an address for every device, as libvirt gives them. Few ask for it,
// and it takes a simulation of libvirt.
func (p *Plan) WholeTree() *topology.Tree { return p.guest.Whole() }

// finish reads from the changed domain where each device and controller is.
func finish(s start, placed placing) *Plan {
	g, result := placed.result, placed.result.Given.Domain
	seen := g.Predict()
	p := &Plan{
		Policy: s.Policy, Choice: placed.Choice, Changes: placed.changes,
		Budgets: g.Budgets(placed.ports), SwitchPortsRefused: s.switchPortsRefused(),
		Host: s.Host, HostTree: s.hostTree, GuestTree: g.Tree,
		guest: g, input: s.Domain, result: result,
	}

	p.Controllers = make([]Controller, 0, len(result.Controllers))
	for i, c := range result.Controllers {
		controller := Controller{Controller: c, Origin: ControllerExisting}
		// What the hook adds comes after all that was there.
		if i >= len(result.Controllers)-len(placed.changes.AddControllers) {
			controller.Origin = ControllerPlanned
		}

		if c.Address != nil && c.Index != 0 && c.Model != domain.ExpanderBus {
			controller.Predicted = seen(*c.Address)
		}

		p.Controllers = append(p.Controllers, controller)
	}

	slices.SortFunc(p.Budgets.BusNumbers.Expanders, func(x, y bus.ExpanderBudget) int {
		return cmp.Compare(x.Index, y.Index)
	})

	slices.SortFunc(p.Controllers, func(a, b Controller) int {
		return cmp.Compare(a.Index, b.Index)
	})

	p.Devices = slices.Clone(placed.decisions)
	for i := range p.Devices {
		d := &p.Devices[i]
		// The changed domain is asked, and not the decision: a device that stays may have got an address,
		// and one that is placed has the cell of the expander bus that is above it now.
		hostdev := result.Hostdev(d.ID)
		if d.Address = hostdev.Address; d.Address != nil {
			d.GuestPath = g.Path(d.Address.Bus)
			d.Predicted = seen(*d.Address)
		}

		d.Cell = bus.CellOf(g.Expander(d.Address))
		d.MemoryCells = result.MemoryCells(*hostdev)
	}

	return p
}

// Diagnosed returns the plan after all of its devices' host has been read, with the host's NVLink
// partitions and the warnings of that reading.
func (p *Plan) Diagnosed(
	host *topology.Host, partitions nvlink.List, warnings []reasons.Finding,
) *Plan {
	next := *p
	next.Host, next.Partitions, next.Devices = host, partitions, slices.Clone(p.Devices)
	for i, d := range next.Devices {
		if now := hostDevice(host, d.ID); now.Function != nil { // else the device is gone by now
			next.Devices[i].Function, next.Devices[i].IOMMUGroup = now.Function, now.IOMMUGroup
		}
	}

	next.Budgets.BARs.Bytes64 = barBytes64(next.Devices)
	next.Warnings = reasons.Sort(slices.Concat(p.Warnings, warnings))
	return &next
}

// barBytes64 returns the sum of the 64-bit BARs of devices.
func barBytes64(devices []Decision) (sum uint64) {
	for _, d := range devices {
		if d.ID.Kind() == topology.KindPCI && d.Function != nil {
			for _, bar := range d.Function.LargeBARs() {
				sum += bar.Bytes
			}
		}
	}

	return sum
}

// Apply returns the changed domain: the bytes of the domain that was planned for, with Changes. It
// is nil for a plan that changes nothing. The result is read again and compared with the plan; an
// error is a fault of this program, not of the input.
func (p *Plan) Apply() ([]byte, error) {
	if p.Changes.IsZero() {
		return nil, nil
	}

	changed, err := p.input.Apply(p.Changes)
	if err != nil {
		return nil, fmt.Errorf("apply the plan: %w", err)
	}

	again, err := domain.Parse(changed)
	if err != nil {
		return nil, fmt.Errorf("parse the result: %w", err)
	}

	if err := again.Verify(p.result); err != nil {
		return nil, fmt.Errorf("verify the result: %w", err)
	}

	if _, isWritten := p.Changes.Marked[domain.PortOverrideMark]; isWritten {
		if err := again.Check(); err != nil {
			return nil, fmt.Errorf("verify the result: %w", err)
		}
	}

	return changed, nil
}

// MergedPairs counts the pairs of devices that are under several switches of the host and under
// one of the guest, as layout switch has them.
func (p *Plan) MergedPairs() (count int) {
	host, guest := p.HostTree.Devices(p.IDs()), p.GuestTree.Devices(p.IDs())
	for i := range p.Devices {
		for j := range i {
			if host[i].PathType(host[j]) == topology.PXB &&
				guest[i].PathType(guest[j]) == topology.PIX {
				count++
			}
		}
	}

	return count
}

// Layouts returns the layouts that build different trees for the plan's devices, from the simplest.
func (p *Plan) Layouts() []policy.Layout { return layoutsFor(p.HostTree.Devices(p.IDs())) }

// TreeLayout returns the layout whose tree the guest has, "" where no device is under an expander
// bus. Only switch and mirror build switches. Only numa has devices of several PCIe roots under one
// expander bus; it has one per cell, and none without a cell.
func (p *Plan) TreeLayout() policy.Layout {
	rootOf := map[*topology.Node]topology.PCIeRoot{} // by expander bus; "" where unknown
	expanderOf := map[int]*topology.Node{}           // by cell
	hasSwitch, isMixed, isPerCell := false, false, true

	for _, d := range p.Devices {
		n := p.GuestTree.Node(d.ID)
		expander := n.Top()
		if expander.ID == topology.Index(0) || d.Address == nil {
			continue
		}

		known := rootOf[expander]
		hasSwitch = hasSwitch || n.IsUnderSwitch()
		isMixed = isMixed || known != "" && d.PCIeRoot != "" && known != d.PCIeRoot
		rootOf[expander] = cmp.Or(d.PCIeRoot, known)

		if cell := expander.NUMA; cell == nil {
			isPerCell = false
		} else {
			isPerCell = isPerCell && cmp.Or(expanderOf[*cell], expander) == expander
			expanderOf[*cell] = expander
		}
	}

	switch {
	case len(rootOf) == 0:
		return ""
	case hasSwitch && p.MergedPairs() > 0:
		return policy.LayoutSwitch
	case hasSwitch:
		return policy.LayoutMirror
	case isMixed || isPerCell:
		return policy.LayoutNUMA
	}

	return policy.LayoutRoot
}
