package judges

import (
	"encoding/xml"
	"path/filepath"
	"slices"
	"testing"

	"hook-sidecar/test/expect"
)

// Hwloc is what hwloc says of a machine.
type Hwloc struct{ places map[string][]object }

// object is an object of hwloc's tree, as lstopo prints it.
type object struct {
	Index   string   `xml:"gp_index,attr"`
	CPUs    string   `xml:"cpuset,attr"`
	Address string   `xml:"pci_busid,attr"`
	Objects []object `xml:"object"`
}

// Hwloc asks lstopo for the objects of a machine.
func (p Programs) Hwloc(tb testing.TB, m Asked) Hwloc {
	tb.Helper()
	// The component x86 would ask the CPU that the test runs on.
	environment := []string{"HWLOC_FSROOT=" + filepath.Dir(m.Dir), "HWLOC_COMPONENTS=-x86"}
	lstopo := filepath.Join(p.root, "usr", "bin", "lstopo-no-graphics")
	out := p.run(tb, environment, "", nil, lstopo, "--of", "xml", "--filter", "io:all", "-")

	var top struct {
		Machine object `xml:"object"`
	}
	expect.NoError(tb, xml.Unmarshal([]byte(out), &top))
	h := Hwloc{places: map[string][]object{}}
	h.add(m, nil, top.Machine)
	return h
}

// add adds the places of the devices at an object and under it.
func (h Hwloc) add(m Asked, above []object, o object) {
	path := append(above[:len(above):len(above)], o)
	if name := m.name(o.Address); o.Address != "" && name != "" {
		h.places[name] = path
	}

	for _, under := range o.Objects {
		h.add(m, path, under)
	}
}

// Depth returns how many objects are above both devices of a pair.
func (h Hwloc) Depth(p Pair) (depth int) {
	x, y := h.places[p.GPU], h.places[p.NIC]
	for depth < min(len(x), len(y)) && x[depth].Index == y[depth].Index {
		depth++
	}
	return depth
}

// IsLocal reports whether some of the machine's CPUs are nearer to a device than others: the lowest
// object above it with CPUs lacks some of them.
func (h Hwloc) IsLocal(device string) bool {
	place := h.places[device]
	return slices.ContainsFunc(place, func(o object) bool {
		return o.CPUs != "" && o.CPUs != place[0].CPUs
	})
}
