package verdict_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
)

// onSwitch is lspci -vv of a GPU and a NIC under one switch, with details for each.
func onSwitch(gpu, nic string) string {
	return `00:01.0 PCI bridge [0604]: Intel Corporation Device [8086:352a]
	Bus: primary=00, secondary=01, subordinate=04, sec-latency=0
01:00.0 PCI bridge [0604]: Broadcom / LSI Switch [1000:c030]
	Bus: primary=01, secondary=02, subordinate=04, sec-latency=0
02:00.0 PCI bridge [0604]: Broadcom / LSI Switch [1000:c030]
	Bus: primary=02, secondary=03, subordinate=03, sec-latency=0
02:01.0 PCI bridge [0604]: Broadcom / LSI Switch [1000:c030]
	Bus: primary=02, secondary=04, subordinate=04, sec-latency=0
03:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] ` + gpu + `
	NUMA node: 0
04:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 [15b3:1021] ` + nic + `
	NUMA node: 0
`
}

// cascade is lspci -v of a GPU and a NIC under two switches of QEMU's, with a line for the upper
// one's upstream port.
func cascade(link string) string {
	return `00:01.0 PCI bridge: Red Hat, Inc. QEMU PCIe Root port
	Bus: primary=00, secondary=01, subordinate=06, sec-latency=0
01:00.0 PCI bridge: Texas Instruments XIO3130 PCI Express Switch (Upstream) (rev 02)
	Bus: primary=01, secondary=02, subordinate=06, sec-latency=0
` + link + `
02:00.0 PCI bridge: Texas Instruments XIO3130 PCI Express Switch (Downstream) (rev 01)
	Bus: primary=02, secondary=03, subordinate=03, sec-latency=0
02:01.0 PCI bridge: Texas Instruments XIO3130 PCI Express Switch (Downstream) (rev 01)
	Bus: primary=02, secondary=04, subordinate=06, sec-latency=0
03:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)
	NUMA node: 0
04:00.0 PCI bridge: Texas Instruments XIO3130 PCI Express Switch (Upstream) (rev 02)
	Bus: primary=04, secondary=05, subordinate=06, sec-latency=0
` + link + `
05:00.0 PCI bridge: Texas Instruments XIO3130 PCI Express Switch (Downstream) (rev 01)
	Bus: primary=05, secondary=06, subordinate=06, sec-latency=0
06:00.0 Infiniband controller: Mellanox Technologies MT2910
	NUMA node: 0
`
}

// lstopoRDMA is lstopo's XML of a GPU and a NIC on one bus, and a NIC with an RDMA device on
// another; inside the first NIC is what device says.
func lstopoRDMA(device string) string {
	return `<topology version="2.0"><object type="Machine" nodeset="0x1">` +
		`<info name="OSName" value="Linux"/><object type="NUMANode" os_index="0" nodeset="0x1"/>` +
		`<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[e0-e4]">` +
		`<object type="Bridge" bridge_type="1-1" pci_busid="0000:e0:00.0" pci_type="0604 [1b36:000c]">` +
		`<object type="Bridge" bridge_type="1-1" pci_busid="0000:e1:00.0" pci_type="0604 [1000:c030]">` +
		`<object type="Bridge" bridge_type="1-1" pci_busid="0000:e2:00.0" pci_type="0604 [1000:c030]">` +
		`<object type="PCIDev" pci_busid="0000:e3:00.0" pci_type="0302 [10de:2330]"/></object>` +
		`<object type="Bridge" bridge_type="1-1" pci_busid="0000:e2:01.0" pci_type="0604 [1000:c030]">` +
		`<object type="PCIDev" pci_busid="0000:e4:00.0" pci_type="0200 [15b3:101e]">` + device +
		`</object></object></object></object></object>` +
		`<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[c0-c1]">` +
		`<object type="PCIDev" pci_busid="0000:c0:01.0" pci_type="0200 [15b3:101e]">` +
		`<object type="OSDev" osdev_type="3" name="mlx5_0"/></object></object></object></topology>`
}

// TestGoodMeansUsable: a tree is not good whose text shows that a device cannot work, or does not
// show what decides; the answer names the device and the cure.
func TestGoodMeansUsable(t *testing.T) {
	const nvlink = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tNV18\t0-95\t0\n" +
		"GPU1\tNV18\tX\t0-95\t0\n"
	const cuda, rdma = "\n\tKernel driver in use: nvidia", "\n\tKernel driver in use: mlx5_core"
	inVM := func(text string) string { return strings.ReplaceAll(text, "[8086:352a]", "[1b36:000c]") }
	for name, test := range map[string]struct {
		text string
		want verdict.Outcome
		says []string // in the first line or the notes
	}{
		"all work": {onSwitch("(rev a1)", ""), verdict.Good, nil},
		"the NIC is vfio-pci's": {
			onSwitch(cuda, "\n\tKernel driver in use: vfio-pci"), verdict.Broken,
			[]string{"no NIC that NCCL can use", "04:00.0 has the driver vfio-pci", "bind it to mlx5_core"},
		},
		"a node that passes all": {
			onSwitch("\n\tKernel driver in use: vfio-pci", "\n\tKernel driver in use: vfio-pci"),
			verdict.Unknown, []string{"on 1 of 1 GPU", "VFIO has all GPUs"},
		},
		"the GPU is nouveau's": {
			onSwitch("\n\tKernel driver in use: nouveau", rdma), verdict.Broken,
			[]string{"03:00.0 has the driver nouveau", "modprobe nvidia", "grep -i nvrm"},
		},
		"the GPU has no driver": {
			onSwitch("\n\tKernel modules: nouveau, nvidia", rdma), verdict.Broken,
			[]string{"03:00.0 has no driver: install or load nvidia"},
		},
		"an AMD GPU has no driver": {
			strings.ReplaceAll(onSwitch("", rdma), "10de:2330", "1002:74a1"), verdict.Broken,
			[]string{"03:00.0 has no driver: install or load amdgpu", "modprobe amdgpu"},
		},
		"an Intel GPU has no driver": {
			strings.ReplaceAll(onSwitch("", rdma), "10de:2330", "8086:0bd5"), verdict.Broken,
			[]string{"03:00.0 has no driver: install or load xe"},
		},
		"amdgpu, xe and i915 work": {
			strings.ReplaceAll(onSwitch("\n\tKernel driver in use: amdgpu", rdma), "10de:2330",
				"1002:74a1"), verdict.Good, []string{"it needs DMA-BUF, too"},
		},
		"the NIC has no driver": {
			onSwitch(cuda, "\n\tKernel modules: mlx5_core"), verdict.Broken,
			[]string{"04:00.0 has no driver: install or load mlx5_core"},
		},
		"the text is cut before the NIC's driver": {onSwitch(cuda, ""), verdict.Good, nil},
		"the GPU's memory is off": {
			onSwitch("\n\tRegion 2: Memory at 3820 (64-bit, prefetchable) [disabled] [size=128G]"+cuda,
				rdma), verdict.Broken, []string{"03:00.0 has memory that no driver has turned on"},
		},
		"a virtual function's memory is never on": {
			onSwitch(cuda, "\n\tRegion 0: [virtual] Memory at 3820 (64-bit, prefetchable) [disabled]"+rdma),
			verdict.Good, []string{"nvidia-peermem or DMA-BUF"},
		},
		"all GPUs are VFIO's under QEMU": {
			inVM(onSwitch("\n\tKernel driver in use: vfio-pci", rdma)), verdict.Broken,
			[]string{"03:00.0 has the driver vfio-pci", "bind it to nvidia"},
		},
		"all GPUs are VFIO's, flat": {
			"00:05.0 3D controller: NVIDIA Corporation GH100\n\tKernel driver in use: vfio-pci\n" +
				"00:06.0 Infiniband controller: Mellanox Technologies MT2910\n" + rdma,
			verdict.Flat, []string{"VFIO has all GPUs", "If this is the VM"},
		},
		"a table and a tree": {
			onSwitch(cuda, rdma) + "\n\tGPU0\tmlx5_0\nGPU0\t X \tPHB\nmlx5_0\tPHB\t X\n",
			verdict.Unknown, []string{"nvidia-smi and lspci contradict each other for 1 pair " +
				"(GPU0-mlx5_0: PHB, PIX): are both of this boot?"},
		},
		"a table as the tree": {
			onSwitch(cuda, rdma) + "\n\tGPU0\tmlx5_0\nGPU0\t X \tPXB\nmlx5_0\tPXB\t X\n",
			verdict.Good, nil,
		},
		"the GPU does not answer": {
			onSwitch("(rev ff)", ""), verdict.Broken,
			[]string{"no GPU works", "03:00.0 does not answer", "restart the VM"},
		},
		"its header is unknown": {
			onSwitch("\n\t!!! Unknown header type 7f", ""), verdict.Broken,
			[]string{"03:00.0 does not answer"},
		},
		"a BAR has no address": {
			onSwitch("\n\tRegion 2: Memory at <unassigned> (64-bit, prefetchable) [disabled]", ""),
			verdict.Broken, []string{"03:00.0 has a BAR without an address", "mmio-window=auto"},
		},
		"a BAR is ignored": {
			onSwitch("\n\tRegion 2: Memory at <ignored> (64-bit, prefetchable)", ""),
			verdict.Broken, []string{"mmio-window=auto"},
		},
		"a ROM without an address does no harm": {
			onSwitch("\n\tExpansion ROM at <ignored> [disabled]", ""), verdict.Good, nil,
		},
		"one of two GPUs does not answer": {
			strings.ReplaceAll(onSwitch("(rev a1)", ""), "03:00.0 3D", "03:00.1 3D controller [0302]: "+
				"NVIDIA Corporation GH100 [10de:2330] (rev ff)\n03:00.0 3D"), verdict.Partly,
			[]string{"03:00.1 does not answer", "GPUDirect RDMA on 1 of 2 GPUs"},
		},
		"a NIC without RDMA is near": {
			lstopoRDMA(`<object type="OSDev" osdev_type="2" name="eth0"/>`), verdict.Flat,
			[]string{"0 of 1 GPU", "e4:00.0 has no RDMA device"},
		},
		"a NIC with RDMA is near": {
			lstopoRDMA(`<object type="OSDev" osdev_type="3" name="mlx5_1"/>`), verdict.Good, nil,
		},
		"links of QEMU's switches are not shown": {
			cascade(""), verdict.Unknown, []string{"the links of QEMU's switches", "lspci -vv of root"},
		},
		"links of QEMU's switches are fast": {
			cascade("\t\tLnkCap:\tPort #0, Speed 64GT/s, Width x16"), verdict.Good, nil,
		},
		"one node, no NIC, only NVLink": {
			nvlink, verdict.Unknown, []string{"the only one that the guest shows"},
		},
	} {
		m, _, err := paste.Read([]byte(test.text))
		expect.NoError(t, err)
		v := verdict.New(m, nil)
		all := v.Cost + "\n" + strings.Join(v.Notes, "\n")
		if v.Outcome != test.want {
			t.Errorf("%s: %s: %s, want %s", name, v.Outcome, all, test.want)
		}

		for _, part := range test.says {
			if !strings.Contains(all, part) {
				t.Errorf("%s: it says %q, want %q", name, all, part)
			}
		}
	}
}

// TestGuessedNICs: a table whose NICs have another order than the tree's addresses does not contradict
// the tree, since which is which is a guess. One in which another number of them is near a GPU does.
func TestGuessedNICs(t *testing.T) {
	m := pastes.Parse(t, twoSwitches)
	tree := strings.ReplaceAll(pastes.Named("lspci -vv").Print(m), "vfio-pci", "mlx5_core")
	for table, want := range map[string]verdict.Outcome{
		"GPU0\t X \tSYS\tSYS\tPIX\t0-3\t0\nGPU1\tSYS\t X \tPIX\tSYS\t4-7\t1\n": verdict.Good,
		"GPU0\t X \tSYS\tSYS\tPHB\t0-3\t0\nGPU1\tSYS\t X \tPHB\tSYS\t4-7\t1\n": verdict.Unknown,
	} {
		text := tree + "\n\tGPU0\tGPU1\tmlx5_0\tmlx5_1\tCPU Affinity\tNUMA Affinity\n" + table
		read, _, err := paste.Read([]byte(text))
		expect.NoError(t, err)
		v := verdict.New(read, nil)
		if v.Outcome != want || (want == verdict.Unknown) != strings.Contains(v.Cost, "contradict") {
			t.Errorf("%s: %s: %s", table, v.Outcome, v.Cost)
		}
	}
}
