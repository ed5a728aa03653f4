package keys

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/peer"
	"hook-sidecar/pkg/words"
)

// writeCliques writes GPUDirect cliques: GPUs that NVIDIA's driver may let talk to each other over
// PCIe. The host's path between every two of a clique must work in a VM, by the rule of package
// peer. KubeVirt's types lack qemu:override, so that every call writes it.
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
	overrides []domain.Fragment   // one per GPU
	granted   []string            // a text per clique
	kept      []topology.DeviceID // with the user's own property
	refused   map[string]*refusal // by the reason
}

// refusal has the GPUs that are in no clique for one reason, and the functions that are its cause.
type refusal struct {
	gpus   []topology.DeviceID
	causes []topology.Address
}

func findCliques(plan *placement.Plan) cliques {
	c := cliques{refused: map[string]*refusal{}}
	d := plan.Domain()
	used := map[int]bool{} // by the user
	users := map[string]bool{}
	for _, set := range d.Cliques() {
		if !set.Own {
			used[set.Number], users[set.Alias] = true, true
		}
	}

	// The user's own property comes before all that keeps the hook from writing one.
	var gpus []placement.Decision
	for _, gpu := range plan.Devices {
		switch why := noClique(gpu, d); {
		case !isDisplayOfNVIDIA(gpu.Function):
		case users[gpu.Alias]:
			c.kept = append(c.kept, gpu.ID)
		case why != "":
			c.refuse(gpu.ID, why, nil)
		default:
			gpus = append(gpus, gpu)
		}
	}

	paths := newPeerPaths(plan, gpus)
	for _, members := range paths.sets(gpus) {
		if len(members) > 1 {
			c.grant(used, members, paths.above(members...))
		} else {
			why, causes := paths.alone(members[0], gpus)
			c.refuse(members[0].ID, why, causes)
		}
	}

	return c
}

// grant gives the lowest unused number to GPUs under a switch or PCIe root.
func (c *cliques) grant(used map[int]bool, gpus []placement.Decision, top *topology.Node) {
	number := 0
	for used[number] {
		number++
	}

	if number > domain.MaxClique {
		for _, gpu := range gpus {
			c.refuse(gpu.ID, fmt.Sprintf("QEMU knows only %d cliques", domain.MaxClique+1), nil)
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

	if top.Kind == topology.Root {
		kind = "PCIe root"
	}

	c.granted = append(c.granted,
		fmt.Sprintf("clique %d is %s under %s %s", number, joinIDs(ids), kind, top.ID))
}

// isDisplayOfNVIDIA reports whether QEMU accepts a clique for a function: one of NVIDIA's of a
// display class (hw/vfio/pci-quirks.c, vfio_add_nv_gpudirect_cap).
func isDisplayOfNVIDIA(f *topology.Function) bool {
	return f != nil && f.Vendor == topology.VendorNVIDIA && f.Class>>16 == topology.Class3D>>16
}

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

// peerPaths has what the rule says about the paths between the GPUs of a domain.
type peerPaths struct {
	tree    *topology.Tree // the host's
	answers map[[2]topology.DeviceID]peer.Answer
}

func newPeerPaths(plan *placement.Plan, gpus []placement.Decision) peerPaths {
	p := peerPaths{plan.HostTree, map[[2]topology.DeviceID]peer.Answer{}}
	d := plan.Domain()
	guest := peer.Guest{
		UsesIOMMUFD: d.UsesIOMMUFD, PhysBits: d.Addressing.PhysBits, UEFI: d.UEFI,
	}

	for _, from := range gpus {
		for _, to := range gpus {
			if from.ID != to.ID {
				p.answers[[2]topology.DeviceID{from.ID, to.ID}] = peer.Judge(
					peer.Between(plan.Host, from.ID, to.ID, guest))
			}
		}
	}

	return p
}

// sets returns the GPUs in sets under one PCIe root each, in which each GPU reaches all others: each
// GPU is in the first set that takes it.
func (p peerPaths) sets(gpus []placement.Decision) [][]placement.Decision {
	var sets [][]placement.Decision
	for _, gpu := range gpus {
		at := slices.IndexFunc(sets, func(members []placement.Decision) bool {
			return !slices.ContainsFunc(members, func(other placement.Decision) bool {
				return !p.reach(gpu, other)
			})
		})

		if at < 0 {
			sets = append(sets, nil)
			at = len(sets) - 1
		}

		sets[at] = append(sets[at], gpu)
	}

	return sets
}

// reach reports whether two GPUs under one PCIe root reach each other.
func (p peerPaths) reach(a, b placement.Decision) bool {
	return p.above(a, b) != nil && p.answer(a, b).Cause.Readiness().Works()
}

// answer returns what the rule says about two GPUs, each of which reads and writes the other: the
// answer that does not work, if one does not.
func (p peerPaths) answer(a, b placement.Decision) peer.Answer {
	there := p.answers[[2]topology.DeviceID{a.ID, b.ID}]
	if back := p.answers[[2]topology.DeviceID{b.ID, a.ID}]; there.Cause.Readiness().Works() {
		return back
	}
	return there
}

// above returns the nearest node above all of some GPUs; nil for GPUs of different PCIe roots.
func (p peerPaths) above(gpus ...placement.Decision) *topology.Node {
	top := p.tree.Node(gpus[0].ID)
	for _, gpu := range gpus[1:] {
		top = topology.Common(top, p.tree.Node(gpu.ID))
	}
	return top
}

// alone returns why a GPU is in no clique with another, and the functions that are the cause: what
// the rule says about it and the nearest one.
func (p peerPaths) alone(
	gpu placement.Decision, gpus []placement.Decision,
) (why string, causes []topology.Address) {
	if len(gpus) == 1 {
		return "no other GPU of the VM can be in one, and alone it needs none", nil
	}

	// The reason that helps most is that against the nearest GPU: another one may be far whatever
	// is done.
	var nearest *placement.Decision
	depth := 0
	for _, other := range gpus {
		if node := p.above(gpu, other); other.ID != gpu.ID && !p.reach(gpu, other) &&
			len(node.Path()) > depth {
			nearest, depth = &other, len(node.Path())
		}
	}

	if nearest == nil {
		return "no other GPU of the VM is under its PCIe root", nil
	}

	answer := p.answer(gpu, *nearest)
	return fmt.Sprintf("%s (%s): %s", answer.Cause.Readiness(), answer.Cause, answer.Cause.Meaning()),
		answer.Functions
}

func (c cliques) refuse(id topology.DeviceID, why string, causes []topology.Address) {
	r := c.refused[why]
	if r == nil {
		r = &refusal{}
		c.refused[why] = r
	}

	r.gpus = append(r.gpus, id)
	for _, cause := range causes {
		if !slices.Contains(r.causes, cause) {
			r.causes = append(r.causes, cause)
		}
	}
}

// text says what is refused.
func (r *refusal) text(why string) string {
	text := joinIDs(r.gpus) + ": " + why
	if len(r.causes) > 0 {
		slices.SortFunc(r.causes, topology.Address.Compare)
		text += ": " + words.FirstOf(topology.Map(r.causes, topology.Address.String), 4, ", ")
	}

	return text
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
func (c cliques) warnings(d *domain.Domain) []reasons.Finding {
	var warnings []reasons.Finding
	if len(c.refused) > 0 {
		parts := topology.Map(slices.Sorted(maps.Keys(c.refused)), func(why string) string {
			return c.refused[why].text(why)
		})
		warnings = append(warnings,
			reasons.NewFinding(reasons.CodeCliqueRefused, nil, "no GPUDirect clique for "+
				strings.Join(parts, "; ")))
	}

	if d.HidesKVM && len(c.granted)+len(c.kept) > 0 {
		warnings = append(warnings, reasons.NewFinding(reasons.CodeHypervisorHidden, nil,
			"the domain hides the hypervisor (features/kvm/hidden), and NVIDIA's driver then does "+
				"not look for GPUDirect cliques"))
	}

	return warnings
}

func joinIDs(ids []topology.DeviceID) string {
	return strings.Join(topology.Map(ids, topology.DeviceID.String), ", ")
}
