package ncclgraph_test

import (
	"testing"

	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/topology"
)

// builder makes a machine whose links have 32 GT/s and 16 lanes, but for those in links.
type builder struct {
	tree    *topology.Tree
	machine ncclgraph.Machine
	links   map[*topology.Node]topology.Link
	next    uint8
}

func newBuilder() *builder {
	b := &builder{tree: topology.NewTree(0, 0), links: map[*topology.Node]topology.Link{}}
	b.machine.Link = func(n *topology.Node) topology.Link {
		if link, isSet := b.links[n]; isSet {
			return link
		}
		return topology.Link{Speed: 32, Width: 16}
	}

	return b
}

func (b *builder) root(node int) *topology.Node {
	return b.tree.Add(nil, topology.Node{Kind: topology.Root, NUMA: new(node)})
}

// aSwitch adds a root or downstream port with a switch whose ports are QEMU's where isGuest is set.
func (b *builder) aSwitch(parent *topology.Node, isGuest bool) *topology.Node {
	upstream := b.tree.Add(b.port(parent, isGuest), topology.Node{Kind: topology.UpstreamPort})
	if isGuest {
		b.links[upstream] = topology.Link{Speed: 2.5, Width: 1}
	}
	return upstream
}

// port adds the port of a root or of a switch. A guest's downstream port shows no link.
func (b *builder) port(parent *topology.Node, isGuest bool) *topology.Node {
	kind := topology.RootPort
	if parent.Kind == topology.UpstreamPort {
		kind = topology.DownstreamPort
	}

	port := b.tree.Add(parent, topology.Node{Kind: kind})
	if isGuest && kind == topology.DownstreamPort {
		b.links[port] = topology.Link{}
	}

	return port
}

func (b *builder) endpoint(parent *topology.Node, isGuest bool) *topology.Node {
	b.next++
	id := topology.PCIDevice(topology.Address{Bus: b.next})
	return b.tree.Add(b.port(parent, isGuest), topology.Node{Kind: topology.Endpoint, ID: id})
}

func (b *builder) gpu(parent *topology.Node, hasNVLink, isGuest bool) {
	b.machine.GPUs = append(b.machine.GPUs, ncclgraph.GPU{
		Node: b.endpoint(parent, isGuest), NVLink: hasNVLink,
	})
}

func (b *builder) nic(parent *topology.Node, isGuest bool) *topology.Node {
	nic := b.endpoint(parent, isGuest)
	b.machine.NICs = append(b.machine.NICs, nic)
	return nic
}

// TestNUMANodeIsNotNearEnough: two GPUs and two NICs on root ports of one NUMA node. NCCL knows no
// PCIe roots, so each GPU is PHB to both NICs, and GPUDirect RDMA is off (paths.cc,
// ncclTopoCheckGdr). The NICs are dealt out by mirrored bits of the GPU's number: 0, 1.
func TestNUMANodeIsNotNearEnough(t *testing.T) {
	b := newBuilder()
	for range 2 {
		root := b.root(0)
		b.gpu(root, true, true)
		b.nic(root, true)
	}

	for i, c := range b.machine.Choices() {
		if c.NIC != i || c.Type != ncclgraph.PHB || c.IsDirect() {
			t.Errorf("GPU %d: %v, want NIC %d over PHB", i, c, i)
		}
	}
}

// TestMirroredBits: four equal NICs go to GPUs 0 to 3 as 0, 2, 1, 3 (topo.cc, mirrorBits).
func TestMirroredBits(t *testing.T) {
	b := newBuilder()
	root := b.root(0)
	for range 4 {
		b.gpu(root, true, true)
		b.nic(root, true)
	}

	for i, c := range b.machine.Choices() {
		if want := []int{0, 2, 1, 3}[i]; c.NIC != want {
			t.Errorf("GPU %d takes NIC %d, want %d", i, c.NIC, want)
		}
	}
}

// TestSwitchServesWithoutItsUplink: GPU and NIC under one switch of a guest are PIX, and their path
// does not cross the slow uplink. GPUs on NVLink need no other path.
func TestSwitchServesWithoutItsUplink(t *testing.T) {
	for _, hasNVLink := range []bool{true, false} {
		b := newBuilder()
		for range 2 {
			above := b.aSwitch(b.root(0), true)
			b.gpu(above, hasNVLink, true)
			b.nic(above, true)
		}

		for i, c := range b.machine.Choices() {
			if c.NIC != i || c.Type != ncclgraph.PIX || c.Limited {
				t.Errorf("GPU %d: %v, want its own NIC over PIX without a limit", i, c)
			}
		}

		if limited := b.machine.IsLimited(); limited == hasNVLink {
			t.Errorf("NVLink %v: limited %v: GPUs without NVLink go over the uplinks", hasNVLink,
				limited)
		}
	}
}

// TestCascadeCrossesAnUplink: GPU and NIC under two switches of a switch, as in the DGX A100. Their
// path is PXB, and the ring of NCCL's own code is 0.12 of the host's.
func TestCascadeCrossesAnUplink(t *testing.T) {
	b := newBuilder()
	outer := b.aSwitch(b.root(0), true)
	b.gpu(b.aSwitch(outer, true), true, true)
	b.nic(b.aSwitch(outer, true), true)

	if c := b.machine.Choices()[0]; c.Type != ncclgraph.PXB || !c.Limited ||
		!b.machine.IsLimited() {
		t.Errorf("%v, limited %v, want PXB that an uplink limits", c, b.machine.IsLimited())
	}

	b = newBuilder() // the host's, whose uplinks are as fast as the devices
	outer = b.aSwitch(b.root(0), false)
	b.gpu(b.aSwitch(outer, false), false, false)
	b.nic(b.aSwitch(outer, false), false)
	if c := b.machine.Choices()[0]; c.Type != ncclgraph.PXB || c.Limited || b.machine.IsLimited() {
		t.Errorf("%v, limited %v, want PXB without a limit", c, b.machine.IsLimited())
	}
}

// TestNICOfAnotherGPU: the second GPU has no NIC. On NVLink it reaches that of the first over it
// (PXN), which uses GPUDirect RDMA; without, the CPU is between.
func TestNICOfAnotherGPU(t *testing.T) {
	for hasNVLink, want := range map[bool]ncclgraph.Type{
		true: ncclgraph.PXN, false: ncclgraph.PHB,
	} {
		b := newBuilder()
		first, second := b.aSwitch(b.root(0), false), b.aSwitch(b.root(0), false)
		b.gpu(first, hasNVLink, false)
		b.nic(first, false)
		b.gpu(second, hasNVLink, false)

		if c := b.machine.Choices()[1]; c.NIC != 0 || c.Type != want {
			t.Errorf("NVLink %v: %v, want NIC 0 over %s", hasNVLink, c, want)
		}
	}
}

// TestSilentLink: a virtual function without a link under a port without one counts as 8 GT/s
// x16, so NCCL believes in a limit; under a port that tells a speed it does not.
func TestSilentLink(t *testing.T) {
	for _, isGuest := range []bool{true, false} {
		b := newBuilder()
		above := b.aSwitch(b.root(0), isGuest)
		b.gpu(above, true, isGuest)
		b.links[b.nic(above, isGuest)] = topology.Link{}

		if limited := b.machine.IsLimited(); limited != isGuest {
			t.Errorf("ports silent %v: limited %v", isGuest, limited)
		}
	}
}

// TestBesidePorts: a function beside the ports of a switch is not under that switch to NCCL,
// which goes up two bridges at a time (seeds 8, 16 and others of `make nccl`).
func TestBesidePorts(t *testing.T) {
	b := newBuilder()
	above := b.aSwitch(b.root(0), false)
	b.nic(above, false)
	id := topology.PCIDevice(topology.Address{Bus: 9})
	beside := b.tree.Add(above, topology.Node{Kind: topology.Endpoint, ID: id})
	b.machine.GPUs = []ncclgraph.GPU{{Node: beside}}

	if c := b.machine.Choices()[0]; c.Type != ncclgraph.PHB || c.IsDirect() {
		t.Errorf("%v, want PHB without GPUDirect RDMA", c)
	}
}

// TestShowsAs: a guest's switches show NCCL the host's paths only where their ports tell its links.
func TestShowsAs(t *testing.T) {
	machine := func(isSilent bool) ncclgraph.Machine {
		b := newBuilder()
		for range 2 {
			above := b.aSwitch(b.root(0), isSilent)
			b.gpu(above, true, isSilent)
			b.nic(above, isSilent)
		}

		return b.machine
	}

	if !machine(false).ShowsAs(machine(false)) {
		t.Error("machines that are equal show different paths")
	}

	if machine(true).ShowsAs(machine(false)) {
		t.Error("uplinks of 2.5 GT/s are not seen")
	}
}

// TestWithoutNICs: there is nothing to take, and no panic.
func TestWithoutNICs(t *testing.T) {
	b := newBuilder()
	b.gpu(b.root(0), false, true)
	if c := b.machine.Choices()[0]; c.NIC != -1 || c.IsDirect() || b.machine.IsLimited() {
		t.Errorf("%v, want no NIC", c)
	}
}

func TestJoined(t *testing.T) {
	physical := topology.Address{Bus: 1}
	for name, test := range map[string]struct {
		function     *topology.Function
		nvlink, xgmi bool
	}{
		"H100 SXM5": {&topology.Function{Vendor: 0x10de, Device: 0x2330}, true, false},
		"H100 PCIe": {&topology.Function{Vendor: 0x10de, Device: 0x2331}, false, false},
		"MI300X":    {&topology.Function{Vendor: 0x1002, Device: 0x74a1}, false, true},
		"MI250X":    {&topology.Function{Vendor: 0x1002, Device: 0x7408}, false, false},
		"vGPU of H100 SXM5": {&topology.Function{
			Vendor: 0x10de, Device: 0x2330, PhysFn: &physical,
		}, false, false},
		"virtual function with the id of MI300X": {&topology.Function{
			Vendor: 0x1002, Device: 0x74a1, PhysFn: &physical,
		}, false, false},
		"the only virtual function of an MI300X": {&topology.Function{
			Vendor: 0x1002, Device: 0x74b5, PhysFn: &physical, VFs: new(1),
		}, false, true},
		"one of eight virtual functions of an MI300X": {&topology.Function{
			Vendor: 0x1002, Device: 0x74b5, PhysFn: &physical, VFs: new(8),
		}, false, false},
		"virtual function of MI325X, of how many is not known": {&topology.Function{
			Vendor: 0x1002, Device: 0x74b9, PhysFn: &physical,
		}, false, true},
		"virtual function of MI355X, as a guest shows it": {&topology.Function{
			Vendor: 0x1002, Device: 0x75b3,
		}, false, true},
		"virtual function of V710": {&topology.Function{
			Vendor: 0x1002, Device: 0x7461, PhysFn: &physical, VFs: new(1),
		}, false, false},
		"not shown": {nil, false, false},
	} {
		nvlink, xgmi := ncclgraph.HasNVLink(test.function), ncclgraph.HasXGMI(test.function)
		if nvlink != test.nvlink || xgmi != test.xgmi {
			t.Errorf("%s: NVLink %v, XGMI %v; want %v, %v", name, nvlink, xgmi, test.nvlink,
				test.xgmi)
		}
	}
}

// TestXGMI: of two GPUs under switches of a guest the second has no NIC. XGMI joins them, so no
// path between them crosses an uplink, but RCCL takes its own to the NIC, which does.
func TestXGMI(t *testing.T) {
	for _, hasNIC := range []bool{true, false} {
		b := newBuilder()
		first, second := b.aSwitch(b.root(0), true), b.aSwitch(b.root(0), true)
		b.gpu(first, false, true)
		b.nic(first, true)
		b.gpu(second, false, true)
		if hasNIC {
			b.nic(second, true)
		}

		for i := range b.machine.GPUs {
			b.machine.GPUs[i].XGMI = true
		}

		if limited := b.machine.IsLimited(); limited == hasNIC {
			t.Errorf("the second GPU has a NIC %v: limited %v", hasNIC, limited)
		}
		if c := b.machine.Choices()[1]; !hasNIC && c.Type != ncclgraph.PHB {
			t.Errorf("without a NIC of its own: %v, want PHB", c)
		}
	}
}

// TestSlowest: a switch of QEMU's ports between GPUs without NVLink is the slowest path that NCCL
// uses, 2.5 GT/s on one lane: 2.5 * 0.6 / 8 GB/s (topo.cc, kvDictPciGen). With NVLink no path
// crosses it, and the slowest is that of a GPU to the NIC beside it.
func TestSlowest(t *testing.T) {
	for hasNVLink, want := range map[bool]float64{false: 2.5 * 0.6 / 8, true: 32 * 0.75 * 16 / 8} {
		b := newBuilder()
		for range 2 {
			above := b.aSwitch(b.root(0), true)
			b.gpu(above, hasNVLink, true)
			b.nic(above, true)
		}

		if got := b.machine.Slowest(); got != want {
			t.Errorf("NVLink %v: %g GB/s, want %g", hasNVLink, got, want)
		}
	}

	if got := newBuilder().machine.Slowest(); got != 0 {
		t.Errorf("without devices: %g GB/s", got)
	}
}
