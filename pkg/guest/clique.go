package guest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// writeCliques writes GPUDirect cliques: GPUs that NVIDIA's driver may let talk to each other over
// PCIe. The common bridge of the GPUs must be known, and no ACS between them may redirect
// requests. KubeVirt's types lack qemu:override, so that every call writes it.
func writeCliques(vm Planned) Writing {
	found := findCliques(vm.Plan)
	return Writing{
		Marked:   domain.Marked{Fragments: found.overrides},
		Line:     found.String(),
		Warnings: found.warnings(vm.Domain()),
	}
}

// cliques has the GPUs of a domain, by clique.
type cliques struct {
	overrides []domain.Fragment              // one per GPU
	granted   []string                       // a text per clique
	kept      []topology.DeviceID            // with the user's own property
	refused   map[string][]topology.DeviceID // by the reason
}

// peer is a GPU that may be in a clique; see reach.
type peer struct {
	placement.Decision
	top     *topology.Node
	blocked string
}

func findCliques(plan *placement.Plan) cliques {
	c := cliques{refused: map[string][]topology.DeviceID{}}
	d := plan.Domain()
	used := map[int]bool{} // by the user
	users := map[string]bool{}
	for _, set := range d.Cliques() {
		if !set.Own {
			used[set.Number], users[set.Alias] = true, true
		}
	}

	byTop := map[*topology.Node][]peer{}
	var gpus []peer
	for _, gpu := range plan.Devices {
		switch why := noClique(gpu, d); {
		case gpu.Function == nil || gpu.Function.Vendor != nvidia ||
			gpu.Function.Class>>16 != display:
		case users[gpu.Alias]:
			c.kept = append(c.kept, gpu.ID)
		case why != "":
			c.refuse(gpu.ID, why)
		default:
			top, blocked := reach(plan, gpu)
			found := peer{gpu, top, blocked}
			gpus, byTop[top] = append(gpus, found), append(byTop[top], found)
		}
	}

	for _, gpu := range gpus {
		switch members := byTop[gpu.top]; {
		case gpu.top == nil || len(members) == 1:
			c.refuse(gpu.ID, alone(plan, gpus, gpu))
		case gpu.ID == members[0].ID:
			c.grant(used, members)
		}
	}

	return c
}

// grant gives the lowest unused number to GPUs that reach the same switch or PCIe root.
func (c *cliques) grant(used map[int]bool, gpus []peer) {
	number := 0
	for used[number] {
		number++
	}

	if number > domain.MaxClique {
		for _, gpu := range gpus {
			c.refuse(gpu.ID, fmt.Sprintf("QEMU knows only %d cliques", domain.MaxClique+1))
		}
		return
	}

	used[number] = true
	ids, kind := make([]topology.DeviceID, len(gpus)), "switch"
	for i, gpu := range gpus {
		ids[i] = gpu.ID
		c.overrides = append(c.overrides, domain.Clique{
			Alias: gpu.Alias, Number: number, Own: true,
		})
	}

	top := gpus[0].top
	if top.Kind == topology.Root {
		kind = "PCIe root"
	}

	c.granted = append(c.granted,
		fmt.Sprintf("clique %d is %s under %s %s", number, joinIDs(ids), kind, top.ID))
}

// QEMU accepts NVIDIA's GPUs of a display class only (hw/vfio/pci-quirks.c,
// vfio_add_nv_gpudirect_cap).
const (
	nvidia  = 0x10de
	display = 0x03
)

// noClique returns why a GPU cannot be in a clique, "" when it can.
func noClique(gpu placement.Decision, d *domain.Domain) string {
	switch {
	case gpu.ID.Kind() != topology.KindPCI:
		return "it is a mediated device"
	case gpu.Function != nil && gpu.Function.PhysFn != nil:
		return "it is a virtual function"
	case d.CommandLineClique():
		return "qemu:commandline sets cliques"
	case !domain.IsUserAlias(gpu.Alias):
		return "it has no alias ua-… to name it by"
	}

	return ""
}

// reach returns the topmost switch or PCIe root that a GPU's requests reach without ACS
// redirection, and why they go no further. Two GPUs with the same one reach each other.
func reach(plan *placement.Plan, gpu placement.Decision) (top *topology.Node, blocked string) {
	node := plan.HostTree.Node(gpu.ID)
	if node == nil || node.Parent == nil {
		return nil, "the host does not show where it is"
	}
	if node.Parent.Kind == topology.Root {
		return nil, "it is part of the root complex, where paths between peers are unknown"
	}

	for at := node.Parent; at != nil; at = at.Parent {
		switch at.Kind {
		case topology.UpstreamPort, topology.Root:
			top = at
		case topology.RootPort, topology.DownstreamPort:
			address := at.ID.(topology.Address)
			if why := redirects(plan.Host.FunctionAt(address),
				at.Kind == topology.RootPort); why != "" {
				return top, fmt.Sprintf("%s %s", address, why)
			}

		default:
			return top, fmt.Sprintf("%s is a bridge to conventional PCI", at.ID)
		}
	}

	return top, ""
}

// redirects returns why a port may not pass requests to its siblings, "" when it does. A switch
// has to pass them, a root complex does not: a root port that does has the capability to redirect
// them (PCI Express 5.0, 6.12.1.1).
func redirects(port *topology.Function, isRootPort bool) string {
	switch {
	case port == nil || port.Details == nil || !port.Details.ExtendedConfig:
		return "has an ACS capability that is unreadable here"
	case port.Details.ACS == nil && !isRootPort:
		return ""
	case port.Details.ACS == nil || isRootPort && !port.Details.ACS.CanRedirect:
		return "is a root port that may not pass requests to others (no ACS capability to " +
			"redirect them)"

	case port.Details.ACS.RequestRedirect || port.Details.ACS.CompletionRedirect:
		return "redirects requests between peers (ACS)"
	case port.Details.ACS.EgressControl:
		return "controls which peers get requests (ACS)"
	}

	return ""
}

// alone returns why a GPU is in no clique with another: the bridge or port between it and the
// nearest one.
func alone(plan *placement.Plan, gpus []peer, gpu peer) string {
	path := plan.HostTree.Node(gpu.ID).Path()
	nearest, others := 0, ""
	for _, other := range gpus {
		if other.ID == gpu.ID {
			continue
		}

		shared := 0
		for theirs := plan.HostTree.Node(other.ID).Path(); shared < min(len(path),
			len(theirs)) && path[shared] == theirs[shared]; {
			shared++
		}

		if shared > nearest {
			nearest, others = shared, other.blocked
		}
	}

	switch {
	case len(gpus) == 1:
		return "no other GPU of the VM can be in one, and alone it needs none"
	case nearest == 0:
		return "no other GPU of the VM is under its PCIe root"
	case slices.Contains(path[:nearest], gpu.top): // its own requests get far enough
		return others
	}

	return gpu.blocked
}

func (c cliques) refuse(id topology.DeviceID, why string) {
	c.refused[why] = append(c.refused[why], id)
}

// String lists the cliques, and warns that they are untested: NVIDIA's driver assumes that the
// path of a clique has been tested (NVIDIA/nccl issue 2335).
func (c cliques) String() string {
	parts := slices.Clone(c.granted)
	if len(c.kept) > 0 {
		parts = append(parts, "the domain's own stays for "+joinIDs(c.kept))
	}

	if len(c.granted) > 0 {
		parts = append(parts,
			"this lets the driver try: compare what a peer received before you rely on it",
			"a hook sidecar's is lost where the cluster has a Plugin object")
	}

	return strings.Join(parts, "; ")
}

// warnings names the GPUs that are in no clique, and what keeps the driver from looking for the
// cliques of the others.
func (c cliques) warnings(d *domain.Domain) []reasons.Warning {
	var warnings []reasons.Warning
	if len(c.refused) > 0 {
		parts := topology.Map(slices.Sorted(maps.Keys(c.refused)), func(why string) string {
			return joinIDs(c.refused[why]) + ": " + why
		})
		warnings = append(warnings,
			reasons.NewWarning(reasons.CodeCliqueRefused, nil, "no GPUDirect clique for "+
				strings.Join(parts, "; ")))
	}

	if d.HidesKVM && len(c.granted)+len(c.kept) > 0 {
		warnings = append(warnings, reasons.NewWarning(reasons.CodeHypervisorHidden, nil,
			"the domain hides the hypervisor (features/kvm/hidden), and NVIDIA's driver then does "+
				"not look for GPUDirect cliques"))
	}

	return warnings
}

func joinIDs(ids []topology.DeviceID) string {
	return strings.Join(topology.Map(ids, topology.DeviceID.String), ", ")
}
