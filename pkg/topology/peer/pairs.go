package peer

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
)

// Pair is a NIC or a drive, the requester, and a GPU under one switch, which software in a guest
// connects directly: GPUDirect RDMA, GPUDirect Storage.
type Pair struct {
	Requester, Completer topology.DeviceID

	Answer
}

// Near returns the pairs of a NIC or drive and a GPU that a tree shows under one switch, with what
// the host's paths are. The tree is the host's, or the guest's with the same devices.
func Near(
	h *topology.Host, tree *topology.Tree, ids []topology.DeviceID, guest Guest,
) []Pair {
	var pairs []Pair
	for _, from := range ids {
		for _, to := range ids {
			if !isRequester(h.Function(from)) || !h.Function(to).IsGPU() || from == to ||
				tree.PathType(from, to) > topology.PXB {
				continue
			}

			facts := Between(h, from, to, guest)
			pairs = append(pairs, Pair{from, to, Judge(facts)})
		}
	}

	return pairs
}

// isRequester reports whether a function reads and writes GPUs: a NIC, or an NVMe drive.
func isRequester(f *topology.Function) bool {
	return f.IsNIC() || f != nil && f.Class>>8 == topology.ClassNVMe>>8
}

// Group has the pairs with one cause.
type Group struct {
	Cause     Cause
	Pairs     []Pair
	Functions []topology.Address // of all the pairs, each once
}

// ByCause returns pairs in groups by cause: what works first.
func ByCause(pairs []Pair) []Group {
	var groups []Group
	for _, readiness := range []Readiness{Ready, ThroughRoot, NotReady, Unknown} {
		for _, cause := range Causes() {
			g := Group{Cause: cause}
			for _, p := range pairs {
				if p.Cause == cause && cause.Readiness() == readiness {
					g.add(p)
				}
			}

			if len(g.Pairs) > 0 {
				slices.SortFunc(g.Functions, topology.Address.Compare)
				groups = append(groups, g)
			}
		}
	}

	return groups
}

func (g *Group) add(p Pair) {
	g.Pairs = append(g.Pairs, p)
	for _, f := range p.Functions {
		if !slices.Contains(g.Functions, f) {
			g.Functions = append(g.Functions, f)
		}
	}
}

// Requesters returns the NICs and drives of the group, each once.
func (g Group) Requesters() []topology.DeviceID {
	var ids []topology.DeviceID
	for _, p := range g.Pairs {
		if !slices.Contains(ids, p.Requester) {
			ids = append(ids, p.Requester)
		}
	}

	return ids
}

// Remedy is the cause's, with the ports in the kernel argument.
func (g Group) Remedy() string {
	const each = "1x111x1@"
	ports := topology.Map(g.Functions, func(a topology.Address) string { return each + a.String() })
	return strings.Replace(g.Cause.Remedy(), each+"PORT", strings.Join(ports, ";"), 1)
}
