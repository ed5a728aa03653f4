package verdict_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
)

// thread is what a person pasted into a public thread: what a program printed of a machine, and
// what happened to it on its way.
type thread struct {
	source  string // its address, for the verdict that a person reads there
	machine string // in testdata/machines
	print   func(*pastes.Machine) string
	damages []pastes.Damage

	// want is the outcome, and of how many GPUs how many have a NIC that is PIX or PXB.
	want    string
	note    string // the beginning of one of the verdict's notes; "" for any
	refused string // the beginning of the error; "" if it is read
}

const github = "https://github.com/"

// far are tables in which the driver takes each path between host bridges for SYS.
var far = pastes.Replaced("\tNODE", "\tSYS")

// spaced are tables whose tabs got lost.
var spaced pastes.Damage = pastes.Spaced

// threads are what was pasted. Expectations were written before a reader saw the text.
var threads = []thread{
	{
		source:  "https://ai-atlas-a.chatqaq.com/en/posts/understanding-and-analyzing-nvidia-gpu-topology-in-linux/",
		machine: "ai-atlas-3g", print: pastes.TopoM.Print,
		damages: []pastes.Damage{pastes.Glued, pastes.After("We see this:\n\n")}, want: "flat -",
	},
	{
		source:  "https://ai-atlas-a.chatqaq.com/en/posts/understanding-and-analyzing-nvidia-gpu-topology-in-linux/",
		machine: "ai-atlas-3g", print: pastes.TopoM.Print,
		damages: []pastes.Damage{pastes.CutAt(1, "\nLegend"), pastes.Markdown}, want: "flat -",
	},
	{
		source:  github + "axolotl-ai-cloud/axolotl/pull/536",
		machine: "axolotl-536", print: pastes.Topo450.Print,
		damages: []pastes.Damage{spaced, pastes.After("# nvidia-smi topo -m\n")}, want: "good -",
	},
	{
		source:  github + "chyves/chyves/issues/3",
		machine: "chyves-3", print: pastes.LspciList(pastes.WithNames),
		damages: []pastes.Damage{pastes.After("On guest\n```\n# lspci\n")}, want: "unknown -",
	},
	{
		source: github + "noonghunna/club-3090/issues/1229", machine: "club-3090-1229",
		print: func(m *pastes.Machine) string {
			return pastes.TopoMP.Print(m) + "\n<details><summary>topo -p2p</summary>\n\n```\n" +
				pastes.Peers("GNS")(m)
		},
		want: "flat -", note: "nvidia-smi topo -p2p says",
	},
	{
		source:  github + "noonghunna/club-3090/issues/46",
		machine: "club-3090-46", print: pastes.TopoMP.Print,
		damages: []pastes.Damage{spaced}, want: "good -",
	},
	{
		source:  github + "noonghunna/club-3090/issues/851",
		machine: "club-3090-851", print: pastes.LspciTree(pastes.WithoutNames),
		want: "unknown -", note: "the tree has no names",
	},
	{
		source:  github + "deepseek-ai/DeepEP/issues/128",
		machine: "deepep-128", print: pastes.TopoM.Print,
		damages: []pastes.Damage{far, spaced, pastes.CutAt(1, "\nGPU6"), after("\nGPU6     SYS     SYS     SYS")},
		want:    "unknown 6/6", note: "the table is cut: GPU6, GPU7",
	},
	{
		source:  github + "NVIDIA/go-gpuallocator/issues/17",
		machine: "go-gpuallocator-17", print: pastes.TopoM.Print,
		damages: []pastes.Damage{far}, want: "partly 0/8",
	},
	{
		source:  github + "open-mpi/hwloc/pull/406",
		machine: "hwloc-406", print: pastes.LstopoText(2, true),
		damages: []pastes.Damage{pastes.From("    PCIBridge L#3"), pastes.CutAt(1, "PCI L#1")},
		want:    "unknown -",
	},
	{
		source:  github + "imbue-ai/cluster-health/issues/4",
		machine: "sriov-635", print: pastes.IBDevNames,
		damages: []pastes.Damage{pastes.Replaced(" (Up)", "   (Down)  # a NIC", "port", "  port")},
		want:    "unknown -",
	},
	{
		source:  github + "ROCm/legacy-rocm-build/issues/4740",
		machine: "rocm-4740", print: pastes.ROCmNodes,
		damages: []pastes.Damage{pastes.After("$ rocm-smi --showtoponuma\n\n")}, want: "good -",
	},
	{
		source:  github + "canonical/lxd/issues/4683",
		machine: "lxd-4683", print: pastes.LspciList(pastes.WithBoth),
		damages: []pastes.Damage{pastes.Lines("NVIDIA"), pastes.After("**lspci -nn | grep**\n\n```\n")},
		want:    "unknown -",
	},
	// The paths to NET/0 to NET/3 are not in the text, and one of them may be near.
	{
		source:  github + "NVIDIA/nccl/issues/1189",
		machine: "nccl-1189", print: pastes.NCCLPaths(""),
		damages: []pastes.Damage{pastes.Lines("NET/4 :", "NET/7 :")}, want: "unknown -",
	},
	{
		source:  github + "NVIDIA/nccl/issues/1453",
		machine: "nccl-1453", print: pastes.TopoM.Print,
		damages: []pastes.Damage{pastes.CutAt(1, "\nNIC3")}, want: "good 8/8",
	},
	{
		source:  github + "NVIDIA/nccl/issues/1505",
		machine: "oci-h100", print: pastes.NCCLFile,
		damages: []pastes.Damage{pastes.From(`<pci busid="0000:08:00.0"`), pastes.CutAt(1, "</pci>")},
		refused: "the beginning of the file is missing",
	},
	// Of three GPUs the paths are in it, to no near NIC; over NVLink each could use one that is near
	// one of the five others.
	{
		source:  github + "NVIDIA/nccl/issues/1519",
		machine: "nccl-1519", print: pastes.NCCLPaths("0-"),
		damages: []pastes.Damage{
			pastes.Lines("GPU/2000 :", "GPU/3000 :", "GPU/4000 :"), pastes.CutAt(3, "NET/0-4"),
		},
		want: "unknown -",
	},
	// NVLink joins all GPUs, so each reaches a NIC by that of GPU0 (PXN).
	{
		source:  github + "NVIDIA/nccl/issues/1737",
		machine: "nccl-1737", print: pastes.TopoM.Print,
		damages: []pastes.Damage{
			pastes.CutAt(1, "\nGPU3"), spaced,
			after("GPU3    NV18    NV18    NV18     X      NV18    NV18    NV18    NV18    NODE\n"),
		},
		want: "good 8/8", note: "the table is cut: GPU3",
	},
	{
		source:  github + "NVIDIA/nccl/issues/1817",
		machine: "nccl-1817", print: pastes.TopoM.Print,
		damages: []pastes.Damage{
			spaced, pastes.CutAt(1, "\nGPU4"), after("\nGPU4     SYS     SYS     SYS     SYS      X"),
		},
		want: "partly -", note: "the table is cut: GPU4",
	},
	{
		source:  github + "NVIDIA/nccl/issues/246",
		machine: "nccl-246", print: pastes.LspciTree(pastes.NamesIn(pastes.WithNames)),
		damages: []pastes.Damage{
			pastes.After(" |           \\-08.2  Intel Corporation Registers\n"), pastes.CutAt(1, "NVIDIA"),
		},
		want: "unknown -",
	},
	{
		source: github + "NVIDIA/nccl/issues/246", machine: "nccl-246",
		print: func(m *pastes.Machine) string {
			return pastes.NCCLLine("CUDA Dev 0[0], IB NIC distance :  PIX")
		},
		refused: "NCCL's log without its tree",
	},
	{
		source:  github + "NVIDIA/nccl/issues/601",
		machine: "nccl-601", print: pastes.NCCLPaths(""),
		damages: []pastes.Damage{
			pastes.Lines("GPU/7000 :", "NET/0 :", "NET/1 :", "NET/2 :", "NET/3 :"),
			pastes.CutAt(6, "NET/3 "),
		},
		want: "partly 0/4",
	},
	{
		source:  github + "NVIDIA/nccl/issues/879",
		machine: "oci-h100", print: pastes.NCCLLog,
		damages: []pastes.Damage{
			pastes.Lines("GPU/", "NIC/", "NVL", "NET/", " + PCI[48.0] - PCI"),
		},
		refused: "NCCL's log is cut",
	},
	{
		source: github + "NVIDIA/nccl-tests/issues/182", machine: "nccl-tests-182",
		print: func(m *pastes.Machine) string {
			return pastes.NCCLLine("Pattern 3, crossNic 0, nChannels 1, type LOC/PHB") +
				pastes.NCCLLine(" 0 : NET/0 GPU/1 NET/0") + pastes.NCCLLog(m)
		},
		want: "flat 0/1",
	},
	{
		source:  github + "NVIDIA/nccl-tests/issues/256",
		machine: "nccl-tests-256", print: pastes.LspciTree(pastes.NamesIn(pastes.WithNames)),
		damages: []pastes.Damage{
			pastes.After("root@vm:~# lspci -tvv\n"), pastes.CutAt(1, "[11]"), after("[1"),
		},
		want: "flat 0/8",
	},
	{
		source: github + "NVIDIA/nccl-tests/issues/307", machine: "nccl-tests-307",
		print: func(m *pastes.Machine) string {
			return pastes.Lines("GPU/8000 :", "GPU/a000 :")(pastes.NCCLPaths("0-")(m)) +
				pastes.CutAt(1, "GPU")(pastes.NCCLLog(m))
		},
		want: "good -",
	},
	{
		source:  github + "ROCm/rocm-systems/issues/5763",
		machine: "rocm-4740", print: pastes.AMDTopology,
		damages: []pastes.Damage{pastes.CutAt(1, "\n0000:03:00.0"), after("\n0000:03:00.0\n")},
		want:    "unknown -", note: "amd-smi shows no paths",
	},
	{
		source:  github + "ROCm/rocm_smi_lib/issues/108",
		machine: "rocm-smi-lib-108", print: pastes.ROCmTopology,
		damages: []pastes.Damage{pastes.CutAt(1, "uma Node:")},
		want:    "unknown -", note: "rocm-smi shows no paths",
	},
	{
		source: github + "openshift/sriov-network-operator/issues/635", machine: "sriov-635",
		print: func(m *pastes.Machine) string {
			return pastes.CutAt(1, "mlx5_4")(pastes.IBDevNames(m)) +
				"\nroot@node$ lspci | grep Mellanox\n" +
				pastes.Lines("Mellanox")(pastes.LspciList(pastes.WithNames)(m))
		},
		want: "unknown -",
	},
	{
		source:  github + "siderolabs/talos/issues/9121",
		machine: "talos-9121", print: pastes.LspciList(pastes.WithNames),
		damages: []pastes.Damage{
			after("22:00.0 Host bridge: Intel Corporation Device 1bfe (rev 11)\n# lscpu\nArchitecture: " +
				"x86_64\n  CPU op-mode(s): 32-bit, 64-bit\n"),
			pastes.Before(" "),
		},
		want: "unknown -",
	},
	{
		source:  github + "vllm-project/vllm/issues/6370",
		machine: "vllm-6370", print: pastes.TopoM.Print,
		damages: []pastes.Damage{
			far, spaced, pastes.CutAt(1, "\nGPU4"),
			pastes.After("CUDA Archs: Not Set; ROCm: Disabled\nGPU Topology:\n"),
		},
		want: "unknown 0/4", note: "the table is cut: GPU4",
	},
}

// after puts something after a text.
func after(tail string) pastes.Damage { return func(s string) string { return s + tail } }

// text returns what was pasted.
func (th thread) text(tb testing.TB) string {
	tb.Helper()
	text := th.print(pastes.Load(tb, th.machine))
	for _, damage := range th.damages {
		text = damage(text)
	}
	return text
}

// TestThreads: what people paste gives the verdict that a person reads from it. What does not say
// enough is refused with the reason.
func TestThreads(t *testing.T) {
	for _, th := range threads {
		t.Run(strings.TrimPrefix(th.source, github), func(t *testing.T) {
			m, _, err := paste.Read([]byte(th.text(t)))
			if th.refused != "" {
				if err == nil || !strings.HasPrefix(err.Error(), th.refused) {
					t.Errorf("error %v, want %s", err, th.refused)
				}
				return
			}

			expect.NoError(t, err)
			v := verdict.New(m, nil)
			expect.Same(t, th.want, said(v), "verdict (-want +got)")
			if !slices.ContainsFunc(v.Notes, func(n string) bool {
				return strings.HasPrefix(n, th.note)
			}) && th.note != "" {
				t.Errorf("notes %q, want %s", v.Notes, th.note)
			}

			if t.Failed() {
				t.Logf("of the text\n%s", th.text(t))
			}
		})
	}
}

// said returns the outcome of a verdict, and for how many of the GPUs whose path is known GPUDirect
// RDMA is used; "-" for none known.
func said(v verdict.Verdict) string {
	direct, known := 0, 0
	for _, gpu := range v.GPUs {
		if gpu.Direct == nil {
			continue
		}
		if known++; *gpu.Direct {
			direct++
		}
	}

	if known == 0 {
		return string(v.Outcome) + " -"
	}

	return fmt.Sprintf("%s %d/%d", v.Outcome, direct, known)
}
