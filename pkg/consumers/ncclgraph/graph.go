// Package ncclgraph models what NCCL decides from the PCI Express tree that a machine shows:
// which NIC each GPU takes, whether it reads and writes that NIC without the CPU (GPUDirect
// RDMA), and whether a switch's uplink limits a path that NCCL uses. It follows NVIDIA/nccl
// 2.29.7, src/graph; `make nccl` compares it with NCCL's own code.
package ncclgraph

import (
	"math/bits"
	"slices"

	"hook-sidecar/pkg/topology"
)

// Machine is a host or a guest with its GPUs and NICs, each by PCI address: in the order in which
// CUDA and the network number them.
type Machine struct {
	GPUs []GPU
	NICs []*topology.Node

	// Link returns what sysfs shows as the fastest link of the function at a node, or of a port:
	// max_link_speed and max_link_width. Either is 0 where sysfs shows "Unknown" and 0.
	Link func(*topology.Node) topology.Link
}

// GPU is a GPU of a machine.
type GPU struct {
	Node   *topology.Node
	NVLink bool // it reaches each other such GPU of the machine over NVLink
	// it reaches each other such GPU over XGMI. RCCL takes no other GPU's way to a NIC, unlike
	// NCCL: NCCL_PXN_DISABLE is 1 (ROCm/rccl 0cbce2a7, src/graph/paths.cc:528)
	XGMI bool
}

// IsJoined reports whether it reaches others without PCI Express.
func (g GPU) IsJoined() bool { return g.NVLink || g.XGMI }

// Type is the type of a path between a GPU and a NIC, from the nearest to the farthest
// (src/include/graph.h, PATH_PIX and following). NCCL knows no PCIe roots: a CPU is a NUMA node.
type Type int

// The types.
const (
	PIX Type = iota // one switch
	PXB             // several switches
	PXN             // over NVLink to a GPU that is PIX or PXB
	PHB             // the CPU of one NUMA node
	SYS             // two NUMA nodes
)

// String returns NCCL's name.
func (t Type) String() string { return [...]string{"PIX", "PXB", "PXN", "PHB", "SYS"}[t] }

// IsDirect reports whether NCCL uses GPUDirect RDMA over a path of the type: up to PXB, in each
// version since 2.18, and with PXN, which then is the other GPU's path (paths.cc,
// ncclTopoCheckGdr).
func (t Type) IsDirect() bool { return t <= PXN }

// Choice is the NIC that NCCL takes for a GPU.
type Choice struct {
	NIC int // position in Machine.NICs; -1 where the machine has none
	Type
	// an uplink is slower than both ends, or a link shows no speed
	Limited   bool
	Bandwidth float64 // GB/s of the slowest PCI Express link on the path
}

// path is the path from a GPU to a NIC.
type path struct {
	Type
	bandwidth float64 // GB/s, of its slowest PCI Express link
	limited   bool
}

// Choices returns the NIC that NCCL takes for each GPU: of those with the most bandwidth the
// nearest; where several are equal it distributes the GPUs over them (topo.cc, ncclTopoGetLocal
// and ncclTopoGetLocalNetType, channel 0).
func (m Machine) Choices() []Choice {
	nics := topology.Map(m.NICs, m.wayOf)
	direct := make([][]path, len(m.GPUs))
	for i, gpu := range m.GPUs {
		own := m.wayOf(gpu.Node)
		direct[i] = topology.Map(nics, func(nic way) path { return between(own, nic) })
	}

	// The ways over NVLink come after all direct ones are known, since they end with another GPU's.
	peers := make([][]int, len(m.NICs))
	for n := range m.NICs {
		peers[n] = m.peersNear(direct, n)
	}

	choices := make([]Choice, len(m.GPUs))
	for i := range m.GPUs {
		paths := make([]path, len(m.NICs))
		for n := range m.NICs {
			paths[n] = m.overNVLink(direct, i, n, peers[n])
		}
		choices[i] = choose(paths, i)
	}

	return choices
}

// peersNear returns the GPUs over which others may reach NIC n: those on NVLink that are near it.
// Of them only one with more bandwidth than all before is ever taken.
func (m Machine) peersNear(direct [][]path, n int) (peers []int) {
	for j, peer := range m.GPUs {
		if theirs := direct[j][n]; peer.NVLink && theirs.Type <= PXB &&
			(len(peers) == 0 || theirs.bandwidth > direct[peers[len(peers)-1]][n].bandwidth) {
			peers = append(peers, j)
		}
	}

	return peers
}

// overNVLink returns the path of GPU i to NIC n: its own, or that over NVLink to one of the peers,
// where that one is nearer to the NIC (paths.cc, ncclTopoComputePaths, "PXN").
func (m Machine) overNVLink(direct [][]path, i, n int, peers []int) path {
	own := direct[i][n]
	if !m.GPUs[i].NVLink {
		return own
	}

	for _, j := range peers {
		theirs := direct[j][n]
		if isBetter := own.Type > PXN || theirs.bandwidth > own.bandwidth; j != i && isBetter {
			return path{PXN, theirs.bandwidth, theirs.limited}
		}
	}

	return own
}

// choose returns the choice of the GPU with a device number.
func choose(paths []path, gpu int) Choice {
	var local []int // the NICs with the best path
	for n, p := range paths {
		if len(local) > 0 {
			// A better path drops those before, an equal one joins them, a worse one is left out.
			best := paths[local[0]]
			switch isEqual := p.bandwidth == best.bandwidth; {
			case p.bandwidth > best.bandwidth, isEqual && p.Type < best.Type:
				local = local[:0]
			case !isEqual || p.Type > best.Type:
				continue
			}
		}

		local = append(local, n)
	}

	if len(local) == 0 {
		return Choice{NIC: -1, Type: SYS}
	}

	chosen := local[mirrored(gpu, len(local))%len(local)]
	p := paths[chosen]
	return Choice{NIC: chosen, Type: p.Type, Limited: p.limited, Bandwidth: p.bandwidth}
}

// mirrored returns a number with its bits below those of a power of two in reverse order, and the
// number itself for other counts (topo.cc, mirrorBits).
func mirrored(number, count int) int {
	if bits.OnesCount(uint(count)) != 1 {
		return number
	}
	width := bits.TrailingZeros(uint(count))
	return int(bits.Reverse64(uint64(number)) >> (64 - width))
}

// IsLimited reports whether NCCL would believe that a port of the machine slows down a path that it
// uses: that of a GPU to its NIC, or between GPUs without NVLink or XGMI. Such GPUs may also have
// to go through the CPU, since NVIDIA's driver refuses them peer access in most guests, and RCCL's
// rings reach NICs of other GPUs that way.
func (m Machine) IsLimited() bool {
	for _, c := range m.Choices() {
		if c.NIC >= 0 && c.Limited {
			return true
		}
	}

	if len(m.GPUs) < 2 {
		return false
	}

	for _, gpu := range m.GPUs {
		if !gpu.IsJoined() && m.wayOf(gpu.Node).toCPU().limited {
			return true
		}
	}

	return false
}

// Slowest returns GB/s of the slowest PCI Express link on a path that NCCL uses: that of a GPU to
// its NIC, or to the CPU on the way to other GPUs without NVLink or XGMI. It is 0 where there is no
// such path.
func (m Machine) Slowest() (slowest float64) {
	take := func(bandwidth float64) {
		if slowest == 0 || bandwidth < slowest {
			slowest = bandwidth
		}
	}

	for _, c := range m.Choices() {
		if c.NIC >= 0 {
			take(c.Bandwidth)
		}
	}

	// GPUs that NVLink or XGMI joins do not go over the CPU to each other.
	for _, gpu := range m.GPUs {
		if len(m.GPUs) > 1 && !gpu.IsJoined() {
			take(m.wayOf(gpu.Node).toCPU().bandwidth)
		}
	}

	return slowest
}

// ToCPU returns GB/s of the slowest link between a GPU and the CPU, and whether that is a port's: the
// GPU and its own port are faster.
func (m Machine) ToCPU(gpu int) (bandwidth float64, limited bool) {
	p := m.wayOf(m.GPUs[gpu].Node).toCPU()
	return p.bandwidth, p.limited
}

// ShowsAs reports whether NCCL finds the same paths between the functions of a machine as between
// those of the same IDs in another: of one type, and of one bandwidth.
func (m Machine) ShowsAs(other Machine) bool {
	theirs := map[topology.ID]way{}
	for _, w := range other.ways() {
		theirs[w.function.ID] = w
	}

	own := m.ways()
	for i, x := range own {
		for _, y := range own[:i] {
			here, there := between(x, y), between(theirs[x.function.ID], theirs[y.function.ID])
			if here.Type != there.Type || here.bandwidth != there.bandwidth {
				return false
			}
		}
	}

	return true
}

// ways returns the ways of the GPUs and NICs.
func (m Machine) ways() []way {
	gpus := topology.Map(m.GPUs, func(gpu GPU) way { return m.wayOf(gpu.Node) })
	return append(gpus, topology.Map(m.NICs, m.wayOf)...)
}

// way lists the links between a function and the CPU. It is read once per function, since each is
// the end of many paths.
type way struct {
	function  *topology.Node
	bandwidth float64 // GB/s, of the function's own link
	isSilent  bool    // neither the function nor the port above it tells a speed
	above     []element
}

// element is an upstream port of a way, the outermost first.
type element struct {
	node      *topology.Node
	bandwidth float64 // GB/s, of the link above it
}

// wayOf returns the way of a function. Of each two bridges on the way up NCCL takes the upper
// one, so of a switch its upstream port. Only a function beside the ports of a switch is
// elsewhere to NCCL, under the port above that switch (xml.cc, ncclTopoGetXmlFromSys, "Rewind
// two").
func (m Machine) wayOf(function *topology.Node) way {
	w := way{
		function:  function,
		bandwidth: m.bandwidth(function),
		isSilent:  m.linkAbove(function).Speed == 0,
	}

	n := function
	if n.IsMediated() {
		n = n.Parent
	}

	for {
		port := n.Parent
		if port == nil || port.Kind == topology.Root || port.Parent == nil ||
			port.Parent.Kind == topology.Root {
			slices.Reverse(w.above)
			return w
		}

		n = port.Parent
		w.above = append(w.above, element{n, m.bandwidth(n)})
	}
}

// Unlimited is a link that limits no path. It stands for one that was not read.
var Unlimited = topology.Link{Speed: 64, Width: 16}

// between returns the path between two functions without NVLink.
func between(x, y way) path {
	shared := len(topology.Shared(x.above, y.above))
	p := path{
		Type: SYS, bandwidth: min(x.bandwidth, y.bandwidth), limited: x.isSilent || y.isSilent,
	}

	switch isInner := len(x.above) > shared || len(y.above) > shared; {
	case shared > 0 && !isInner:
		p.Type = PIX
	case shared > 0:
		p.Type = PXB
	case topology.Same(x.function.NUMANode(), y.function.NUMANode()):
		// those without a node are at one CPU, too
		p.Type = PHB
	}

	return p.across(x.above[shared:]).across(y.above[shared:])
}

// toCPU returns the path to the CPU.
func (w way) toCPU() path {
	return path{Type: PHB, bandwidth: w.bandwidth, limited: w.isSilent}.across(w.above)
}

// across returns the path with the uplinks that it crosses. A slower one limits it.
func (p path) across(uplinks []element) path {
	for _, uplink := range uplinks {
		if uplink.bandwidth < p.bandwidth {
			p.bandwidth, p.limited = uplink.bandwidth, true
		}
	}
	return p
}

// linkAbove returns the link between a function and the port above it as NCCL takes it (xml.cc,
// ncclTopoGetXmlFromSys): the lower of the speeds that are known, and the lower width, which is
// unknown if one end does not show it.
func (m Machine) linkAbove(n *topology.Node) topology.Link {
	link := m.Link(n)
	if n.Parent == nil || !n.Parent.Kind.IsPort() {
		return link
	}

	port := m.Link(n.Parent)
	if link.Speed == 0 || port.Speed > 0 && port.Speed < link.Speed {
		link.Speed = port.Speed
	}

	link.Width = min(link.Width, port.Width)
	return link
}

// What NCCL takes for an unknown link: 8 GT/s (topo.cc, kvDictPciGen) and 16 lanes
// (ncclTopoAddPci).
const (
	unknownSpeed = 8
	unknownWidth = 16
)

// bandwidth returns the GB/s of the link above a function. Up to 5 GT/s a lane has 0.6 Gbit/s for
// each GT/s, above 0.75 (topo.cc, kvDictPciGen).
func (m Machine) bandwidth(n *topology.Node) float64 {
	link := m.linkAbove(n)

	// Speed and width are filled in each by itself: what is known of the other stays.
	if link.Speed == 0 {
		link.Speed = unknownSpeed
	}

	if link.Width == 0 {
		link.Width = unknownWidth
	}

	perGT := 0.75
	if link.Speed <= 5 {
		perGT = 0.6
	}

	return link.Speed * perGT * float64(link.Width) / 8
}
