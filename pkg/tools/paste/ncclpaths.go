package paste

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words/lazyregexp"
)

// logPaths is a row of NCCL's table of paths: GPU/5000 :GPU/0-4000 (2/370.8/NVL) NET/0-1
// (5/24.0/PHB)
var logPaths = lazyregexp.New(
	`^(GPU|NET)/(?:[0-9A-Fa-f]+-)?([0-9A-Fa-f]+) :((?:GPU|NET|CPU|NVS)/.*)$`)

// pathCells yields the cells of such a row: the node, as "GPU/0-4000", and the path type.
func pathCells(row string) iter.Seq2[string, string] {
	return func(yield func(node, between string) bool) {
		node := ""
		for field := range strings.FieldsSeq(row) {
			inside, isPath := strings.CutPrefix(field, "(")
			if !isPath {
				node = field
				continue
			}

			between := strings.TrimSuffix(inside[strings.LastIndexByte(inside, '/')+1:], ")")
			if !yield(node, between) {
				return
			}
		}
	}
}

// idIn returns the kind and the number of a node in a table of paths; false for another kind. The
// number of a machine may precede it.
func idIn(node string) (kind string, number uint64, ok bool) {
	kind, id, _ := strings.Cut(node, "/")
	id = id[strings.LastIndexByte(id, '-')+1:]
	number, err := strconv.ParseUint(id, 16, 64)
	return kind, number, err == nil && (kind == "GPU" || kind == "NET")
}

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
		number, _ := strconv.ParseUint(row[2], 16, 64)
		from := r.inPath(row[1], number)
		for node, word := range pathCells(row[3]) {
			kind, number, isDevice := idIn(node)
			if !isDevice || len(r.m.Functions) > maxDevices {
				continue
			}

			to := r.inPath(kind, number)

			// The table has each pair twice and each node with itself.
			between, isPath := relation[word]
			switch {
			case isPath && from != to:
				r.m.relate(from, to, between)
			case word == "NVL" && from != to:
				r.m.link(from)
				r.m.link(to)
			}
		}
	}
}

// inPath returns the address of a GPU or the stand-in of a NIC in a table of paths.
func (r *logReader) inPath(kind string, number uint64) topology.Address {
	d := topology.Function{
		Address: logStandIn.address(int(number & 0xffff)), Class: topology.ClassEthernet,
	}
	if kind == "GPU" {
		d.Address, d.Class = addressOf(number), topology.Class3D
	}

	if !r.isInPath[d.Address] {
		r.isInPath[d.Address] = true
		r.m.Functions = append(r.m.Functions, d)
		r.m.lacksNode(d.Address)
		if name := r.names[int(number)]; kind == "NET" {
			r.m.name(d.Address, cmp.Or(name, fmt.Sprintf("NET%x", number)))
		}
	}

	return d.Address
}

// fromInit adds the GPUs of lines with a busId, of the first machine.
func (r *logReader) fromInit(t text) {
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
				Address: a, Class: topology.Class3D, Vendor: topology.VendorNVIDIA,
			})
			r.m.lacksNode(a)
		}
	}

	for n := range len(r.names) {
		if name := r.names[n]; name != "" {
			a := logStandIn.address(n)
			r.m.Functions = append(r.m.Functions, topology.Function{
				Address: a, Class: topology.ClassEthernet,
			})
			r.m.name(a, name)
			r.m.lacksNode(a)
		}
	}
}
