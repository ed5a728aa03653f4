// Package verdict says what a guest's software makes of its PCI tree, for a person who has only the
// guest: good, partly, flat or broken, what that costs, what they can do themselves, and what to
// send. For a person who has the plan, too, it compares the guest with it (guest.go).
package verdict

import (
	"slices"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
)

// Verdict is the answer about one guest.
type Verdict struct {
	// 1; it rises when a field is removed or changes its meaning
	SchemaVersion int      `json:"schemaVersion"`
	Sources       []string `json:"sources"` // formats that were read
	Outcome       Outcome  `json:"outcome"` // good, partly, flat, broken (no GPU or NIC works), unknown
	Cost          string   `json:"cost"`    // what it costs, as the end of a sentence
	GPUs          []GPU    `json:"gpus"`    // in the order of their addresses
	// those that NCCL can use, in the order of their addresses
	NICs      []NIC      `json:"nics"`
	Relations []Relation `json:"relations"` // pairs by path type: GPU-GPU, GPU-NIC
	// what each consumer of the tree decides that decides anything about the devices
	Consumers []Consumer `json:"consumers"`
	// whether NCCL believes that a port slows down a path that it uses
	Limited bool        `json:"limited"`
	Host    *Comparison `json:"host"` // null without the host's file
	// what the guest's user can do without an administrator
	Steps []Step   `json:"steps"`
	Send  []string `json:"send"`  // sentences to send to the administrator
	Notes []string `json:"notes"` // what was cut, guessed or contradictory

	guest  paste.Machine
	host   *paste.Machine
	gpus   []*topology.Function
	nics   []*topology.Function
	direct int // GPUs with GPUDirect RDMA
	judged int // GPUs of which that is known
	broken int // GPUs that cannot work
	faults []fault
	faulty map[*topology.Function]bool // devices with a fault
	short  string                      // the cost without the faults; "" without any
	robbed int                         // GPUs that lack the NIC of their switch, which cannot work
	viaC2C int                         // GPUs without a switch to a NIC that reach the CPU over NVLink-C2C
	unsure int                         // GPUs that may have a nearer NIC than those whose path is known

	programs []consumers.Program // compared with the host
}

// Outcome is the verdict in a word.
type Outcome string

// The outcomes.
const (
	Good    Outcome = "good"
	Partly  Outcome = "partly"
	Flat    Outcome = "flat"
	Broken  Outcome = "broken" // no GPU works, or no NIC
	Unknown Outcome = "unknown"
)

// GPU is a GPU of the guest.
type GPU struct {
	Name    string            `json:"name"`    // GPU0: its place in the order of addresses
	Address *topology.Address `json:"address"` // null where the text lacks it
	Node    *int              `json:"node"`    // guest NUMA cell; null for none or not known
	CPUs    *string           `json:"cpus"`    // of the cell, or near the GPU
	NIC     *string           `json:"nic"`     // that NCCL takes
	Path    *string           `json:"path"`    // to it: PIX, PXB, PXN (over NVLink), PHB or SYS
	// whether NCCL uses GPUDirect RDMA; null where the path is not known
	Direct *bool `json:"direct"`
	// why it does not, or why that is not known; "" where it does
	Why string `json:"why"`
}

// NIC is a NIC of the guest that NCCL can use.
type NIC struct {
	Name    string            `json:"name"`    // that of its driver, else its address
	Address *topology.Address `json:"address"` // null where the text lacks it
	Node    *int              `json:"node"`    // guest NUMA cell; null for none or not known
}

// Relation counts pairs by path type.
type Relation struct {
	Kind    string `json:"kind"`    // GPU-GPU or GPU-NIC
	PIX     int    `json:"PIX"`     // one switch
	PXB     int    `json:"PXB"`     // several switches
	PHB     int    `json:"PHB"`     // one PCIe root; in NCCL's files one NUMA node
	NODE    int    `json:"NODE"`    // one NUMA node
	SYS     int    `json:"SYS"`     // two NUMA nodes
	Linked  int    `json:"linked"`  // joined by NVLink or XGMI, which hides the path
	Unknown int    `json:"unknown"` // not in the text
}

// Step is something that the guest's user can do.
type Step struct {
	What string   `json:"what"` // in a sentence
	Text []string `json:"text"` // lines to copy
}

// New returns the verdict about a guest. Host is nil or what the bare metal shows.
func New(guest paste.Machine, host *paste.Machine) Verdict {
	v := Verdict{
		SchemaVersion: 1,
		Sources: topology.Map(guest.Sources, func(s paste.Source) string {
			return string(s)
		}),
		Outcome:   Unknown,
		GPUs:      []GPU{},
		NICs:      []NIC{},
		Relations: []Relation{},
		Consumers: []Consumer{},
		Steps:     []Step{},
		Send:      []string{},
		Notes:     append([]string{}, guest.Notes...),
		guest:     guest,
		host:      host,
		faulty:    map[*topology.Function]bool{},
		gpus:      gpusOf(&guest),
		nics:      nicsOf(&guest),
	}

	// A NIC that cannot work is left out of all that follows, since NCCL does not find it. A GPU
	// that cannot work stays, with that as the reason: the person asks about each.
	var badNICs []fault
	v.nics, badNICs = v.split(v.nics)
	_, badGPUs := v.split(v.gpus)
	v.broken = len(badGPUs)
	for _, d := range v.nics {
		v.NICs = append(v.NICs, NIC{guest.Label(d.Address), address(d), nodeOf(&guest, d)})
	}

	v.Relations = []Relation{
		count("GPU-GPU", &guest, v.gpus, v.gpus), count("GPU-NIC", &guest, v.gpus, v.nics),
	}

	// judge gives the outcome by the tree alone. Each step after it may lower that for a reason
	// of its own. judgeDriver is the last, since it adds to an outcome that is still good.
	v.decide()
	v.judge()
	v.judgeNode()
	v.judgeOneNode()
	v.judgeUnseenLinks()
	v.judgeFaults(badGPUs, badNICs)
	v.judgeDriver()

	// Texts of two boots answer no question about the guest, and are no ground for a step.
	// compare adds to the rows of consume, and the steps follow from both.
	if v.guest.Contradiction == "" {
		v.consume()
	}
	if host != nil {
		v.compare()
	}

	v.notePeers()
	if v.guest.Contradiction == "" {
		v.advise()
	}
	return v
}

// gpusOf returns the GPUs that NCCL or RCCL takes: where some are NVIDIA's or AMD's, no others.
func gpusOf(m *paste.Machine) []*topology.Function {
	return preferred(m.GPUs(), func(d *topology.Function) bool {
		return d.Vendor == topology.VendorNVIDIA || d.Vendor == topology.VendorAMDGPU
	})
}

// nicsOf returns the NICs that NCCL can use: where some are for RDMA, no others but those without it
// that a GPU is near.
func nicsOf(m *paste.Machine) []*topology.Function {
	return preferred(m.NICs(), func(d *topology.Function) bool {
		isKnown := d.Class>>8 == topology.ClassInfiniBand>>8 ||
			d.Vendor == topology.VendorMellanox || d.Vendor == topology.VendorAmazon
		return isKnown || m.Names[d.Address] != "" || m.Faults[d.Address] != "" && isNearGPU(m, d)
	})
}

// preferred returns the devices that are preferred, or all where none is.
func preferred(all []*topology.Function, is func(*topology.Function) bool) []*topology.Function {
	if !slices.ContainsFunc(all, is) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(d *topology.Function) bool { return !is(d) })
}

// address returns a function's address; nil for a stand-in.
func address(d *topology.Function) *topology.Address {
	if !paste.HasAddress(d.Address) {
		return nil
	}
	return &d.Address
}

// nodeOf returns the NUMA node of a function; nil for none and where it is not known.
func nodeOf(m *paste.Machine, d *topology.Function) *int {
	node, hasNode := d.Node.Node()
	if !hasNode || !m.KnowsNode(d) {
		return nil
	}
	return new(int(node))
}

// count counts the pairs of two lists, or of one with itself, by path type.
func count(kind string, m *paste.Machine, first, second []*topology.Function) Relation {
	r := Relation{Kind: kind}
	by := map[topology.PathType]*int{
		topology.PIX: &r.PIX, topology.PXB: &r.PXB, topology.PHB: &r.PHB,
		topology.NODE: &r.NODE, topology.SYS: &r.SYS,
	}

	for i, a := range first {
		for j, b := range second {
			if a == b || kind == "GPU-GPU" && j < i {
				continue
			}

			between, known := m.PathType(a.Address, b.Address)
			switch {
			case known && by[between] != nil:
				*by[between]++
			case m.Linked[a.Address] && m.Linked[b.Address]:
				r.Linked++
			default:
				r.Unknown++
			}
		}
	}

	return r
}

// machine returns the GPUs and NICs as NCCL finds them.
func machine(m *paste.Machine, gpus, nics []*topology.Function) ncclgraph.Machine {
	ids := topology.Map(append(slices.Clone(gpus), nics...), idOf)
	tree := m.AsShown(m.Tree(ids), ids)
	graph := ncclgraph.Machine{Link: linksOf(m)}
	for _, d := range gpus {
		graph.GPUs = append(graph.GPUs, ncclgraph.GPU{
			Node: tree.Node(idOf(d)), NVLink: hasNVLink(m, d), XGMI: hasXGMI(m, d),
		})
	}

	for _, d := range nics {
		graph.NICs = append(graph.NICs, tree.Node(idOf(d)))
	}

	return graph
}

// hasNVLink reports whether a GPU reaches others over NVLink.
func hasNVLink(m *paste.Machine, d *topology.Function) bool {
	return m.Linked[d.Address] && d.Vendor != topology.VendorAMDGPU || ncclgraph.HasNVLink(d)
}

// hasXGMI reports whether a GPU reaches others over XGMI.
func hasXGMI(m *paste.Machine, d *topology.Function) bool {
	return m.Linked[d.Address] && d.Vendor == topology.VendorAMDGPU || ncclgraph.HasXGMI(d)
}

func idOf(d *topology.Function) topology.DeviceID { return topology.PCIDevice(d.Address) }

// linksOf returns what a machine shows of links. One that the text lacks limits no path; one that
// sysfs or NCCL's file shows as unknown is unknown.
func linksOf(m *paste.Machine) func(*topology.Node) topology.Link {
	saysUnknown := m.Has(paste.Snapshot)
	return func(n *topology.Node) topology.Link {
		var d *topology.Function
		switch id := n.ID.(type) {
		case topology.DeviceID:
			d = m.Function(id)
		case topology.Address:
			d = m.FunctionAt(id)
		}

		switch {
		case d == nil:
			return ncclgraph.Unlimited
		case d.MaxLink != nil:
			return *d.MaxLink
		case saysUnknown:
			return topology.Link{}
		}

		return ncclgraph.Unlimited
	}
}
