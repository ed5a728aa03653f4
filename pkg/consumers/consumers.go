// Package consumers models the software that asks the PCI Express tree of a machine: what each
// program decides on the host and in a guest, and whether the guest's decision is the host's. Each
// program has a file, each of its questions an entry of the table here. `make judges` compares the
// models with the programs' own code.
package consumers

import (
	"slices"

	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/topology"
)

// Machine is a host or a guest as the software in it sees it. The decisions are about the devices
// that both have, each in an order of its own.
type Machine struct {
	ncclgraph.Machine // GPUs and NICs in the order of their addresses
	// NCCL is the machine that a topology file shows NCCL and RCCL; nil without a file.
	NCCL *ncclgraph.Machine
	CPU  topology.CPU
	// HasCells is true for a guest with NUMA cells. Without them no device can know its node.
	HasCells bool
	// HasOneCell is true for a guest with exactly one cell: its CPUs are near every device.
	HasOneCell bool
	// Atomics has the whole AMD GPUs, with whether the root port above each completes PCIe
	// AtomicOps. All root ports of a host count as completing them.
	Atomics map[topology.ID]bool
}

// Verdict compares what a consumer decides in a guest with what it decides on the host.
type Verdict int

// The verdicts, from the best.
const (
	Right Verdict = iota // as on the host
	// Open is a tie with the host's answer in it, or of NCCL the lack of GPUDirect RDMA alone.
	Open
	Wrong // something else
	// Harmful is wrong as no guest without the hook is: something that the host lacks, or slower
	// than without the hook.
	Harmful
)

// Decision is the verdict on one answer of a consumer, for a GPU or a pair of devices.
type Decision struct {
	GPU   topology.ID
	Other topology.ID // nil for a consumer that decides for each GPU
	Verdict
}

// Consumer is a question that software asks the tree.
type Consumer struct {
	Name    string // "DRA pcieRoot"
	Program string // that asks, as people name it: "DRA"
	Unit    string // what it decides for: "GPU" or "pair"
	// Goal completes "8 of 8 GPUs …" where its decisions are as on the host.
	Goal string

	decide func(both, func(Decision)) // yields each decision
}

// The names of consumers.
const (
	NCCL      = "NCCL" // and RCCL
	UCX       = "UCX"
	DRARoot   = "DRA pcieRoot"
	DRANode   = "DRA numaNode"
	P2PDMA    = "P2PDMA"
	HWLoc     = "hwloc"
	AtomicOps = "AtomicOps"
)

// aligned is the goal of both questions of DRA.
const aligned = "are aligned as on the host"

// All has every consumer, in the order in which they are named to people.
var All = []Consumer{
	{NCCL, NCCL, "GPU", "have the host's NIC, GPUDirect RDMA, speed", nccl},
	{UCX, UCX, "GPU", "take the host's NIC", ucx},
	{DRARoot, "DRA", "pair", aligned, draRoot},
	{DRANode, "DRA", "pair", aligned, draNode},
	{P2PDMA, P2PDMA, "pair", "reach the devices of their switch", p2pdma},
	{HWLoc, HWLoc, "GPU", "have the host's NIC and CPUs nearest", hwloc},
	{AtomicOps, AtomicOps, "GPU", "have a root port that completes them", atomics},
}

// Tally counts the verdicts on a consumer's decisions.
type Tally struct {
	Consumer string `json:"consumer"` // its name
	Unit     string `json:"unit"`     // what is counted: "GPU" or "pair"
	Right    int    `json:"right"`    // as on the host
	Open     int    `json:"open"`     // a tie that has the host's, or less than on the host
	Wrong    int    `json:"wrong"`    // something else than on the host
	Harmful  int    `json:"-"`        // of these, as no guest without the hook is
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
	case Harmful:
		t.Wrong++
		t.Harmful++
	}
}

// Decisions returns how many decisions the consumer makes.
func (t Tally) Decisions() int { return t.Right + t.Open + t.Wrong }

// Judge compares the decisions of every consumer in a guest with those on the host. yield gets the
// position of the consumer in All.
func Judge(host, guest Machine, yield func(consumer int, d Decision)) {
	b := inBoth(host, guest)
	for i, c := range All {
		c.decide(b, func(d Decision) { yield(i, d) })
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

// TallyOf counts the verdicts on the decisions of one consumer, by its name.
func TallyOf(name string, host, guest Machine) Tally {
	i := slices.IndexFunc(All, func(c Consumer) bool { return c.Name == name })
	t := Tally{Consumer: name, Unit: All[i].Unit}
	All[i].decide(inBoth(host, guest), func(d Decision) { t.Count(d.Verdict) })
	return t
}

// Program counts the GPUs about which a program decides as on the host in all that it asks.
type Program struct {
	Name     string // "DRA"
	Goal     string // see Consumer
	GPUs     int    // that it decides about
	AsOnHost int
}

// Programs returns the programs that decide about a GPU, in the order of All.
func Programs(host, guest Machine) []Program {
	return ProgramsOf(guest, func(yield func(int, Decision)) { Judge(host, guest, yield) })
}

// ProgramsOf returns the programs of decisions that judge yields as Judge does.
func ProgramsOf(
	guest Machine, judge func(yield func(consumer int, d Decision)),
) (programs []Program) {
	isGPU := make(map[topology.ID]bool, len(guest.GPUs))
	for _, gpu := range guest.GPUs {
		isGPU[gpu.Node.ID] = true
	}

	asOnHost := map[string]map[topology.ID]bool{} // by program, then GPU
	judge(func(consumer int, d Decision) {
		name := All[consumer].Program
		if asOnHost[name] == nil {
			asOnHost[name] = map[topology.ID]bool{}
		}

		// A GPU counts only if every decision about it is right.
		for _, id := range []topology.ID{d.GPU, d.Other} {
			if isGPU[id] {
				was, isKnown := asOnHost[name][id]
				asOnHost[name][id] = (was || !isKnown) && d.Verdict == Right
			}
		}
	})

	for i, c := range All {
		// The two questions of DRA follow each other in All, and are one program's.
		isCounted := i > 0 && All[i-1].Program == c.Program
		gpus := asOnHost[c.Program]
		if isCounted || len(gpus) == 0 {
			continue
		}

		p := Program{Name: c.Program, Goal: c.Goal, GPUs: len(gpus)}
		for _, isRight := range gpus {
			if isRight {
				p.AsOnHost++
			}
		}

		programs = append(programs, p)
	}

	return programs
}

// both is a host and a guest, with the nodes of the devices that both have, in the host's order.
type both struct {
	host, guest         Machine
	hostGPUs, guestGPUs []*topology.Node
	hostNICs, guestNICs []*topology.Node
}

func inBoth(host, guest Machine) both {
	b := both{host: host, guest: guest}
	nodeOf := func(gpu ncclgraph.GPU) *topology.Node { return gpu.Node }
	b.hostGPUs, b.guestGPUs = common(topology.Map(host.GPUs, nodeOf),
		topology.Map(guest.GPUs, nodeOf))
	b.hostNICs, b.guestNICs = common(host.NICs, guest.NICs)
	return b
}

// common returns the nodes of the devices that are in two lists, each in the order of the first. As
// a rule the orders are one, and nothing has to be looked up.
func common(x, y []*topology.Node) (inX, inY []*topology.Node) {
	isOfOne := func(m, n *topology.Node) bool { return m.ID == n.ID }
	if slices.EqualFunc(x, y, isOfOne) {
		return x, y
	}

	nodes := make(map[topology.ID]*topology.Node, len(y))
	for _, n := range y {
		nodes[n.ID] = n
	}

	for _, n := range x {
		if other := nodes[n.ID]; other != nil {
			inX, inY = append(inX, n), append(inY, other)
		}
	}

	return inX, inY
}

// pairs yields each GPU with each NIC, and with each GPU before it: their nodes on the host and in
// the guest.
func (b both) pairs(yield func(x, y, guestX, guestY *topology.Node)) {
	for i, gpu := range b.hostGPUs {
		for k, nic := range b.hostNICs {
			yield(gpu, nic, b.guestGPUs[i], b.guestNICs[k])
		}

		for k, other := range b.hostGPUs[:i] {
			yield(gpu, other, b.guestGPUs[i], b.guestGPUs[k])
		}
	}
}

// compareTaken compares the NICs that a consumer takes for equally good for the GPU at a position,
// those with the highest score: those of the guest with those of the host. Without NICs it decides
// nothing wrong.
func (b both) compareTaken(gpu int, score func(m Machine, gpu, nic *topology.Node) int) Verdict {
	if len(b.hostNICs) == 0 {
		return Right
	}

	there := topology.Map(b.hostNICs, func(nic *topology.Node) int {
		return score(b.host, b.hostGPUs[gpu], nic)
	})
	here := topology.Map(b.guestNICs, func(nic *topology.Node) int {
		return score(b.guest, b.guestGPUs[gpu], nic)
	})

	best, bestOnHost := slices.Max(here), slices.Max(there)
	taken, hits := 0, 0 // in the guest, and of these on the host, too
	for i := range here {
		if here[i] == best {
			taken++
			if there[i] == bestOnHost {
				hits++
			}
		}
	}

	// Which of several equals is taken is not modelled. So it is right if all of them are the
	// host's, and open if some are.
	switch hits {
	case taken:
		return Right
	case 0:
		return Wrong
	}

	return Open
}
