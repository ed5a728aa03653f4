package report

import (
	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/peer"
)

// New reports a plan, which is nil if an error came before it.
func New(plan *placement.Plan, changed bool, err error) Report {
	r := Report{
		SchemaVersion: SchemaVersion, Changed: changed,
		Policy: map[policy.Key]Setting{}, Devices: []DeviceReport{}, Controllers: []Controller{},
		Warnings: []reasons.Finding{}, Extras: []placement.Extra{},
		Paths: Paths{Devices: []topology.DeviceID{}}, PeerPaths: []PeerPath{},
		Consumers: []consumers.Tally{},
	}

	r.Budgets.BusNumbers.Expanders = []bus.ExpanderBudget{}
	if err != nil {
		r.Error = new(err.Error())
	}

	if plan == nil {
		return r
	}

	r.Layout, r.LayoutReason, r.DryRun = plan.Layout, unlessZero(plan.Why), plan.Policy.DryRun
	r.Headline = HeadlineOf(plan, plan)
	r.plan, r.host, r.guest = plan, plan.HostTree, plan.GuestTree
	for _, key := range policy.Keys() {
		r.Policy[key] = Setting{Value: plan.Policy.Value(key), Origin: plan.Policy.Origins[key]}
	}

	r.Devices = topology.Map(plan.Devices, func(d placement.Decision) DeviceReport {
		return newDevice(d, plan.Host.MaxLink(d.Function))
	})

	r.Controllers = topology.Map(plan.Controllers, newController)
	ids := plan.IDs()
	for _, i := range plan.GuestOrder() {
		r.GuestOrder = append(r.GuestOrder, ids[i])
	}

	r.Paths = Paths{Devices: ids, Host: PathTypes{r.host, ids}, Guest: PathTypes{r.guest, ids}}
	for _, g := range peer.ByCause(findings.NearPairs(plan)) {
		r.peerGroups = append(r.peerGroups, g)
		for _, p := range g.Pairs {
			r.PeerPaths = append(r.PeerPaths, newPeerPath(p))
		}
	}

	for _, t := range plan.Consumers() {
		if t.Decisions() > 0 {
			r.Consumers = append(r.Consumers, t)
		}
	}

	r.Budgets = plan.Budgets
	r.Budgets.BusNumbers.Expanders = append([]bus.ExpanderBudget{},
		plan.Budgets.BusNumbers.Expanders...)
	r.Warnings, r.Extras = append(r.Warnings, findings.Of(plan)...), append(r.Extras,
		plan.Extras...)
	return r
}

func newDevice(d placement.Decision, link *topology.Link) DeviceReport {
	out := DeviceReport{
		ID: d.ID, Alias: unlessZero(d.Alias), Kind: d.ID.Kind(), Resource: unlessZero(d.Resource),
		Added:    d.Added,
		PCIeRoot: unlessZero(d.PCIeRoot), HostPath: append([]topology.Address{}, d.HostPath...),
		IOMMUGroup: d.IOMMUGroup,
		Outcome:    d.Outcome, Reason: d.Reason,
		GuestCell: d.Cell, GuestPath: append([]int{}, d.GuestPath...), Predicted: d.Predicted,
		MemoryCells: d.MemoryCells, function: d.Function, link: link,
	}

	if node, known := d.HostNode.Node(); known {
		out.HostNode = &node
	}

	if a := d.Address; a != nil {
		out.GuestAddress = &topology.Address{
			Bus: uint8(a.Bus), Device: uint8(a.Slot), Function: uint8(a.Function),
		}
	}

	return out
}

func newPeerPath(p peer.Pair) PeerPath {
	return PeerPath{
		Requester: p.Requester, Completer: p.Completer,
		Readiness: p.Cause.Readiness(), Cause: p.Cause,
		Functions: append([]topology.Address{}, p.Functions...),
		Remedy:    peer.Group{Cause: p.Cause, Functions: p.Functions}.Remedy(),
	}
}

func newController(c placement.Controller) Controller {
	out := Controller{
		Index:     c.Index,
		Model:     c.Model,
		BusNr:     c.BusNr,
		Cell:      c.Cell,
		Origin:    c.Origin,
		predicted: c.Predicted,
	}

	if a := c.Address; a != nil {
		out.Parent, out.Slot, out.Function = &a.Bus, &a.Slot, &a.Function
	}

	return out
}

func unlessZero[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}
