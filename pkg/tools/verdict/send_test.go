package verdict_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/test/expect"
)

// TestSend: what to send is three sentences for a person who does not know this project: what is
// wrong, how to see it, and what to do; without what the guest's user can do alone. Where that is all,
// or all is well, there is nothing to send.
func TestSend(t *testing.T) {
	const flat = "00:05.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]\n" +
		"00:06.0 Infiniband controller [0207]: Mellanox Technologies MT2910 [15b3:1021]\n"
	const records = "Slot:\t0000:00:05.0\nClass:\t3D controller [0302]\nVendor:\tNVIDIA [10de]\n" +
		"Device:\tGH100 [2330]\n\nSlot:\t0000:00:06.0\nClass:\tInfiniband controller [0207]\n" +
		"Vendor:\tMellanox [15b3]\nDevice:\tMT2910 [1021]\n"
	const roots = "-+-[0000:15]---01.0-[1b]----00.0  NVIDIA Corporation GH100 [10de:2330]\n" +
		" \\-[0000:97]---01.0-[9d]----00.0  Mellanox Technologies MT2910 [15b3:1021]\n"
	const alone = "01:00.0 3D controller: NVIDIA Corporation GH100\n\tFlags: bus master\n"
	for name, test := range map[string]struct{ text, first, last string }{
		"all is well": {onSwitch("", ""), "", ""},
		"flat": {flat, "In my VM with 1 GPU and 1 NIC the PCI tree is flat: ",
			"I ask for the node's tree in the VM: the hook-sidecar with layout=auto ("},
		"flat, as records": {records, "In my VM with 1 GPU and 1 NIC the PCI tree is flat: NCCL uses",
			"I ask for the node's tree in the VM: the hook-sidecar with layout=auto ("},
		"a GPU alone": {alone, "In my VM with 1 GPU and 0 NICs the PCI tree", "I ask for NUMA nodes ("},
		"not known": {roots, "My VM has 1 GPU and 1 NIC, and what it shows me does not tell whether",
			"Please send me what it prints."},
		"no BAR": {
			onSwitch("\n\tRegion 2: Memory at <unassigned> (64-bit, prefetchable) [disabled]", ""),
			"In my VM with 1 GPU and 1 NIC: no GPU works; 03:00.0 has a BAR without an address, so no " +
				"driver can use it.",
			"I ask for a larger window for 64-bit BARs (mmio-window=auto of hook-sidecar, "},
		"no answer": {onSwitch("(rev ff)", ""),
			"In my VM with 1 GPU and 1 NIC: no GPU works; 03:00.0 does not answer (rev ff).",
			"I ask for a reset of the device that is 03:00.0 in the VM."},
		"a driver that the user loads": {onSwitch("", "\n\tKernel driver in use: vfio-pci"), "", ""},
	} {
		m, _, err := paste.Read([]byte(test.text))
		expect.NoError(t, err)
		v := verdict.New(m, nil)
		if test.first == "" {
			expect.Same(t, []string{}, v.Send, "%s: nothing is sent (-want +got)", name)
			continue
		}

		if len(v.Send) != 3 || !strings.HasPrefix(v.Send[0], test.first) ||
			!strings.HasPrefix(v.Send[2], test.last) ||
			!strings.HasPrefix(v.Send[1], "`kubectl hostdev explain VM` (") ||
			!strings.Contains(v.Send[1], "a KubeVirt hook that gives a VM the node's PCI tree") ||
			!strings.Contains(v.Send[1], "changes nothing in the cluster") ||
			strings.Contains(v.Send[1], "-o nccl") != strings.Contains(test.first, "is flat") {
			t.Errorf("%s: %q", name, v.Send)
		}
	}
}

// TestNodeOrSys: a tree without NUMA nodes leaves open whether two PCIe roots are on one, which a
// text with one node does not.
func TestNodeOrSys(t *testing.T) {
	const tree = "-+-[0000:15]---01.0-[1b]----00.0  NVIDIA Corporation GH100 [10de:2330]\n" +
		" \\-[0000:97]---01.0-[9d]----00.0  Mellanox Technologies MT2910 [15b3:1021]\n"
	m, _, err := paste.Read([]byte(tree))
	expect.NoError(t, err)
	v := verdict.New(m, nil)
	expect.Same(t, verdict.Relation{Kind: "GPU-NIC", Unknown: 1}, v.Relations[1], "pairs (-want +got)")
	expect.Same(t, "the path to its NICs is NODE or SYS, and the tree has no NUMA nodes", v.GPUs[0].Why,
		"why (-want +got)")
	if !strings.HasPrefix(v.Cost, "no GPU and NIC share a PCIe root, so NCCL uses no GPUDirect RDMA") {
		t.Errorf("%s: %s", v.Outcome, v.Cost)
	}

	m, _, err = paste.Read([]byte(lstopoRDMA("")))
	expect.NoError(t, err)
	if v := verdict.New(m, nil); v.Relations[1].SYS > 0 || v.Relations[1].NODE == 0 {
		t.Errorf("with one node: %+v", v.Relations[1])
	}
}
