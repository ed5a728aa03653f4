package paste

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words/lazyregexp"
)

// rocmFact matches a line of rocm-smi about a GPU: GPU[0] : (Topology) Numa Node: 0
var rocmFact = lazyregexp.New(
	`^\s*GPU\[([0-9]{1,4})\]\s*:\s*(?:\(Topology\) )?([^:]+):\s*(\S+)`)

func isROCmSMI(t text) bool {
	return anyLine(t, func(line string) bool {
		return strings.Contains(line, "GPU[") && rocmFact.MatchString(line) ||
			strings.Contains(line, "ROCm System Management Interface") ||
			strings.Contains(line, " between two GPUs =")
	})
}

// readROCmSMI reads rocm-smi --showtopo and --showbus: NUMA nodes, addresses, and which GPUs are
// joined over XGMI. It shows no paths through PCI Express.
func readROCmSMI(t text) (Machine, error) {
	m := Machine{Sources: []Source{ROCmSMI}}
	gpus := map[int]*topology.Function{}
	linked, hasNode := map[int]bool{}, map[int]bool{}
	for _, line := range t.lines {
		n, joined, isRow := rocmRow(line)
		fact := rocmFact.FindStringSubmatch(line)
		if fact != nil {
			n, _ = strconv.Atoi(fact[1])
		} else if !isRow {
			continue
		}

		linked[n] = linked[n] || joined
		if gpus[n] == nil {
			gpus[n] = &topology.Function{
				Address: rocmStandIn.address(n), Class: topology.ClassAccelerator,
				Vendor: topology.VendorAMDGPU,
			}
			m.lacksNode(gpus[n].Address)
		}

		if fact == nil {
			continue
		}

		switch d := gpus[n]; strings.TrimSpace(fact[2]) {
		case "Numa Node":
			d.Node, _ = onNode(fact[3])
			hasNode[n] = true
		case "PCI Bus":
			if a, err := topology.ParseAddress(fact[3]); err == nil {
				d.Address = a
			}
		}

		if len(gpus) > maxDevices {
			return Machine{}, errTooMany
		}
	}

	for n, d := range gpus {
		m.Functions = append(m.Functions, *d)
		m.name(d.Address, fmt.Sprintf("GPU%d", n))
		if linked[n] {
			m.link(d.Address)
		}

		// The mark was made at the stand-in, before the address was read. It goes there, and is
		// made again at the address if the node is still not known.
		if delete(m.nodeless, rocmStandIn.address(n)); !hasNode[n] {
			m.lacksNode(d.Address)
		}
	}

	m.note("rocm-smi shows no paths through PCI Express: lstopo --of xml has them")
	return m.sorted()
}

// rocmRow reads a row of one of the tables, and returns the number of its GPU, and whether XGMI
// joins it with another.
func rocmRow(line string) (gpu int, isJoined, is bool) {
	fields := strings.Fields(line)
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "GPU") ||
		strings.HasPrefix(fields[1], "GPU") {
		return 0, false, false
	}

	gpu, err := strconv.Atoi(strings.TrimPrefix(fields[0], "GPU"))
	return gpu, slices.Contains(fields[1:], "XGMI"), err == nil && gpu < maxDevices
}

// The tables of amd-smi topology have addresses as names of rows and columns; amd-smi list and
// static have blocks that begin with "GPU: 0".
var (
	amdTable = lazyregexp.New(`^\s*(ACCESS|WEIGHT|HOPS|LINK TYPE|NUMA BW) TABLE`)
	amdBDF   = lazyregexp.New(`^\s*BDF:\s*(` + longBusID + `)`)
)

func isAMDSMI(t text) bool {
	return anyLine(t, func(line string) bool {
		return strings.Contains(line, " TABLE") && amdTable.MatchString(line) ||
			strings.Contains(line, "BDF:") && amdBDF.MatchString(line)
	})
}

// amdReader collects the GPUs of amd-smi.
type amdReader struct {
	m       Machine
	indices map[topology.Address]int
	current int  // the GPU of a block; -1 for none
	inTable bool // until an empty line
}

// readAMDSMI reads amd-smi topology, list and static: addresses, NUMA nodes, and which GPUs are
// joined over XGMI. It shows no paths through PCI Express.
func readAMDSMI(t text) (Machine, error) {
	r := amdReader{
		m: Machine{Sources: []Source{AMDSMI}}, indices: map[topology.Address]int{}, current: -1,
	}

	for _, line := range t.lines {
		r.line(line)
		if len(r.m.Functions) > maxDevices {
			return Machine{}, errTooMany
		}
	}

	r.m.note("amd-smi shows no paths through PCI Express: lstopo --of xml has them")
	return r.m.sorted()
}

// line reads a line: the heading or a row of a table, or a line of a block.
func (r *amdReader) line(line string) {
	fields := strings.Fields(line)
	switch bdf := amdBDF.FindStringSubmatch(line); {
	case len(fields) == 0:
		r.inTable = false
	case amdTable.MatchString(line):
		r.inTable = true
	case bdf != nil:
		r.current = r.find(bdf[1])
	case len(fields) == 2 && fields[0] == "NODE:" && r.current >= 0:
		if node, err := onNode(fields[1]); err == nil {
			d := &r.m.Functions[r.current]
			d.Node = node
			delete(r.m.nodeless, d.Address)
		}

	case r.inTable && len(fields) > 1:
		if row := r.find(fields[0]); row >= 0 && slices.Contains(fields[1:], "XGMI") {
			r.m.link(r.m.Functions[row].Address)
		}
	}
}

// find returns the GPU at an address, which it adds if it is new; -1 for what is no address.
func (r *amdReader) find(name string) int {
	a, err := topology.ParseAddress(name)
	if err != nil {
		return -1
	}

	if i, isKnown := r.indices[a]; isKnown {
		return i
	}

	i := len(r.m.Functions)
	r.indices[a] = i
	r.m.name(a, fmt.Sprintf("GPU%d", i))
	r.m.lacksNode(a)
	r.m.Functions = append(r.m.Functions, topology.Function{
		Address: a, Class: topology.ClassAccelerator, Vendor: topology.VendorAMDGPU,
	})
	return i
}
