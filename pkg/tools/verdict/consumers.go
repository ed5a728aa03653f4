package verdict

import (
	"slices"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
)

// Consumer is a row of the verdict: a program that reads the PCI tree (pkg/consumers), and for how many
// GPUs or pairs it decides in which way in the guest.
type Consumer struct {
	Consumer string `json:"consumer"` // its name
	Unit     string `json:"unit"`     // what it decides for: "GPU" or "pair"
	Asks     string `json:"asks"`     // what it asks the tree about each
	Yes      int    `json:"yes"`      // for how many the answer is yes
	Open     int    `json:"open"`     // several NICs are as good as each other to it
	No       int    `json:"no"`       // for how many the answer is no
	Unknown  int    `json:"unknown"`  // not in the text
	// variables to set in the guest, as steps has them
	Set []string `json:"set"`
	// compared with the host; null without its file, and where it is not shown which device is which
	Host *AsOnHost `json:"host"`
}

// AsOnHost counts decisions by what they are beside those on the host.
type AsOnHost struct {
	Right   int `json:"right"`   // as on the host
	Open    int `json:"open"`    // a tie that has the host's, or less than on the host
	Wrong   int `json:"wrong"`   // something else than on the host
	Unknown int `json:"unknown"` // not in the texts
}

// questions has a consumer's question about each GPU or pair. AtomicOps has none: the guest's text does
// not show them.
var questions = map[string]string{
	consumers.NCCL:    "does it use GPUDirect RDMA to its NIC",
	consumers.UCX:     "does it take one NIC, the nearest",
	consumers.DRARoot: "are they on one PCIe root",
	consumers.DRANode: "are they on one NUMA node",
	consumers.P2PDMA:  "may they reach each other's memory",
	consumers.HWLoc:   "has it one nearest NIC",
}

// answer is a consumer's decision about one GPU or pair.
type answer int

const (
	no answer = iota
	open
	yes
	unknown
)

// count counts an answer.
func (c *Consumer) count(a answer) { *[]*int{&c.No, &c.Open, &c.Yes, &c.Unknown}[a]++ }

// of returns the answer to a question of yes and no.
func of(isYes, isKnown bool) answer {
	switch {
	case !isKnown:
		return unknown
	case isYes:
		return yes
	}
	return no
}

// side is the guest or the host, with devices in one order.
type side struct {
	shown      *paste.Machine
	gpus, nics []*topology.Function
	consumers.Machine
}

func (v *Verdict) guestSide() side {
	return side{&v.guest, v.gpus, v.nics, consumers.Machine{
		Machine: machine(&v.guest, v.gpus, v.nics), HasCells: true, HasOneCell: len(v.guest.NUMA) < 2,
	}}
}

// consume fills in what each consumer decides in the guest's tree.
func (v *Verdict) consume() {
	s := v.guestSide()
	cpus := v.cpus()
	for _, c := range consumers.All {
		question, isAsked := questions[c.Name]
		row := Consumer{Consumer: c.Name, Unit: c.Unit, Asks: question, Set: []string{}}
		if !isAsked {
			continue
		}

		for i := range v.gpus {
			// Whatever is asked about a GPU alone is asked about its NIC.
			if c.Unit == "GPU" && len(v.nics) > 0 {
				row.count(v.askGPU(c.Name, &s, cpus, i))
			}
			if c.Unit == "pair" {
				s.pairsOf(i, func(x, y end) { row.count(v.askPair(c.Name, &s, cpus, x, y)) })
			}
		}

		if row.Yes+row.Open+row.No+row.Unknown > 0 {
			v.Consumers = append(v.Consumers, row)
		}
	}
}

// sameFor returns the answer that is the same on each of the CPUs that the guest may have; unknown if
// it depends on them.
func sameFor(cpus []topology.CPU, s *side, ask func() answer) (a answer) {
	for i, cpu := range cpus {
		s.CPU = cpu
		if next := ask(); i == 0 {
			a = next
		} else if next != a {
			return unknown
		}
	}

	return a
}

// cpus returns the CPUs that the guest may have: those that its text or the host's shows, else one of
// each kind that a consumer tells from others. Grace shows in the host's root ports alone.
func (v *Verdict) cpus() []topology.CPU {
	for _, m := range []*paste.Machine{v.host, &v.guest} {
		if m == nil {
			continue
		}

		cpu := m.CPU
		for _, d := range slices.Concat(m.GPUs(), m.NICs()) {
			if port := portOf(m, d); cpu == (topology.CPU{}) && port != nil {
				cpu = topology.CPUOfRootPort(port.Vendor, port.Device)
			}
		}

		if cpu.Arch == "x86" || cpu.IsAMD() || cpu.IsGrace {
			return []topology.CPU{cpu}
		}
	}

	old := topology.CPU{Vendor: topology.CPUVendorAMD, Family: 0xf}
	return []topology.CPU{{}, {Vendor: topology.CPUVendorAMD}, old, {IsGrace: true}}
}

// portOf returns the root port above a function; nil where the text does not show it.
func portOf(m *paste.Machine, d *topology.Function) *topology.Function {
	if len(d.Bridges) == 0 {
		return nil
	}
	return m.FunctionAt(d.Bridges[0])
}

// askGPU returns what a consumer decides about the GPU at a position. Only UCX asks for the CPU.
func (v *Verdict) askGPU(consumer string, s *side, cpus []topology.CPU, i int) answer {
	switch direct := v.GPUs[i].Direct; {
	case v.faulty[v.gpus[i]]:
		return no
	case consumer == consumers.NCCL:
		return of(direct != nil && *direct, direct != nil)
	case !s.decides(i, consumer):
		return unknown
	}

	score, mayTie := consumers.UCXBandwidth, s.mayTie(i, consumer)
	if consumer != consumers.UCX {
		score, cpus = consumers.HwlocDepth, cpus[:1]
	}
	return sameFor(cpus, s, func() answer { return s.take(i, score, mayTie) })
}

// take returns whether a consumer takes one NIC for the GPU at a position, by its score of each.
func (s *side) take(
	i int, score func(m consumers.Machine, gpu, nic *topology.Node) int, mayTie bool,
) answer {
	// Beside the best score two facts count: whether any NIC is on the PCIe root of the GPU, and
	// whether one with the best score is.
	gpu := s.GPUs[i].Node
	most, taken, ofRoot, isOfRoot := -1, 0, false, false
	for _, nic := range s.NICs {
		isBeside := topology.Common(gpu, nic) != nil
		ofRoot = ofRoot || isBeside
		switch n := score(s.Machine, gpu, nic); {
		case n > most:
			most, taken, isOfRoot = n, 1, isBeside
		case n == most:
			taken++
			isOfRoot = isOfRoot || isBeside
		}
	}

	switch {
	case ofRoot && !isOfRoot: // UCX alone has a NIC elsewhere before one of the GPU's root
		return no
	case taken > 1, mayTie:
		return open
	}

	return yes
}

// askPair returns what a consumer decides about a pair of devices. Only P2PDMA asks for the CPU.
func (v *Verdict) askPair(consumer string, s *side, cpus []topology.CPU, x, y end) answer {
	switch {
	case v.faulty[x.d] || v.faulty[y.d]:
		return no
	case consumer == consumers.DRARoot:
		return of(topology.Common(x.Node, y.Node) != nil, s.knowsRoot(x.d, y.d))
	case consumer == consumers.DRANode:
		node := x.NUMANode()
		return of(node != nil && topology.Same(node, y.NUMANode()), s.knowsNodes(x.d, y.d))
	case !s.isNearKnown(x.d, y.d):
		return unknown
	}

	return sameFor(cpus, s, func() answer {
		return of(consumers.AllowsPeers(s.CPU, x.Node, y.Node), true)
	})
}

// end is a device of a pair, as the text shows it and in the tree.
type end struct {
	d *topology.Function
	*topology.Node
}

// pairsOf yields the GPU at a position with each NIC, and with each GPU before it.
func (s side) pairsOf(i int, yield func(x, y end)) {
	gpu := end{s.gpus[i], s.GPUs[i].Node}
	for k, nic := range s.nics {
		yield(gpu, end{nic, s.NICs[k]})
	}

	for k, other := range s.gpus[:i] {
		yield(gpu, end{other, s.GPUs[k].Node})
	}
}

// isNearKnown reports whether the text says whether a switch is above two devices.
func (s side) isNearKnown(x, y *topology.Function) bool {
	_, isKnown := s.shown.PathType(x.Address, y.Address)
	return isKnown || s.shown.IsNodeOrSys(x.Address, y.Address)
}

// knowsRoot reports whether the text says whether two devices are on one PCIe root. NCCL's files and
// logs have NUMA nodes in the place of roots.
func (s side) knowsRoot(x, y *topology.Function) bool {
	between, _ := s.shown.PathType(x.Address, y.Address)
	areNodes := (s.shown.Has(paste.NCCL) || s.shown.Has(paste.NCCLLog)) &&
		(paste.IsStandIn(x.Root) || paste.IsStandIn(y.Root))
	return s.isNearKnown(x, y) && (between <= topology.PXB || !areNodes)
}

func (s side) knowsNodes(x, y *topology.Function) bool {
	return s.shown.KnowsNode(x) && s.shown.KnowsNode(y)
}

// decides reports whether the text says enough of the paths from the GPU at a position to each NIC: a
// NIC under a switch with it comes before all others, of which no more has to be known.
func (s side) decides(i int, consumer string) bool {
	if s.shown.LacksDevices {
		return false
	}

	isNear, isKnown, gpu := false, true, s.gpus[i]
	for _, nic := range s.nics {
		between, knowsPath := s.shown.PathType(gpu.Address, nic.Address)
		if !s.isNearKnown(gpu, nic) {
			return false
		}

		isNear = isNear || knowsPath && between <= topology.PXB
		isKnown = isKnown && knowsPath && s.knowsRoot(gpu, nic)
	}

	return isNear || isKnown
}

// mayTie reports whether several NICs are the nearest of the GPU at a position by path type,
// while the consumer also counts the bridges between, which the text does not have: UCX does on
// one PCIe root, hwloc under cascaded switches.
func (s side) mayTie(i int, consumer string) bool {
	// These texts have every bridge, so a tie shows in the tree itself.
	for _, whole := range []paste.Source{
		paste.Snapshot, paste.Lspci, paste.RDMATopo, paste.NodeDevices,
	} {
		if s.shown.Has(whole) {
			return false
		}
	}

	loose := topology.PXB
	if consumer == consumers.UCX {
		loose = topology.PHB
	}

	nearest, count := topology.SYS, 0
	for _, nic := range s.nics {
		between, _ := s.shown.PathType(s.gpus[i].Address, nic.Address)
		nearest = min(nearest, between)
		if between == loose {
			count++
		}
	}

	return nearest == loose && count > 1
}

// compareConsumers fills in what each consumer decides beside what it decides on the host, and the
// programs that decide about a GPU.
func (v *Verdict) compareConsumers(gpus, nics []pairing) {
	guest, host := v.guestSide(), v.hostSide(gpus, nics)

	// The decisions that are the same on all CPUs that the guest may have.
	type decision struct {
		consumer int
		consumers.Decision
	}
	var decisions []decision
	byCPU := map[int]bool{}
	for k, cpu := range v.cpus() {
		guest.CPU, host.CPU = cpu, cpu
		at := 0
		consumers.Judge(host.Machine, guest.Machine, func(consumer int, d consumers.Decision) {
			if k == 0 {
				decisions = append(decisions, decision{consumer, d})
			} else if decisions[at].Decision != d {
				byCPU[at] = true
			}
			at++
		})
	}

	tallies := map[string]*AsOnHost{}
	var known []decision
	undecided := map[string]bool{} // programs of which a decision is not known
	for at, d := range decisions {
		c := consumers.All[d.consumer]
		if tallies[c.Name] == nil {
			tallies[c.Name] = &AsOnHost{}
		}

		tally := tallies[c.Name]

		// A device that does not work is decided about wrongly, whatever the trees say. One that
		// differs between the CPUs that the guest may have is not known.
		switch isKnown, isBroken := v.knows(c.Name, guest, host, d.Decision); {
		case isBroken:
			tally.Wrong++
			d.Verdict = consumers.Wrong
		case !isKnown || byCPU[at]:
			tally.Unknown++
			undecided[c.Program] = true
		case d.Verdict == consumers.Right:
			tally.Right++
		case d.Verdict == consumers.Open:
			tally.Open++
		default:
			tally.Wrong++
		}

		known = append(known, d)
	}

	for i := range v.Consumers {
		v.Consumers[i].Host = tallies[v.Consumers[i].Consumer]
	}

	// The headline counts GPUs of programs that decide nothing unknown.
	v.programs = consumers.ProgramsOf(guest.Machine, func(yield func(int, consumers.Decision)) {
		for _, d := range known {
			if !undecided[consumers.All[d.consumer].Program] {
				yield(d.consumer, d.Decision)
			}
		}
	})
}

// hostSide returns the host with the devices of the guest alone, which have the guest's names.
func (v *Verdict) hostSide(gpus, nics []pairing) side {
	onHost := func(p pairing) *topology.Function { return p.host }
	s := side{shown: v.host, gpus: topology.Map(gpus, onHost), nics: topology.Map(nics, onHost)}
	s.Machine.Machine = machine(v.host, s.gpus, s.nics)

	// Decisions are compared by the names of devices, so both sides have those of the guest. Only
	// the links of the host are looked up by its own names.
	names := map[topology.ID]topology.ID{} // on the host, by that in the guest
	for i, p := range gpus {
		names[idOf(p.guest)] = idOf(p.host)
		s.GPUs[i].Node.ID = idOf(p.guest)
	}

	for i, p := range nics {
		names[idOf(p.guest)] = idOf(p.host)
		s.NICs[i].ID = idOf(p.guest)
	}

	links := s.Link
	s.Link = func(n *topology.Node) topology.Link {
		if name := names[n.ID]; name != nil {
			renamed := *n
			renamed.ID = name
			n = &renamed
		}
		return links(n)
	}

	return s
}

// knows reports whether the texts of guest and host say enough for a decision, and whether a device of
// it cannot work in the guest.
func (v *Verdict) knows(
	consumer string, guest, host side, d consumers.Decision,
) (isKnown, isBroken bool) {
	isX := func(id topology.ID) func(ncclgraph.GPU) bool {
		return func(gpu ncclgraph.GPU) bool { return gpu.Node.ID == id }
	}
	i, k := slices.IndexFunc(guest.GPUs, isX(d.GPU)), slices.IndexFunc(host.GPUs, isX(d.GPU))
	x, hostX := guest.gpus[i], host.gpus[k]
	if d.Other == nil {
		return v.knowsGPU(consumer, guest, host, i, k, d.Verdict), v.faulty[x]
	}

	y, hostY := guest.function(d.Other), host.function(d.Other)
	switch isBroken = v.faulty[x] || v.faulty[y]; consumer {
	case consumers.DRARoot:
		isKnown = guest.knowsRoot(x, y) && host.knowsRoot(hostX, hostY)
	case consumers.DRANode:
		isKnown = guest.knowsNodes(x, y) && host.knowsNodes(hostX, hostY)
	default:
		isKnown = guest.isNearKnown(x, y) && host.isNearKnown(hostX, hostY)
	}

	return isKnown, isBroken
}

// function returns the device with a name.
func (s side) function(id topology.ID) *topology.Function {
	for i, gpu := range s.GPUs {
		if gpu.Node.ID == id {
			return s.gpus[i]
		}
	}

	return s.nics[slices.IndexFunc(s.NICs, func(n *topology.Node) bool { return n.ID == id })]
}

// knowsGPU reports whether the texts say enough for the verdict on a decision about a GPU, which is at
// a position in the guest and at another on the host.
func (v *Verdict) knowsGPU(
	consumer string, guest, host side, i, k int, verdict consumers.Verdict,
) bool {
	decides := guest.decides(i, consumer) && host.decides(k, consumer)
	hasLostNICs := len(nicsOf(&v.guest)) > len(v.nics)

	// A right decision may be chance where a tie is hidden, by bridges that the text lacks or by
	// NICs that were left out.
	if consumer != consumers.NCCL {
		mayTie := guest.mayTie(i, consumer) || host.mayTie(k, consumer) || hasLostNICs
		return decides && (verdict != consumers.Right || !mayTie)
	}

	// A link that the text lacks limits no path of the model.
	bySpeed := verdict == consumers.Right || verdict == consumers.Harmful
	return v.GPUs[i].Direct != nil && v.allDecide(guest, host) &&
		(!bySpeed || !hasLostNICs && guest.showsLinks() && host.showsLinks())
}

// allDecide reports whether the texts say enough of the paths of all GPUs: over NVLink one takes the
// way of another.
func (v *Verdict) allDecide(guest, host side) bool {
	for i := range guest.gpus {
		if !guest.decides(i, consumers.NCCL) || !host.decides(i, consumers.NCCL) {
			return false
		}
	}
	return true
}

// showsLinks reports whether the text has the link of each device, and of each port above one.
func (s side) showsLinks() bool {
	for _, d := range slices.Concat(s.gpus, s.nics) {
		if d.MaxLink == nil {
			return false
		}

		for _, a := range d.Bridges {
			if port := s.shown.FunctionAt(a); port == nil || port.MaxLink == nil {
				return false
			}
		}
	}

	return true
}
