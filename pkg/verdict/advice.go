package verdict

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/ncclgraph"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// advise lists what the guest's user can do, and what to send.
func (v *Verdict) advise() {
	if len(v.gpus) == 0 {
		return
	}

	v.adviseNetwork()
	v.advisePeers()
	v.adviseFile()
	v.adviseCPUs()
	v.Send = v.send()
}

func (v *Verdict) step(what string, lines ...string) {
	v.Steps = append(v.Steps, Step{what, lines})
}

// adviseNetwork names the NICs, and lets NCCL use GPUDirect RDMA farther than its default. The
// variables are those of NCCL's documentation, "Environment Variables".
func (v *Verdict) adviseNetwork() {
	var names []string
	for _, d := range v.nics {
		if name := v.guest.Names[d.Address]; isDriverName(name) {
			names = append(names, name)
		}
	}

	if len(names) > 0 {
		v.step("Let NCCL use these NICs and no others:", "export NCCL_IB_HCA="+hcaList(names))
	}

	if v.judged == 0 || v.direct == v.judged {
		return
	}

	level := "PHB"
	if slices.ContainsFunc(v.GPUs, func(g GPU) bool {
		return g.Path != nil && *g.Path == ncclgraph.SYS.String()
	}) {
		level = "SYS"
	}

	v.step("Let NCCL use GPUDirect RDMA although no switch is shown. Where GPU and NIC are near "+
		"on the host it may be as fast as there; measure with and without:",
		"export NCCL_NET_GDR_LEVEL="+level)
}

// isDriverName reports whether a name is that of a NIC's driver: nvidia-smi's NIC0 and NET0 of
// NCCL's log are not.
func isDriverName(name string) bool {
	return name != "" && !strings.HasPrefix(name, "NIC") && !strings.HasPrefix(name, "NET")
}

// hcaList writes names for NCCL_IB_HCA, which takes them for beginnings unless "=" precedes them.
func hcaList(names []string) string { return "=" + strings.Join(names, ",") }

// advisePeers lets NCCL use peer access farther than its default, where the driver allows it.
func (v *Verdict) advisePeers() {
	allowed := 0
	for _, word := range v.guest.Peers {
		if word == "OK" {
			allowed++
		}
	}

	isJoined := !slices.ContainsFunc(v.gpus, func(d *topology.Function) bool {
		return !v.guest.Linked[d.Address] && !ncclgraph.HasNVLink(d)
	})

	between := v.Relations[0]
	if allowed > 0 && !isJoined && between.PHB+between.NODE+between.SYS > 0 {
		v.step("The driver allows peer access between GPUs, but NCCL uses it up to PXB. Prove "+
			"that data arrive with nccl-tests and -c 1:", "export NCCL_P2P_LEVEL=SYS")
	}
}

// adviseFile names the topology file that NCCL can read.
func (v *Verdict) adviseFile() {
	_, err := v.TopologyFile()
	switch {
	case err == nil && (v.host != nil && v.direct < v.Host.Direct || v.Limited):
		v.step("Show NCCL the topology in a file. It is true until the VM is moved or restarted:",
			"hook-sidecar guest FILE --host HOST-FILE --format nccl --output topo.xml",
			"export NCCL_TOPO_FILE=$PWD/topo.xml")
		if v.host == nil {
			last := &v.Steps[len(v.Steps)-1]
			last.Text[0] = strings.Replace(last.Text[0], " --host HOST-FILE", "", 1)
		}

	case v.host == nil && v.Outcome == Flat:
		v.step("With a file of the host, such as its nvidia-smi topo -m or lstopo --of xml, NCCL "+
			"can be shown the host's topology:",
			"hook-sidecar guest FILE --host HOST-FILE --format nccl --output topo.xml")
	}
}

// adviseCPUs binds each process to the CPUs and memory of its GPU.
func (v *Verdict) adviseCPUs() {
	nodes := make([]string, len(v.GPUs))
	several := map[int]bool{}
	for i, g := range v.GPUs {
		if g.Node == nil {
			return
		}

		nodes[i] = fmt.Sprint(*g.Node)
		several[*g.Node] = true
	}

	if len(several) < 2 && len(v.guest.NUMA) < 2 {
		return
	}

	bind := func(rank string) string {
		return fmt.Sprintf(`bash -c 'n=(%s); i=${n[$%s]}; exec numactl -N $i -m $i "$@"' -`,
			strings.Join(nodes, " "), rank)
	}

	v.step("Run each process on the CPUs and memory of its GPU (CUDA_DEVICE_ORDER=PCI_BUS_ID, and "+
		"process i uses GPU i):",
		fmt.Sprintf("torchrun --nproc-per-node %d --no-python %s python train.py", len(v.GPUs),
			bind("LOCAL_RANK")),
		fmt.Sprintf("mpirun -np %d --bind-to none %s ./all_reduce_perf -b 8M -e 8G -f 2",
			len(v.GPUs), bind("OMPI_COMM_WORLD_LOCAL_RANK")))
}

// send lists what to send to whoever runs the cluster.
func (v *Verdict) send() []string {
	wanted := []string{"this answer and the text that it was made of"}
	if v.host == nil {
		wanted = append(wanted, "the question where the devices are on the host: `kubectl hostdev "+
			"explain VM` shows it there, and with --guest-file FILE compares it with this text")
	}

	if v.Outcome == Flat || v.Outcome == Partly {
		keys := []string{"layout=mirror"}
		if v.Host != nil && len(v.Host.Restore) > 0 {
			keys = topology.Map(v.Host.Restore, func(r Restores) string { return r.Key })
		} else if v.Limited {
			keys = []string{"port-speed=host"}
		}

		wanted = append(wanted, "the wish: "+strings.Join(keys, ", ")+" in the policy of "+
			"hook-sidecar ("+reasons.Page("README.md")+")")
	}

	return wanted
}
