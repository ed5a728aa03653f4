package paste

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words/lazyregexp"
)

const ncclMark = "NCCL INFO "

// The lines of NCCL's log. With NCCL_DEBUG_SUBSYS=GRAPH it prints the tree of the machine
// (src/graph/topo.cc, ncclTopoPrintRec), where an id is an address as one number: 0-65000 is
// 0000:65:00.0 of machine 0.
var (
	// logNode is a node of the tree, at the end of a link: + PCI[24.0] - GPU/0-65000 (3)
	logNode = lazyregexp.New(`^( *)(?:\+ (PCI|NVL|SYS|NET|C2C|XGMI|ARI)\[([0-9.]+)\] - )?` +
		`(CPU|PCI|GPU|NIC|NET|NVS)/(?:([0-9A-Fa-f]+)-)?([0-9A-Fa-f]+)\b`)

	// logBusID is an address in a line of INIT: cudaDev 0 nvmlDev 0 busId 65000
	logBusID = lazyregexp.New(`\bbusId ([0-9a-f]{2,9})\b`)

	// logNIC is a NIC in the line of the network: NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE
	logNIC = lazyregexp.New(`\[([0-9]+)\]([A-Za-z0-9_]+):[0-9]+/(?:IB|RoCE)`)
)

func isNCCLLog(t text) bool {
	return strings.Contains(t.all, ncclMark) && anyLine(t, func(line string) bool {
		_, said, _ := strings.Cut(line, ncclMark)
		return said != "" &&
			(logNode.MatchString(said) || logPaths.MatchString(said) ||
				logBusID.MatchString(said) || logNIC.MatchString(said))
	})
}

// logPlace is a node of the log's tree whose children begin at a column.
type logPlace struct {
	column int
	at     topology.Function
	isCPU  bool
}

// logReader collects the devices of the log.
type logReader struct {
	m        Machine
	open     []logPlace
	who      string         // the process and GPU that printed the first tree
	names    map[int]string // of NICs, by number
	nets     map[topology.Address]int
	isInPath map[topology.Address]bool // read in a table of paths
	isOver   bool                      // the first tree has ended
}

// readNCCLLog reads NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,GRAPH. Of several processes and
// machines it takes the first tree. Without GRAPH there are only addresses of GPUs and names of
// NICs.
func readNCCLLog(t text) (Machine, error) {
	r := &logReader{
		m:        Machine{Sources: []Source{NCCLLog}},
		names:    map[int]string{},
		nets:     map[topology.Address]int{},
		isInPath: map[topology.Address]bool{},
	}

	for _, line := range t.lines {
		if who, said, found := strings.Cut(line, ncclMark); found {
			r.facts(said)
			r.line(who, said)
		}

		if len(r.m.Functions) > 2*maxDevices {
			return Machine{}, errTooMany
		}
	}

	return r.machine(t)
}

// line reads a line of the tree. The first process that prints a node or the tree's heading is
// followed, until its next heading.
func (r *logReader) line(who, said string) {
	switch isHeading := strings.HasPrefix(said, "==="); {
	case isHeading && r.who == "" && strings.Contains(said, "System"):
		r.who = who

	// The heading before the tree does not end it: nothing has been read yet.
	case isHeading && who == r.who:
		r.isOver = r.isOver || len(r.m.Functions) > 0 && len(r.open) > 0
	case !r.isOver && (r.who == "" || who == r.who):
		if r.node(said) {
			r.who = cmp.Or(r.who, who)
		}
	}
}

// machine returns what was read: of the tree, else of the tables of paths, else of the lines
// before them.
func (r *logReader) machine(t text) (Machine, error) {
	for a, net := range r.nets {
		if name := r.names[net]; name != "" {
			r.m.name(a, name)
		}
	}

	isFunction := func(d topology.Function) bool { return !d.IsBridge }
	if slices.ContainsFunc(r.m.Functions, isFunction) {
		r.m.Farthest = topology.PHB
		m, err := r.m.sorted()
		return m.withTree(), err
	}

	// Without a tree the tables of paths say how far devices are apart.
	r.m.Functions = nil
	if r.fromPaths(t); len(r.m.Functions) > 0 {
		r.m.Farthest = topology.PHB
		r.m.settle()
		m, err := r.m.sorted()
		return m.withTree(), err
	}

	// Without tables there are addresses and names.
	r.fromInit(t)
	if len(r.m.Functions) == 0 {
		return Machine{},
			errors.New("NCCL's log is cut: the lines from \"=== System\" on, with CPU, " +
				"PCI, GPU and NIC, are missing")
	}

	r.m.note("NCCL's log has no paths: run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH, or " +
		"pass the file of NCCL_TOPO_DUMP_FILE")
	return r.m.sorted()
}

// facts notes what lines outside the tree say.
func (r *logReader) facts(said string) {
	if strings.Contains(said, "NET/") && strings.Contains(said, "Using") {
		for _, nic := range logNIC.FindAllStringSubmatch(said, -1) {
			if n, err := strconv.Atoi(nic[1]); err == nil && n < maxDevices {
				r.names[n] = nic[2]
			}
		}
	}
}

// node reads a line of the tree, and reports whether it is one.
func (r *logReader) node(said string) bool {
	match := logNode.FindStringSubmatchIndex(said)
	if match == nil {
		return false
	}

	part := func(i int) string {
		if match[2*i] < 0 {
			return ""
		}
		return said[match[2*i]:match[2*i+1]]
	}

	column, linkType, kind, id := len(part(1)), part(2), part(4), part(6)

	// Links begin in the column of the name of what they lead away from. What begins further
	// right has had all its links.
	for len(r.open) > 0 && r.open[len(r.open)-1].column > column {
		r.open = r.open[:len(r.open)-1]
	}

	// A CPU at the beginning of a line begins a tree. At the end of a link it is only named.
	if kind == "CPU" && linkType == "" {
		r.open = []logPlace{{column: column, at: r.cpu(id), isCPU: true}}
		return true
	}

	// What is under no CPU is the rest of a tree whose beginning is missing.
	if len(r.open) == 0 {
		return false
	}

	above := r.open[len(r.open)-1]
	switch {
	case kind == "NET" && above.at.IsNIC():
		// A NIC with several ports has several of these. It gets the name of the first.
		n, _ := strconv.ParseInt(id, 16, 32)
		if _, known := r.nets[above.at.Address]; !known {
			r.nets[above.at.Address] = int(n)
		}

	case linkType == "NVL" && above.at.IsGPU():
		r.m.link(above.at.Address)
	case linkType == "XGMI" && above.at.IsGPU():
		r.m.linkXGMI(above.at.Address)
	case linkType == "C2C" && above.at.IsGPU():
		r.m.linkC2C(above.at.Address)
	case linkType == "PCI" && kind != "NVS":
		r.function(kind, id, said[match[6]:match[7]], above.at, match[8])
	}

	return true
}

// cpu returns what is known of a device under a CPU, which is a NUMA node, in hex, or -1.
func (r *logReader) cpu(id string) (at topology.Function) {
	at.Root = topology.PCIeRoot("cpu " + id)
	if n, err := strconv.ParseInt(id, 16, 32); err == nil && n < maxDevices {
		at.Node = topology.OnNode(topology.NodeID(n))
		r.m.addNode(topology.NodeID(n), topology.IDs{})
	}

	return at
}

// function adds a switch, a GPU or a NIC at the other end of a link, whose children begin at a
// column.
func (r *logReader) function(kind, id, bandwidth string, at topology.Function, column int) {
	number, err := strconv.ParseUint(id, 16, 64)
	if err != nil || len(at.Bridges) > maxDepth {
		return
	}

	at.Address = addressOf(number)
	at.Bridges = append(slices.Clip(at.Bridges), portOf(at.Address))
	at.Class, at.IsBridge = map[string]uint32{
		"PCI": topology.ClassBridge, "GPU": topology.Class3D, "NIC": topology.ClassEthernet,
	}[kind], kind == "PCI"

	at.MaxLink = linkWith(bandwidth)

	if !slices.ContainsFunc(r.m.Functions, func(d topology.Function) bool {
		return d.Address == at.Address
	}) {
		r.m.Functions = append(r.m.Functions, at)
	}

	inside := at
	if at.IsBridge {
		inside.Bridges = append(slices.Clip(at.Bridges), at.Address)
	}

	r.open = append(r.open, logPlace{column: column, at: inside})
}

// linkWith returns a link whose bandwidth NCCL prints as one number, in GB/s (src/graph/topo.cc,
// kvDictPciGen: lanes at 2.5 and 5 GT/s have 0.6 of it, later ones 0.75); nil for none that fits.
func linkWith(bandwidth string) *topology.Link {
	printed, err := strconv.ParseFloat(bandwidth, 64)
	if err != nil {
		return nil
	}

	// Different links have one bandwidth, such as x16 at 8 GT/s and x8 at 16. NCCL does not tell
	// them apart, so the widest stands for all. The log has one digit after the point.
	for _, width := range []int{16, 8, 4, 2, 1} {
		for _, speed := range generations[1:] {
			perGT := 0.75
			if speed <= 5 {
				perGT = 0.6
			}

			if difference := speed*perGT*float64(width)/8 - printed; -0.051 < difference &&
				difference < 0.051 {
				return &topology.Link{Speed: speed, Width: width}
			}
		}
	}

	return nil
}

// addressOf returns the address that NCCL prints as one number (src/misc/utils.cc, int64ToBusId).
func addressOf(number uint64) topology.Address {
	return topology.Address{
		Domain: uint32(number >> 20), Bus: uint8(number >> 12),
		Device: uint8(number>>4) & 0x1f, Function: uint8(number & 7),
	}
}
