// Package consumers models the software that asks the PCI Express tree of a machine: what each
// program decides on the host and in a guest, and whether the guest's decision is the host's. A
// consumer is one file and one entry of the table here. `make judges` compares the models with the
// programs' own code.
package consumers

import (
	"slices"

	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/topology"
)

// Machine is a host or a guest as the software in it sees it. Host and guest have the same devices,
// each in an order of its own.
type Machine struct {
	ncclgraph.Machine // GPUs and NICs in the order of their addresses
	// NCCL is what NCCL and RCCL find, if a topology file shows them another machine.
	NCCL *ncclgraph.Machine
	CPU  topology.CPU
	// HasCells is true for a guest with NUMA cells. Without them no device can know its node.
	HasCells bool
	// Atomics has the whole AMD GPUs, with whether the root port above each completes PCIe
	// AtomicOps. Those of a host count as such.
	Atomics map[topology.ID]bool
}

// Verdict compares what a consumer decides in a guest with what it decides on the host.
type Verdict int

// The verdicts, from the best.
const (
	Right Verdict = iota // as on the host
	Open                 // a tie that has what it decides on the host, or less than there
	Wrong                // something else
)

// Decision is what a consumer decides for a GPU, or for a GPU and another device.
type Decision struct {
	GPU   topology.ID
	Other topology.ID // nil for a consumer that decides for each GPU
	Verdict
}

// Consumer is a program, or a library, that asks the tree.
type Consumer struct {
	Name string // "UCX"
	Unit string // what it decides for: "GPU" or "pair"

	// decide yields each decision of the consumer about devices that both machines have.
	decide func(host, guest view, yield func(Decision))
}

// All has every consumer, in the order in which they are named to people.
var All = []Consumer{
	{Name: "NCCL", Unit: "GPU", decide: nccl},
	{Name: "UCX", Unit: "GPU", decide: ucx},
	{Name: "DRA pcieRoot", Unit: "pair", decide: draRoot},
	{Name: "DRA numaNode", Unit: "pair", decide: draNode},
	{Name: "P2PDMA", Unit: "pair", decide: p2pdma},
	{Name: "hwloc", Unit: "GPU", decide: hwloc},
	{Name: "AtomicOps", Unit: "GPU", decide: atomics},
}

// Tally counts the verdicts on a consumer's decisions.
type Tally struct {
	Consumer string `json:"consumer"` // its name
	Unit     string `json:"unit"`     // what is counted: "GPU" or "pair"
	Right    int    `json:"right"`    // as on the host
	Open     int    `json:"open"`     // a tie that has the host's, or less than on the host
	Wrong    int    `json:"wrong"`    // something else than on the host
}

// Count counts a verdict.
func (t *Tally) Count(v Verdict) {
	switch v {
	case Right:
		t.Right++
	case Open:
		t.Open++
	case Wrong:
		t.Wrong++
	}
}

// Decides reports whether the consumer decides anything.
func (t Tally) Decides() bool { return t.Right+t.Open+t.Wrong > 0 }

// Judge compares the decisions of every consumer in a guest with those on the host. yield gets the
// position of the consumer in All.
func Judge(host, guest Machine, yield func(consumer int, d Decision)) {
	h, g := newView(host), newView(guest)
	for i, c := range All {
		c.decide(h, g, func(d Decision) { yield(i, d) })
	}
}

// Tallies counts the verdicts on the decisions of each consumer, in the order of All.
func Tallies(host, guest Machine) []Tally {
	tallies := make([]Tally, len(All))
	for i, c := range All {
		tallies[i].Consumer, tallies[i].Unit = c.Name, c.Unit
	}

	Judge(host, guest, func(consumer int, d Decision) { tallies[consumer].Count(d.Verdict) })
	return tallies
}

// view is a machine with its nodes by ID.
type view struct {
	Machine
	nodes map[topology.ID]*topology.Node
}

func newView(m Machine) view {
	v := view{m, make(map[topology.ID]*topology.Node, len(m.GPUs)+len(m.NICs))}
	for _, gpu := range m.GPUs {
		v.nodes[gpu.Node.ID] = gpu.Node
	}

	for _, nic := range m.NICs {
		v.nodes[nic.ID] = nic
	}

	return v
}

// pairs yields each GPU of the host with each NIC, and with each GPU before it, and their nodes in
// the guest.
func pairs(host, guest view, yield func(x, y, guestX, guestY *topology.Node)) {
	try := func(x, y *topology.Node) {
		if guestX, guestY := guest.nodes[x.ID], guest.nodes[y.ID]; guestX != nil && guestY != nil {
			yield(x, y, guestX, guestY)
		}
	}

	for i, gpu := range host.GPUs {
		for _, nic := range host.NICs {
			try(gpu.Node, nic)
		}

		for _, other := range host.GPUs[:i] {
			try(gpu.Node, other.Node)
		}
	}
}

// compareTaken compares the NICs that a consumer takes for equally good for a GPU, those with the
// highest score: those of the guest with those of the host. Without NICs it decides nothing wrong.
func compareTaken(
	host, guest view, gpu topology.ID, score func(m view, gpu, nic *topology.Node) int,
) Verdict {
	wanted, taken := host.best(gpu, score), guest.best(gpu, score)
	hits := topology.CountFunc(taken, func(nic topology.ID) bool {
		return slices.Contains(wanted, nic)
	})

	switch hits {
	case len(taken):
		return Right
	case 0:
		return Wrong
	}

	return Open
}

// best returns the NICs with the highest score for a GPU.
func (v view) best(
	gpu topology.ID, score func(m view, gpu, nic *topology.Node) int,
) (nics []topology.ID) {
	highest := 0
	for _, nic := range v.NICs {
		switch n := score(v, v.nodes[gpu], nic); {
		case len(nics) == 0 || n > highest:
			highest, nics = n, append(nics[:0], nic.ID)
		case n == highest:
			nics = append(nics, nic.ID)
		}
	}

	return nics
}
