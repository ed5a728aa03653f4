package fit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/topology"
)

// TestBounds compares with all selections, on every host of testdata: no selection is nearer than
// the best nor farther than the worst, and both are among them.
func TestBounds(t *testing.T) {
	files, err := filepath.Glob(hostFile("*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}

	compared := 0
	for h, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		read := readHost(t, name)
		random := rand.New(rand.NewPCG(uint64(h), 38))
		for range 20 {
			n, counts := randomSelection(random, read)
			best, worst, oneNode, isKnown := allSelections(n, counts)
			got := n.bounds(counts)
			if (got != nil) != isKnown {
				t.Errorf("%s, %v of %d: bounds %v, want some: %t", name, counts, len(n.devices),
					got, isKnown)
			}

			if got == nil {
				continue
			}

			compared++
			gotOneNode := -1
			if got.OneNode != nil {
				gotOneNode = got.OneNode.distance()
			}

			if got.Best.distance() != best || got.Worst.distance() != worst || gotOneNode != oneNode {
				t.Errorf("%s, %v of %d: distances %d, %d, %d of %v, want %d, %d, %d", name, counts,
					len(n.devices),
					got.Best.distance(), got.Worst.distance(), gotOneNode, got, best, worst, oneNode)
			}
		}
	}

	if compared < 10*len(files) {
		t.Errorf("%d selections on %d hosts are compared", compared, len(files))
	}
}

// randomSelection offers up to twelve devices of the host, of two drivers, and wants some of each.
func randomSelection(random *rand.Rand, host *topology.Host) (*node, map[string]int) {
	n := &node{host: host}
	ends := slices.DeleteFunc(slices.Clone(host.Functions), func(d topology.Function) bool {
		return d.IsBridge
	})

	for _, i := range random.Perm(len(ends))[:min(12, len(ends))] {
		id := topology.PCIDevice(ends[i].Address)
		n.devices = append(n.devices, OfferedDevice{
			Driver: fmt.Sprint(random.IntN(2)), Address: id.String(), State: free, pci: id,
		})
	}

	return n, map[string]int{"0": random.IntN(4), "1": 1 + random.IntN(3)}
}

// allSelections tries each set of devices. It returns the distances of the nearest, the farthest,
// and the farthest of one NUMA node, -1 for none.
func allSelections(n *node, counts map[string]int) (best, worst, oneNode int, isKnown bool) {
	best, worst, oneNode = -1, -1, -1
	for set := range 1 << len(n.devices) {
		chosen, given := []topology.DeviceID{}, map[string]int{"0": 0, "1": 0}
		for i, d := range n.devices {
			if set>>i&1 == 1 {
				chosen = append(chosen, d.pci)
				given[d.Driver]++
			}
		}

		if !maps.Equal(given, counts) {
			continue
		}

		p := pairs(n.host.Tree(chosen), chosen)
		if !isKnown || p.distance() < best {
			best = p.distance()
		}

		worst, isKnown = max(worst, p.distance()), true
		if p[topology.SYS] == 0 {
			oneNode = max(oneNode, p.distance())
		}
	}

	return best, worst, oneNode, isKnown
}

// TestBoundsOfManyDevices: 128 virtual functions on 16 PCIe roots beside 16 GPUs are counted, which
// a search of all sets would not end.
func TestBoundsOfManyDevices(t *testing.T) {
	n := &node{host: &topology.Host{}}
	for root := range 16 {
		for i := range 9 {
			driver := "vf"
			if i == 0 {
				driver = "gpu"
			}

			address := topology.Address{Bus: uint8(16 * root), Device: uint8(i)}
			n.host.Functions = append(n.host.Functions, topology.Function{
				Address: address, Root: topology.PCIeRoot(fmt.Sprintf("pci0000:%02x", 16*root)),
				Node: topology.OnNode(topology.NodeID(root / 8)),
			})

			n.devices = append(n.devices, OfferedDevice{
				Driver:  driver,
				Address: address.String(),
				State:   free,
				pci:     topology.PCIDevice(address),
			})
		}
	}

	// The nearest are of one socket, whose eight GPUs have a root each; eight functions are of
	// one of these. The farthest are of all roots, half of them on either socket. On one node
	// they are a GPU and a function of each root.
	got := n.bounds(map[string]int{"gpu": 8, "vf": 8})
	if text := fmt.Sprint(got.Best, "; ", got.Worst, "; ",
		got.OneNode); text != "36 PHB, 84 NODE; 56 NODE, 64 SYS; 8 PHB, 112 NODE" {
		t.Errorf("bounds %s", text)
	}
}
