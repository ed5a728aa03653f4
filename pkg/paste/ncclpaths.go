package paste

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
)

var (
	// logPaths is a row of NCCL's table of paths: GPU/5000 :GPU/0-4000 (2/370.8/NVL) NET/0-1
	// (5/24.0/PHB)
	logPaths = regexp.MustCompile(
		`^(GPU|NET)/(?:[0-9A-Fa-f]+-)?([0-9A-Fa-f]+) :((?:GPU|NET|CPU|NVS)/.*)$`)

	// logPath is a cell of such a row.
	logPath = regexp.MustCompile(
		`(GPU|NET)/(?:[0-9a-fA-F]+-)?([0-9a-fA-F]+) \([0-9]+/[0-9.]+/([A-Z]+)\)`)
)

// fromPaths adds what NCCL's tables of paths say (src/graph/paths.cc, printNodePaths), of the first
// process that prints one.
func (r *logReader) fromPaths(t text) {
	first := ""
	for _, line := range t.lines {
		who, said, _ := strings.Cut(line, ncclMark)
		row := logPaths.FindStringSubmatch(said)
		if row == nil || first != "" && who != first || len(r.m.Functions) > maxDevices {
			continue
		}

		first = who
		from := r.inPath(row[1], row[2])
		for _, cell := range logPath.FindAllStringSubmatch(row[3], maxDevices) {
			to := r.inPath(cell[1], cell[2])
			between, isPath := relation[cell[3]]
			switch {
			case isPath && from != to:
				r.m.relate(from, to, between)
			case cell[3] == "NVL" && from != to:
				r.m.link(from)
				r.m.link(to)
			}
		}
	}
}

// inPath returns the address of a GPU or the stand-in of a NIC in a table of paths.
func (r *logReader) inPath(kind, id string) topology.Address {
	number, _ := strconv.ParseUint(id, 16, 64)
	d := topology.Function{Address: ofLog.address(int(number & 0xffff)), Class: 0x020000}
	if kind == "GPU" {
		d.Address, d.Class = addressOf(number), 0x030200
	}

	if !slices.ContainsFunc(r.m.Functions, func(o topology.Function) bool {
		return o.Address == d.Address
	}) {
		r.m.Functions = append(r.m.Functions, d)
		r.m.lacksNode(d.Address)
		if name := r.names[int(number)]; kind == "NET" {
			r.m.name(d.Address, cmp.Or(name, "NET"+id))
		}
	}

	return d.Address
}

// fromInit adds the GPUs of lines with a busId, of the first machine.
func (r *logReader) fromInit(t text) {
	const nvidia = 0x10de
	host := ""
	for _, line := range t.lines {
		who, said, _ := strings.Cut(line, ncclMark)
		name, _, _ := strings.Cut(who, ":")
		id := logBusID.FindStringSubmatch(said)
		if id == nil || host != "" && name != host || len(r.m.Functions) >= maxDevices {
			continue
		}

		host = name
		number, _ := strconv.ParseUint(id[1], 16, 64)
		a := addressOf(number)
		if !slices.ContainsFunc(r.m.Functions, func(d topology.Function) bool {
			return d.Address == a
		}) {
			r.m.Functions = append(r.m.Functions, topology.Function{
				Address: a, Class: 0x030200, Vendor: nvidia,
			})
			r.m.lacksNode(a)
		}
	}

	for n := range len(r.names) {
		if name := r.names[n]; name != "" {
			a := ofLog.address(n)
			r.m.Functions = append(r.m.Functions, topology.Function{Address: a, Class: 0x020000})
			r.m.name(a, name)
			r.m.lacksNode(a)
		}
	}
}
