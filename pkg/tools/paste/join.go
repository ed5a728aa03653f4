package paste

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Join makes one machine of several, such as those of several files. The one that says most is the
// first. A part whose functions are not those of the others is left out, which a note says.
func Join(parts []Machine) (Machine, error) {
	ordered := slices.Clone(parts)
	slices.SortStableFunc(ordered, func(a, b Machine) int {
		return cmp.Compare(a.rank(), b.rank())
	})
	return join(ordered)
}

// rank returns the place of a machine's first source in the order of what they say.
func (m *Machine) rank() int {
	order := []Source{
		Snapshot, RDMATopo, NodeDevices, Lstopo, Lspci, NCCL, NCCLLog, NVIDIAList, AMDSMI, ROCmSMI, NICNames, NVIDIASMI,
	}
	if i := slices.Index(order, m.Sources[0]); i >= 0 {
		return i
	}
	return len(order)
}

// join joins parts, the first of which says most. Those in which nothing is recognised come last.
func join(parts []Machine) (Machine, error) {
	ordered := slices.Clone(parts)
	slices.SortStableFunc(ordered, func(a, b Machine) int {
		return cmp.Compare(min(1, b.passed()), min(1, a.passed()))
	})

	m := ordered[0]
	for _, part := range ordered[1:] {
		m.add(part)
	}

	m, err := m.sorted()

	// The tree is made anew, of paths that different parts have.
	hasRoot := func(f topology.Function) bool { return f.Root != "" }
	if m.Farthest != topology.Self || slices.ContainsFunc(m.Functions, hasRoot) {
		m = m.withTree()
	}

	if len(parts) > 1 {
		m.Contradiction = m.contradiction(parts)
	}

	return m, err
}

// contradiction says for which pairs the tables of parts and the tree have different path types.
// Which NIC of a table is at which address may be a guess by order: then those of a GPU are compared
// by how many are how far.
func (m *Machine) contradiction(parts []Machine) string {
	names := func(hasTypes bool) string {
		var of []string
		for _, part := range parts {
			if name := part.SourceNames(); (len(part.types) > 0) == hasTypes {
				of = append(of, name)
			}
		}
		return strings.Join(of, ", ")
	}

	var differ []string
	compare := func(gpu *topology.Function, others []*topology.Function, byOrder bool) {
		var said, shown []reach
		for _, other := range others {
			between, isSaid := m.types[PairOf(gpu.Address, other.Address)]
			inTree, isShown := m.treeType(gpu.Address, other.Address)
			if gpu != other && isSaid && isShown {
				said = append(said, reach{other, between})
				shown = append(shown, reach{other, inTree})
			}
		}

		// Sorted by distance the lists differ only if not as many NICs are near in one as in the
		// other.
		if byOrder {
			slices.SortStableFunc(said, reach.compare)
			slices.SortStableFunc(shown, reach.compare)
		}

		for i := range said {
			if said[i].class() != shown[i].class() {
				differ = append(differ, fmt.Sprintf("%s-%s: %s, %s", m.Label(gpu.Address),
					m.Label(said[i].to.Address), said[i].between, shown[i].between))
			}
		}
	}

	gpus, nics := m.GPUs(), m.NICs()
	for i, gpu := range gpus {
		compare(gpu, gpus[:i], false)
		compare(gpu, nics, m.guessedNICs)
	}

	if len(differ) == 0 {
		return ""
	}
	return fmt.Sprintf("%s and %s contradict each other for %s (%s)", names(true), names(false),
		words.Counted(len(differ), "pair"), differ[0])
}

// reach is the path type to a device.
type reach struct {
	to      *topology.Function
	between topology.PathType
}

// class returns what programs agree on: whether a switch is above both devices, else whether they
// are on one NUMA node.
func (r reach) class() int {
	switch {
	case r.between <= topology.PXB:
		return 0
	case r.between <= topology.NODE:
		return 1
	}
	return 2
}

func (r reach) compare(other reach) int { return cmp.Compare(r.class(), other.class()) }

// passed counts GPUs and NICs.
func (m *Machine) passed() int { return len(m.GPUs()) + len(m.NICs()) }

// add adds a part. One without a function of the machine is taken if it has what the machine lacks:
// a list of NICs belongs to one of GPUs.
func (m *Machine) add(part Machine) {
	same := m.match(&part)
	isOther := len(m.GPUs()) > 0 && len(part.GPUs()) > 0 ||
		len(m.NICs()) > 0 && len(part.NICs()) > 0

	switch {
	case len(same) > 0 || len(part.Faults) == len(part.Functions): // the others may not show it
	case part.passed() == 0: // such as a tree without names
		m.noteAll(part.Notes)
		return
	case isOther:
		m.note("%s and %s show different devices: the second is left out; are both of one machine?",
			m.SourceNames(), part.SourceNames())
		return
	}

	m.addFunctions(&part, same)
	for pair, between := range part.types {
		m.relate(same[pair[0]], same[pair[1]], between)
	}

	for pair, word := range part.Peers {
		if m.Peers == nil {
			m.Peers = map[Pair]string{}
		}
		m.Peers[PairOf(same[pair[0]], same[pair[1]])] = word
	}

	for _, n := range part.NUMA {
		m.addNode(n.ID, n.CPUs)
	}

	m.Farthest = max(m.Farthest, part.Farthest)
	m.LacksDevices = m.LacksDevices || part.LacksDevices
	m.Sources = append(m.Sources, part.Sources...)
	m.noteAll(part.Notes)
}

// noteAll adds sentences to the notes.
func (m *Machine) noteAll(sentences []string) {
	for _, sentence := range sentences {
		m.note("%s", sentence)
	}
}

// addFunctions adds the functions of a part. Same says which of them the machine has already, and
// gets the others.
func (m *Machine) addFunctions(
	part *Machine, same map[topology.Address]topology.Address,
) {
	for i := range part.Functions {
		d := part.Functions[i]
		if to, found := same[d.Address]; found {
			m.fill(m.at(to), part, &part.Functions[i])
		} else {
			m.Functions = append(m.Functions, d)
			same[d.Address] = d.Address
			if part.nodeless[d.Address] {
				m.lacksNode(d.Address)
			}
		}

		to := same[d.Address]
		if name := part.Names[d.Address]; name != "" && m.Names[to] == "" {
			m.name(to, name)
		}

		for _, number := range part.Identities[d.Address] {
			m.identified(to, number)
		}

		if fault := part.Faults[d.Address]; fault != "" {
			m.fault(to, fault)
		}

		if part.Linked[d.Address] {
			m.link(to)
		}

		if part.OverC2C[d.Address] {
			m.linkC2C(to)
		}

		if cpus, known := part.CPUs[d.Address]; known {
			m.nearCPUs(to, cpus)
		}
	}
}

// fill adds to a function what a part says of it in addition.
func (m *Machine) fill(d *topology.Function, part *Machine, from *topology.Function) {
	d.Class = cmp.Or(d.Class, from.Class)
	d.Vendor, d.Device = cmp.Or(d.Vendor, from.Vendor), cmp.Or(d.Device, from.Device)
	d.Driver = cmp.Or(d.Driver, from.Driver)
	if d.MaxLink == nil {
		d.MaxLink = from.MaxLink
	}

	if d.IOMMUGroup == nil {
		d.IOMMUGroup = from.IOMMUGroup
	}

	if d.BARs == nil {
		d.BARs = from.BARs
	}

	if d.Details == nil || !d.Details.ExtendedConfig {
		d.Details = cmp.Or(from.Details, d.Details)
	}

	// The path comes from one text as a whole: bridges of one under the root of another are none.
	if d.Root == "" {
		d.Root, d.Bridges = from.Root, from.Bridges
	}

	if !m.KnowsNode(d) {
		d.Node = from.Node
		if part.KnowsNode(from) {
			delete(m.nodeless, d.Address)
		}
	}
}

// match returns where the functions of a part are in the machine. Those with an address are at it.
// Those without are the one of their name; else GPUs and NICs are in the order of addresses, as
// CUDA and drivers number them, if both have as many.
func (m *Machine) match(part *Machine) map[topology.Address]topology.Address {
	same := map[topology.Address]topology.Address{}
	known := map[topology.Address]bool{}
	for _, d := range m.Functions {
		known[d.Address] = HasAddress(d.Address)
	}

	for _, d := range part.Functions {
		if known[d.Address] {
			same[d.Address] = d.Address
		}
	}

	m.matchNames(part, same)
	m.matchOrder(part, (*Machine).GPUs, same)
	m.matchOrder(part, (*Machine).NICs, same)
	return same
}

// matchNames matches NICs by the names of their drivers.
func (m *Machine) matchNames(part *Machine, same map[topology.Address]topology.Address) {
	named := map[string]topology.Address{}
	for a, name := range m.Names {
		named[name] = a
	}

	for _, d := range part.NICs() {
		if to, found := named[part.Names[d.Address]]; found {
			same[d.Address] = to
		}
	}
}

// matchOrder matches those of a kind that lack an address on one side.
func (m *Machine) matchOrder(
	part *Machine, kind func(*Machine) []*topology.Function,
	same map[topology.Address]topology.Address,
) {
	own, theirs := kind(m), kind(part)
	hasAddresses := func(all []*topology.Function) bool {
		return !slices.ContainsFunc(all, func(d *topology.Function) bool {
			return !HasAddress(d.Address)
		})
	}
	if len(own) == 0 || len(theirs) == 0 || hasAddresses(own) && hasAddresses(theirs) {
		return
	}

	if len(own) != len(theirs) {
		what := "GPUs"
		if own[0].IsNIC() {
			what = "NICs"
		}

		m.note("%s shows %d %s and %s %d, so which is which is not known", m.SourceNames(),
			len(own), what, part.SourceNames(), len(theirs))
		return
	}

	// By the names of their drivers they are matched already, which is no guess.
	if _, isMatched := same[theirs[0].Address]; isMatched {
		return
	}

	if own[0].IsNIC() {
		m.guessedNICs = true
		m.note("which NIC has which address is a guess by order: ibdev2netdev -v or mst status " +
			"-v tells it")
	}

	for i := range theirs {
		same[theirs[i].Address] = own[i].Address
	}
}
