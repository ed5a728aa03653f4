package paste_test

import (
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
)

// TestMachines: of each machine of testdata/machines every program's output is read as the machine
// is, as far as the program shows it.
func TestMachines(t *testing.T) {
	for i, name := range pastes.Names(t, "") {
		if !expect.IsSampled(i, 5) {
			continue
		}

		m := pastes.Load(t, name)
		for j, f := range pastes.Formats {
			if !f.Suits(m) || !expect.IsSampled(i+j, 2) {
				continue
			}

			t.Run(name+"/"+f.Name, func(t *testing.T) {
				got, problems, err := paste.Read([]byte(f.Print(m)))
				expect.NoError(t, err)
				if len(problems) > 0 {
					t.Error(problems)
				}
				compareMachine(t, m, f.Shows, &got)
			})
		}
	}
}

// TestCPUsOfNodes: files have the CPUs of each NUMA node, also those past the first word of a mask.
func TestCPUsOfNodes(t *testing.T) {
	m := pastes.Load(t, "oci-h100")
	for name, text := range map[string]string{
		"lstopo": pastes.LstopoXML(2)(m), "NCCL": pastes.NCCLFile(m),
	} {
		got, _, err := paste.Read([]byte(text))
		expect.NoError(t, err)
		expect.Same(t, m.Nodes, got.NUMA, "%s: nodes with CPUs (-want +got)", name)
	}
}

// TestDeepTree: bridges under one switch do not change each other's path from the root, however
// many are above them.
func TestDeepTree(t *testing.T) {
	var text strings.Builder
	text.WriteString("cpus 0 0-3\ncpus 1 4-7\npci0000:00 node=0\n")
	for depth := range 8 {
		above := strings.Repeat("  ", depth+1)
		if depth > 0 { // beside the next bridge a device on a port of its own
			fmt.Fprintf(&text, "%[1]s0000:%02[2]x:01.0 bridge\n%[1]s  0000:%02[3]x:00.0 gpu "+
				"ids=10de:2330\n", above, depth, 0x80+depth)
		}
		fmt.Fprintf(&text, "%s0000:%02x:00.0 bridge\n", above, depth)
	}

	text.WriteString(strings.Repeat("  ", 9) + "0000:08:00.0 nic ids=15b3:1021\n")

	m := pastes.Parse(t, text.String())
	for name, print := range map[string]func(*pastes.Machine) string{
		"lstopo's XML":  pastes.LstopoXML(2),
		"lstopo's text": pastes.LstopoText(2, true),
		"lspci":         pastes.LspciTree(pastes.NamesIn(pastes.WithBoth)),
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := paste.Read([]byte(print(m)))
			expect.NoError(t, err)
			compareMachine(t, m, pastes.Shows{
				GPUs: true, NICs: true, Addresses: true, Farthest: topology.NODE,
			}, &got)
		})
	}
}

// compareMachine compares what is read with what a program shows of a machine.
func compareMachine(t *testing.T, m *pastes.Machine, shows pastes.Shows, got *paste.Machine) {
	t.Helper()
	var want []topology.Function
	var read []*topology.Function
	for _, kind := range []struct {
		isShown bool
		want    []topology.Function
		read    []*topology.Function
	}{{shows.GPUs, m.GPUs(), got.GPUs()}, {shows.NICs, m.NICs(), got.NICs()}} {
		if !kind.isShown {
			kind.want = nil
		}

		if len(kind.want) != len(kind.read) {
			t.Fatalf("%d devices of a kind, want %d; notes %q", len(kind.read), len(kind.want),
				got.Notes)
		}
		want, read = append(want, kind.want...), append(read, kind.read...)
	}

	paths := m.Paths(want)
	for i, d := range want {
		compareFunction(t, shows, got, d, read[i])
		links, isLinked := linkOf(m, i)
		if shows.Linked && d.IsGPU() && len(m.GPUs()) > 1 && got.Linked[read[i].Address] != isLinked {
			t.Errorf("%s: linked %v", d.Address, !isLinked)
		}

		if shows.XGMI && links.Kind == "xgmi" && read[i].Vendor != 0x1002 {
			t.Errorf("%s: vendor %04x of a GPU with XGMI", d.Address, read[i].Vendor)
		}

		if shows.C2C && d.IsGPU() && got.OverC2C[read[i].Address] != m.C2C {
			t.Errorf("%s: over C2C %v", d.Address, !m.C2C)
		}

		for j := range i {
			between, isKnown := got.PathType(read[i].Address, read[j].Address)
			path := min(paths(i, j), shows.Farthest)
			if shows.Farthest == topology.PHB && d.Address.SameDevice(want[j].Address) {
				continue // NCCL takes the ports of a NIC for one
			}

			// A program that shows no nodes leaves open whether two host bridges are of one.
			isOpen := path >= topology.NODE && !(got.KnowsNode(read[i]) && got.KnowsNode(read[j]))
			if isKnown && min(between, shows.Farthest) != path || !isKnown && !isOpen &&
				shows.Farthest > topology.Self && !isHidden(m, shows, want, i, j) {
				t.Errorf("%s and %s: %s (%v), want %s", d.Address, want[j].Address, between, isKnown, path)
			}
		}
	}
}

// linkOf returns links of a GPU.
func linkOf(m *pastes.Machine, gpu int) (pastes.Links, bool) {
	for other := range m.GPUs() {
		if l, isLinked := m.Linked(gpu, other); isLinked && other != gpu {
			return l, true
		}
	}
	return pastes.Links{}, false
}

// isHidden reports whether a program shows links of two GPUs in the place of their path.
func isHidden(m *pastes.Machine, shows pastes.Shows, all []topology.Function, i, j int) bool {
	_, isLinked := m.Linked(i, j)
	return shows.Linked && isLinked && all[i].IsGPU() && all[j].IsGPU()
}

// isLink reports whether a link is read as it is: NCCL's log has the bandwidth alone.
func isLink(m *paste.Machine, read *topology.Link, want topology.Link) bool {
	if read == nil {
		return false
	}

	bandwidth := func(l topology.Link) float64 { return l.Speed * float64(l.Width) }
	return *read == want || m.Has(paste.NCCLLog) && bandwidth(*read) == bandwidth(want)
}

// compareFunction compares what is read of a function.
func compareFunction(
	t *testing.T, shows pastes.Shows, got *paste.Machine, want topology.Function,
	read *topology.Function,
) {
	t.Helper()
	if shows.Addresses && read.Address != want.Address {
		t.Errorf("%s is at %s", want.Address, read.Address)
	}

	if shows.IDs && read.IDs() != want.IDs() {
		t.Errorf("%s: ids %s, want %s", want.Address, read.IDs(), want.IDs())
	}

	if shows.MaxLinks && want.MaxLink != nil && !isLink(got, read.MaxLink, *want.MaxLink) {
		t.Errorf("%s: link %v, want %v", want.Address, read.MaxLink, want.MaxLink)
	}

	showsNode := want.IsGPU() && shows.GPUNodes || want.IsNIC() && shows.NICNodes
	isNone := want.Node == topology.Affinity{} && read.Node == want.Node // shown or not
	isOfOne := got.Has(paste.Lstopo) && len(got.NUMA) < 2                // where lstopo does not tell
	if showsNode && !isNone && !isOfOne && (!got.KnowsNode(read) || read.Node != want.Node) {
		t.Errorf("%s: node %s (%v), want %s", want.Address, read.Node, got.KnowsNode(read), want.Node)
	}

	if want.IsGPU() && !shows.GPUNodes && got.KnowsNode(read) && read.Node != want.Node &&
		!strings.Contains(got.SourceNames(), "lspci") {
		t.Errorf("%s: node %s, which is not shown", want.Address, read.Node)
	}
}
