package verdict_test

import (
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/test/expect"
)

// Tables of nvidia-smi, and of rocm-smi, as people paste them.
const (
	// Per node a switch with two GPUs and a NIC; mlx5_1 is storage's, on node 0 without a switch.
	storageNIC = `        GPU0 GPU1 GPU2 GPU3 mlx5_0 mlx5_1 mlx5_2 CPU Affinity NUMA Affinity
GPU0     X   NV12 NV12 NV12 PXB    NODE   SYS    0-15     0
GPU1    NV12  X   NV12 NV12 PXB    NODE   SYS    0-15     0
GPU2    NV12 NV12  X   NV12 SYS    SYS    PXB    16-31    1
GPU3    NV12 NV12 NV12  X   SYS    SYS    PXB    16-31    1
`
	// A NIC on node 0, and no switch.
	oneNIC = `        GPU0 GPU1 mlx5_0 CPU Affinity NUMA Affinity
GPU0     X   SYS  PHB    0-15     0
GPU1    SYS   X   SYS    16-31    1
`
	// One PCIe root per GPU and NIC, and no switch.
	twoRoots = `        GPU0 GPU1 mlx5_0 mlx5_1 CPU Affinity NUMA Affinity
GPU0     X   NODE PHB    NODE   0-15     0
GPU1    NODE  X   NODE   PHB    0-15     0
`
	// A driver before 450 writes no NUMA nodes, one before 390 SOC.
	socOnly = `        GPU0 GPU1 CPU Affinity
GPU0     X   SOC  0-13,28-41
GPU1    SOC   X   14-27,42-55
`
	mi300x = `=========== ROCm System Management Interface ===========
========= Link Type between two GPUs =========
       GPU0   GPU1
GPU0   0      XGMI
GPU1   XGMI   0
========= Numa Nodes =========
GPU[0]          : (Topology) Numa Node: 0
GPU[1]          : (Topology) Numa Node: 1
`
	// Two GPUs of a GB200 (https://github.com/sgl-project/sglang/issues/11208).
	grace = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n" +
		"GPU0\tX\tNV18\tSYS\t0-71\t0,2-17\tN/A\nGPU1\tNV18\tX\tSYS\t72-143\t1,18-33\tN/A\n"
	chipset = " \tGPU0\tGPU1\n GPU0\tX\tCNS\n GPU1\tCNS\tX\n"
)

// TestAdvice: what is said of a text, and the lines to copy. Each case is what an expert of NCCL
// would say.
func TestAdvice(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		says  string // the outcome and what it costs begin with it
		steps []string
		send  []string // of the wishes
		notes []string
	}{
		"UCX takes a NIC of another root": {
			text: twoRoots, says: "flat: ",
			steps: []string{"mpirun ", "lsmod", "export NCCL_NET_GDR_LEVEL=PHB",
				"export UCX_DISTANCE_BW=auto,phb:48GBs"},
			send: []string{"layout=auto"},
		},
		"a NIC of storage is not NCCL's": {
			text: storageNIC, says: "good: NCCL uses GPUDirect RDMA on 4 of 4 GPUs",
			steps: []string{"export NCCL_IB_HCA='=mlx5_0,mlx5_2'", "lsmod", "n=(0 0 1 1);", "n=(0 0 1 1);"},
		},
		"not to another node where one is nearer": {
			text: oneNIC, says: "partly: NCCL uses GPUDirect RDMA on 0 of 2 GPUs",
			steps: []string{"mpirun -np 2 -H VM1,VM2", "lsmod | grep nvidia_peermem",
				"export NCCL_NET_GDR_LEVEL=PHB", "n=(0 1);", "n=(0 1);"},
			send: []string{"layout=auto"},
		},
		"CPUs without NUMA nodes": {
			text: socOnly, says: "good: GPUs are near different CPUs",
			steps: []string{
				`torchrun --nproc-per-node 2 --no-python bash -c 'export CUDA_DEVICE_ORDER=PCI_BUS_ID; n=(0-13,28-41 14-27,42-55); i=${n[$LOCAL_RANK]}; exec taskset -c $i "$@"'`,
				"exec taskset -c $i"},
		},
		"rocm-smi shows no NICs": {
			text:  mi300x,
			says:  "good: 2 of 2 GPUs have a NUMA node; rocm-smi shows no NICs: paste lspci -vv, too",
			steps: []string{"n=(0 1);", "n=(0 1);"},
			notes: []string{"rocm-smi shows no paths"},
		},
		// GPU1 may have a NIC of its own in the columns that are missing.
		"cut at the right": {
			text:  "     GPU0 GPU1 NIC0 NI\nGPU0  X   NV18 PXB NO\nGPU1 NV18  X   NODE PX\n",
			says:  "unknown: NCCL uses GPUDirect RDMA on 1 of the 1 GPU whose paths are in the text",
			notes: []string{"the table is cut at the right: columns after NIC0 are missing"},
		},
		"no NUMA nodes": {
			text:  strings.NewReplacer(": 0\n", ": -1\n", ": 1\n", ": -1\n").Replace(mi300x),
			says:  "flat: 0 of 2 GPUs have a NUMA node",
			send:  []string{"the hook-sidecar with layout=auto (README.md) and NUMA nodes"},
			notes: []string{"rocm-smi shows no paths"},
		},
		"NVLink-C2C": {
			text:  grace,
			says:  "unknown: whether NCCL uses GPUDirect RDMA over NVLink-C2C its log says",
			steps: []string{"n=(0 1);", "n=(0 1);"},
		},
		"peers": {
			text: chipset, says: "unknown: it shows neither paths nor NUMA nodes",
			send: []string{"gpudirect-clique=host"},
			notes: []string{"nvidia-smi topo -p2p says what peers may do",
				"peer access of 1 pair of GPUs: CNS (chipset not supported) 1"},
		},
		"each on a node of its own": {
			text: strings.NewReplacer("0-13,28-41", "0", "14-27,42-55", "1",
				"CPU Affinity", "NUMA Affinity").Replace(socOnly),
			says:  "good: 2 of 2 GPUs have a NUMA node",
			steps: []string{"n=(0 1);", "n=(0 1);"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, _, err := paste.Read([]byte(test.text))
			expect.NoError(t, err)
			v := verdict.New(m, nil)
			if got := string(v.Outcome) + ": " + v.Cost; !strings.HasPrefix(got, test.says) {
				t.Errorf("it says %q, want %q", got, test.says)
			}

			var lines []string
			for _, step := range v.Steps {
				lines = append(lines, step.Text...)
			}

			wishes := slices.DeleteFunc(slices.Clone(v.Send), func(s string) bool {
				return !strings.HasPrefix(s, "I ask for ")
			})
			eachHas(t, "steps", lines, test.steps)
			eachHas(t, "wishes", wishes, test.send)
			eachHas(t, "notes", v.Notes, test.notes)
		})
	}
}

// eachHas checks that each text has the part that is wanted, and that there are as many.
func eachHas(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %q, want %q", what, got, want)
		return
	}

	for i := range got {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("%s: %q, want %q", what, got[i], want[i])
		}
	}
}

// TestXGMI: RCCL does not take another GPU's way to a NIC over XGMI, as NCCL does over NVLink
// (ROCm/rccl 0cbce2a7, src/graph/paths.cc:528).
func TestXGMI(t *testing.T) {
	const file = `<system version="1"><cpu numaid="0">
<pci busid="0000:01:00.0" class="0x060400">
<pci busid="0000:02:00.0" class="0x020700"><nic><net name="mlx5_0"/></nic></pci>
<pci busid="0000:03:00.0" class="0x030200"><gpu dev="0"><LINK target="0000:04:00.0"/></gpu></pci>
</pci>
<pci busid="0000:04:00.0" class="0x030200"><gpu dev="1"><LINK target="0000:03:00.0"/></gpu></pci>
</cpu></system>`

	for link, want := range map[string]string{"nvlink": "PXN", "xgmi": "PHB"} {
		m, _, err := paste.Read([]byte(strings.ReplaceAll(file, "LINK", link)))
		expect.NoError(t, err)
		v := verdict.New(m, nil)
		expect.Same(t, []string{"PIX", want}, []string{*v.GPUs[0].Path, *v.GPUs[1].Path},
			"%s: paths (-want +got)", link)
	}
}
