package consumers_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
)

// The CPUs of hosts and guests.
var (
	intel = topology.CPU{Arch: "x86", Family: 6}
	zen   = topology.CPU{Arch: "x86", Vendor: topology.CPUVendorAMD, Family: 0x19}
)

// TestRandomHosts: on 50 random hosts, with WHOLE=1 on 200, from a seed that is printed and that
// SEED sets, every consumer decides in the host's own tree as on the host. In a flat guest no NIC
// is nearer than another to UCX and hwloc, all devices share a PCIe root, and Linux on Intel's CPUs
// lets none reach another.
func TestRandomHosts(t *testing.T) {
	seed := uint64(time.Now().Unix())
	if text := os.Getenv("SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		expect.NoError(t, err)
	}

	t.Logf("SEED=%d", seed)
	for i := range uint64(expect.Count(50, 200)) {
		for _, cpu := range []topology.CPU{intel, zen} {
			m := randomMachine(t, seed+i, cpu)
			name := fmt.Sprintf("seed %d, %+v", seed+i, cpu)
			inMirror := m
			inMirror.HasCells = true
			for _, guest := range []consumers.Machine{m, inMirror} {
				for _, tally := range consumers.Tallies(m, guest) {
					if tally.Open+tally.Wrong > 0 {
						t.Errorf("%s: in the host's own tree, with cells: %t: %+v", name,
							guest.HasCells, tally)
					}
				}
			}

			checkFlat(t, name, m)
		}
	}
}

// TestUCXByCPU: two NUMA nodes are as near as UCX's ucx.conf says for the CPUs.
func TestUCXByCPU(t *testing.T) {
	tree := topology.NewTree(2, 2)
	device := func(node int) *topology.Node {
		root := tree.Add(nil, topology.Node{Kind: topology.Root, ID: topology.Index(node),
			NUMA: &node})
		return tree.Add(root, topology.Node{Kind: topology.Endpoint, ID: topology.Index(9 + node)})
	}

	gpu, nic := device(0), device(1)
	for cpu, want := range map[topology.CPU]int{
		{}:                               220,
		intel:                            220,
		zen:                              5100,
		{Arch: "aarch64"}:                220,
		{Arch: "aarch64", IsGrace: true}: 16500,
	} {
		got := consumers.UCXBandwidth(consumers.Machine{CPU: cpu}, gpu, nic)
		expect.Same(t, want, got, "%+v", cpu)
	}
}

// checkFlat checks what holds in every flat guest of a host.
func checkFlat(t *testing.T, name string, m consumers.Machine) {
	t.Helper()
	guest := flat(m)
	consumers.Judge(m, guest, func(consumer int, d consumers.Decision) {
		c, x, y := consumers.All[consumer].Name, nodeOf(m, d.GPU), nodeOf(m, d.Other)
		isWrong := d.Verdict == consumers.Wrong
		switch c {
		case consumers.UCX, consumers.HWLoc:
			if isWrong {
				t.Errorf("%s: %s in a flat guest: %+v", name, c, d)
			}

		case consumers.DRARoot:
			if hasRoot := topology.Common(x, y) != nil; isWrong == hasRoot {
				t.Errorf("%s: %s in a flat guest: %+v, one root on the host: %t", name, c, d,
					hasRoot)
			}

		case consumers.P2PDMA:
			if isWrong == m.CPU.IsZen() {
				t.Errorf("%s: %s in a flat guest: %+v", name, c, d)
			}
		}
	})
}

// randomMachine returns the machine of a seed, whose devices are GPUs and NICs by turns.
func randomMachine(t *testing.T, seed uint64, cpu topology.CPU) consumers.Machine {
	t.Helper()
	random := matrix.NewRandomHost(seed)
	shown, problems := host.Read(expect.Host(t, random.Text), nil, host.All)
	expect.Problems(t, problems, nil)

	var ids []topology.DeviceID
	for i := range shown.Functions {
		if f := &shown.Functions[i]; f.Driver == "vfio-pci" {
			ids = append(ids, topology.PCIDevice(f.Address))
		}
	}

	m := consumers.Machine{CPU: cpu, Machine: ncclgraph.Machine{Link: speed}}
	for i, n := range shown.AsShown(shown.Tree(ids), ids).Devices(ids) {
		if i%2 == 0 {
			m.GPUs = append(m.GPUs, ncclgraph.GPU{Node: n})
		} else {
			m.NICs = append(m.NICs, n)
		}
	}

	return m
}

// speed is the link of every function.
func speed(*topology.Node) topology.Link { return topology.Link{Speed: 32, Width: 16} }

// flat returns the guest with each device on a root port of the root bus.
func flat(m consumers.Machine) consumers.Machine {
	tree := topology.NewTree(len(m.GPUs)+len(m.NICs), 1)
	root := tree.Add(nil, topology.Node{Kind: topology.Root, ID: topology.Index(0)})
	add := func(n *topology.Node) *topology.Node {
		port := tree.Add(root, topology.Node{Kind: topology.RootPort})
		device := topology.Node{Kind: topology.Endpoint, ID: n.ID, Slot: topology.NoSlot}
		return tree.Add(port, device)
	}

	guest := consumers.Machine{CPU: m.CPU, HasCells: true, Machine: ncclgraph.Machine{
		Link: speed, NICs: topology.Map(m.NICs, add)}}
	for _, gpu := range m.GPUs {
		guest.GPUs = append(guest.GPUs, ncclgraph.GPU{Node: add(gpu.Node)})
	}

	return guest
}

// nodeOf returns the device of a machine with an ID, nil for nil.
func nodeOf(m consumers.Machine, id topology.ID) *topology.Node {
	for _, gpu := range m.GPUs {
		if gpu.Node.ID == id {
			return gpu.Node
		}
	}

	for _, nic := range m.NICs {
		if nic.ID == id {
			return nic
		}
	}

	return nil
}
