package verdict

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Comparison compares the guest with its host.
type Comparison struct {
	GPUs   int `json:"gpus"`   // of the host
	NICs   int `json:"nics"`   // of the host
	Direct int `json:"direct"` // GPUs with GPUDirect RDMA there
	// whether it is shown which device is which
	Compared bool       `json:"compared"`
	Lost     []Lost     `json:"lost"`    // relations that the guest does not show
	Restore  []Restores `json:"restore"` // keys of the hook that restore them

	// GPUs of the guest that have GPUDirect RDMA on the host, to a NIC of the guest's; where it is
	// not shown which they are, as many as can be
	could int
}

// Lost is a relation of the host that the guest does not show.
type Lost struct {
	A     string `json:"a"`     // a GPU of the guest
	B     string `json:"b"`     // a GPU or NIC of the guest
	Host  string `json:"host"`  // path type on the host
	Guest string `json:"guest"` // path type in the guest
}

// Restores is a key of the hook's policy and what it restores.
type Restores struct {
	Key  string `json:"key"`  // with its value: layout=mirror
	What string `json:"what"` // what it restores
}

// compare compares the guest with its host.
func (v *Verdict) compare() {
	hostGPUs, hostNICs := gpusOf(v.host), nicsOf(v.host)
	c := &Comparison{
		GPUs: len(hostGPUs), NICs: len(hostNICs), Lost: []Lost{}, Restore: []Restores{},
	}

	v.Host = c

	c.Direct = countDirect(v.host, hostGPUs, hostNICs)
	c.could = min(c.Direct, len(v.gpus))

	gpus, nics, isShown := v.pairs()
	if c.Compared = isShown; !isShown {
		v.Notes = append(v.Notes, "which device of the host is which in the guest is not shown, so "+
			"pairs are not compared: paste nvidia-smi -q and lstopo --of xml of both, too. The "+
			"administrator can write NCCL's topology file for this VM: "+writeFile)
		return
	}

	onHost := func(p pairing) *topology.Function { return p.host }
	c.could = countDirect(v.host, topology.Map(gpus, onHost), topology.Map(nics, onHost))
	c.lose(v, gpus, nics)
	v.compareConsumers(gpus, nics)
	c.restore(v)
}

// countDirect counts the GPUs of a machine that use GPUDirect RDMA to one of these NICs. Only what the
// machine's text shows counts: the path to the chosen NIC. With PXN that is the path of another GPU,
// and the pair has none of its own to know.
func countDirect(m *paste.Machine, gpus, nics []*topology.Function) (count int) {
	for i, choice := range machine(m, gpus, nics).Choices() {
		if choice.NIC < 0 {
			continue
		}

		_, isKnown := m.PathType(gpus[i].Address, nics[choice.NIC].Address)
		if choice.IsDirect() && (isKnown || choice.Type == ncclgraph.PXN) {
			count++
		}
	}

	return count
}

// writeFile is the command that writes NCCL's topology file from the domain and the node.
const writeFile = "kubectl hostdev explain VM -o nccl"

// lose lists the pairs that are further apart than on the host.
func (c *Comparison) lose(v *Verdict, gpus, nics []pairing) {
	for i, a := range gpus {
		for _, b := range append(slices.Clone(gpus[i+1:]), nics...) {
			guest, known := v.guest.PathType(a.guest.Address, b.guest.Address)
			host, isKnown := v.host.PathType(a.host.Address, b.host.Address)

			// A text that ends at PHB cannot show that a pair is NODE or SYS. Both sides are
			// compared as far as both of them can tell.
			farthest := min(v.guest.Farthest, v.host.Farthest)
			if known && isKnown && min(guest, farthest) > min(host, farthest) {
				c.Lost = append(c.Lost, Lost{
					v.guest.Label(a.guest.Address), v.guest.Label(b.guest.Address),
					host.String(), guest.String(),
				})
			}
		}
	}
}

// restore names the keys that restore what the guest lacks.
func (c *Comparison) restore(v *Verdict) {
	add := func(isLost bool, key, what string) {
		if isLost {
			c.Restore = append(c.Restore, Restores{key, what})
		}
	}

	lost := func(types ...string) int {
		return topology.CountFunc(c.Lost, func(l Lost) bool {
			return slices.Contains(types, l.Host)
		})
	}

	// A finer layout has all that a coarser one has. So each is named only if no pair is lost
	// that takes a finer one.
	switches := lost("PIX", "PXB")
	lacksDirect := v.judged > 0 && v.direct < min(c.could, len(v.gpus)-v.robbed)
	add(switches > 0 || lacksDirect, "layout=mirror",
		fmt.Sprintf("the host's switches: %s of PIX and PXB, GPUDirect RDMA on %d of %d GPUs",
			words.Counted(switches, "pair"), c.could, len(v.gpus)))

	add(switches == 0 && lost("PHB") > 0, "layout=root",
		fmt.Sprintf("the host's PCIe roots: %s of PHB", words.Counted(lost("PHB"), "pair")))
	hasNodes := slices.ContainsFunc(gpusOf(v.host), func(d *topology.Function) bool {
		return nodeOf(v.host, d) != nil
	})

	lacksNodes := v.knowsNodes() && v.withNode() == 0 && hasNodes
	add(lacksNodes && len(c.Restore) == 0, "layout=numa",
		"NUMA nodes of the devices, with guestMappingPassthrough for the guest's cells")
	add(v.Limited, "port-speed=host", "links as fast as the host's")
	add(v.lostPeers(), "gpudirect-clique=host", "peer access between GPUs over PCIe")
	add(len(c.Restore) > 0 && c.Restore[0].Key == "layout=mirror", topologyFile,
		"the same for NCCL alone, with any layout")
}

// topologyFile is the key that shows the host's switches to NCCL alone.
const topologyFile = "nccl-topology=fwcfg"

// lostPeers reports whether GPUs reach each other on the host and not in the guest.
func (v *Verdict) lostPeers() bool {
	may := func(m *paste.Machine) (yes, known bool) {
		for _, word := range m.Peers {
			known, yes = true, yes || word == "OK"
		}
		return yes, known
	}

	onHost, _ := may(v.host)
	inGuest, known := may(&v.guest)
	return onHost && known && !inGuest
}
