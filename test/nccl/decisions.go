package nccl

import "slices"

// Decisions has the answer of NCCL's code to a job, as ncclgraph prints it.
type Decisions struct {
	NCCL     string
	Nodes    int
	GPUs     []GPU
	Ring     Graph
	Warnings int

	CollChannels, P2PChannelsPerPeer int
	AllReduceBw                      map[string]float64 // GB/s by "Algorithm/Protocol"; the model's
}

// GPU is a GPU with its paths.
type GPU struct {
	GPU  string            // name of the device
	GPUs map[string]string // type of path by GPU
	Nets map[string]Net
	Net  []string // NICs that it uses, of the first channel first
}

// Net is the way of a GPU to a NIC.
type Net struct {
	Own               string // type of path without detours over other GPUs
	OwnBw             float64
	GDRRead, GDRWrite int
}

// IsGDR reports whether data go both ways without the CPU's memory.
func (n Net) IsGDR() bool { return n.GDRRead > 0 && n.GDRWrite > 0 }

// Graph is the ring.
type Graph struct {
	NChannels        int
	BwIntra, BwInter float64 // GB/s of each channel within the machine and beyond
	TypeIntra        string
	TypeInter        string
}

// Outcome sums up decisions for a user, to compare a guest with its host.
type Outcome struct {
	GPUs      int
	GDR       int     // GPUs with GPUDirect RDMA to the NIC that they use
	Right     int     // GPUs that use the host's NICs
	Pairs     int     // pairs of GPU and NIC with GPUDirect RDMA, here and on the host
	Ring      float64 // GB/s of all channels
	Channels  int     // that are built for collectives; 0 where they were not computed
	AllReduce float64 // GB/s of the best algorithm, by NCCL's model; 0 where it was not computed
	LL128     bool    // that protocol may be used
}

// Outcome compares decisions with those of the host.
func (d Decisions) Outcome(host Decisions) Outcome {
	o := Outcome{
		GPUs: len(d.GPUs), Ring: d.ring(), Channels: d.CollChannels, AllReduce: d.allReduce(),
	}

	onHost := map[string]GPU{}
	for _, g := range host.GPUs {
		onHost[g.GPU] = g
	}

	for _, g := range d.GPUs {
		if len(g.Net) > 0 && g.Nets[g.Net[0]].IsGDR() {
			o.GDR++
		}

		if bare := onHost[g.GPU]; len(g.Net) > 0 && slices.Equal(sorted(g.Net), sorted(bare.Net)) {
			o.Right++
		}

		for name, net := range g.Nets {
			if net.IsGDR() && onHost[g.GPU].Nets[name].IsGDR() {
				o.Pairs++
			}
		}
	}

	for name := range d.AllReduceBw {
		o.LL128 = o.LL128 || slices.Contains([]string{"Tree/LL128", "Ring/LL128"}, name)
	}

	return o
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// ring returns GB/s of all channels of the ring: beyond the machine where there are several.
func (d Decisions) ring() float64 {
	if d.Nodes > 1 {
		return float64(d.Ring.NChannels) * d.Ring.BwInter
	}
	return float64(d.Ring.NChannels) * d.Ring.BwIntra
}

func (d Decisions) allReduce() (best float64) {
	for _, bw := range d.AllReduceBw {
		best = max(best, bw)
	}
	return best
}
