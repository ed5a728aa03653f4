package paste_test

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/corpus"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
)

// TestLstopo: of each machine in lstopo's XML, the NUMA node of every PCI function and the path type
// of every pair are those that hwloc's own code finds in it.
func TestLstopo(t *testing.T) {
	needs(t, "hwloc-info", "hwloc-nox")
	pairs := 0
	for i, name := range pastes.Names(t, "") {
		if expect.IsSampled(i, 4) {
			pairs += compareHwloc(t, name, []byte(pastes.LstopoXML(2)(pastes.Load(t, name))))
		}
	}

	if most := expect.Count(500, 4000); pairs < most {
		t.Errorf("%d pairs compared, of more than %d", pairs, most)
	}
}

// TestLstopoCorpus: so are those of lstopo's files that others made.
func TestLstopoCorpus(t *testing.T) {
	needs(t, "hwloc-info", "hwloc-nox")
	for name, file := range corpus.Files(t, "*") {
		if path.Ext(name) == ".xml" && path.Dir(name) != "nccl" && refusedOfCorpus[name] == "" {
			compareHwloc(t, name, expect.File(t, file))
		}
	}
}

// compareHwloc compares what is read of a file of lstopo with what hwloc finds, and returns the
// number of pairs.
func compareHwloc(t *testing.T, name string, data []byte) (pairs int) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		m, _, err := paste.Read(data)
		expect.NoError(t, err)
		functions := slices.DeleteFunc(slices.Clone(m.Functions), func(d topology.Function) bool {
			return d.IsBridge
		})
		objects := askHwloc(t, data, functions)

		for i, d := range functions {
			compareNode(t, &m, &functions[i], objects[i])
			for j := range i {
				comparePath(t, &m, [2]topology.Address{functions[j].Address, d.Address},
					[2]hwlocFunction{objects[j], objects[i]})
				pairs++
			}
		}
	})

	return pairs
}

// hwlocFunction is what hwloc says of a PCI function.
type hwlocFunction struct {
	ancestors []string // the bridges and other objects that it is in, the nearest first
	nodes     []string // the numbers of the NUMA nodes that are local to it, without HBM and such
}

// askHwloc asks hwloc-info for the ancestors and the local nodes of functions.
func askHwloc(t *testing.T, data []byte, functions []topology.Function) []hwlocFunction {
	t.Helper()

	// hwloc 2 refuses the number of hwloc 3's format, and reads the format.
	file := filepath.Join(t.TempDir(), "lstopo.xml")
	data = bytes.Replace(data, []byte(`<topology version="3.0"`), []byte(`<topology version="2.0"`), 1)
	expect.NoError(t, os.WriteFile(file, data, 0o600))

	objects := make([]hwlocFunction, len(functions))
	for i, d := range functions {
		for _, object := range hwlocInfo(t, file, "--ancestors", d.Address)[1:] {
			objects[i].ancestors = append(objects[i].ancestors, object["name"])
		}

		for _, object := range hwlocInfo(t, file, "--local-memory", d.Address) {
			if kind := object["subtype"]; kind == "" || kind == "DRAM" {
				objects[i].nodes = append(objects[i].nodes, object["os index"])
			}
		}
	}

	return objects
}

// hwlocInfo returns the objects that hwloc-info prints of a function: their attributes, and
// "name", such as "PCIBridge L#2".
func hwlocInfo(t *testing.T, file, which string, device topology.Address) []map[string]string {
	t.Helper()
	out, err := exec.Command("hwloc-info", "-i", file, "--if", "xml", "--filter", "io:all", which,
		"pci="+device.String()).Output()
	expect.NoError(t, err)

	var objects []map[string]string
	for line := range strings.Lines(string(out)) {
		key, value, isAttribute := strings.Cut(strings.TrimSpace(line), " = ")
		if strings.HasPrefix(line, " ") && isAttribute {
			objects[len(objects)-1][key] = value
		} else {
			objects = append(objects, map[string]string{"name": key})
		}
	}

	return objects
}

// compareNode compares the NUMA node of a function with hwloc's. Local to all nodes, or to several,
// is on none.
func compareNode(t *testing.T, m *paste.Machine, d *topology.Function, in hwlocFunction) {
	t.Helper()
	want := "none"
	if len(in.nodes) == 1 {
		want = in.nodes[0]
	}

	if m.KnowsNode(d) && d.Node.String() != want {
		t.Errorf("%s is on node %s, of hwloc %v", d.Address, d.Node, in.nodes)
	}
}

// comparePath compares the path type of a pair with what follows from hwloc's nearest common
// ancestor.
func comparePath(t *testing.T, m *paste.Machine, pair [2]topology.Address, in [2]hwlocFunction) {
	t.Helper()
	got, isKnown := m.PathType(pair[0], pair[1])
	want := hwlocPath(in[0], in[1])
	isOneDevice := pair[0].Domain == pair[1].Domain && pair[0].Bus == pair[1].Bus &&
		pair[0].Device == pair[1].Device
	switch {
	case isOneDevice: // functions of a device on the root complex: no bridge is between them
		want = topology.PIX
	case want >= topology.NODE && !m.KnowsNode(m.FunctionAt(pair[0])):
		return // NODE or SYS, which the nodes would say
	}

	if !isKnown || got != want {
		t.Errorf("%s and %s: %s (%v), by hwloc %s: %v and %v", pair[0], pair[1], got, isKnown, want,
			in[0], in[1])
	}
}

// hwlocPath returns the path type of two functions in the words of nvidia-smi: PIX through at most
// one switch, which has a port above and one below, PXB through more, PHB through a host bridge.
func hwlocPath(a, b hwlocFunction) topology.PathType {
	common := slices.IndexFunc(a.ancestors, func(object string) bool {
		return slices.Contains(b.ancestors, object)
	})
	name := a.ancestors[common]
	ports := common + slices.Index(b.ancestors, name)

	switch {
	case strings.HasPrefix(name, "PCIBridge") && ports <= 2:
		return topology.PIX
	case strings.HasPrefix(name, "PCIBridge"):
		return topology.PXB
	case strings.HasPrefix(name, "HostBridge"):
		return topology.PHB
	case len(a.nodes) == 1 && slices.Equal(a.nodes, b.nodes):
		return topology.NODE
	}

	return topology.SYS
}
