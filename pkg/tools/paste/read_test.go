package paste_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
)

// lspciNumbers is the output of pciutils 3.9 in a guest with a GPU on node 1 under
// an expander bus (lspci.8, "Verbose format (-vmm)").
const lspciNumbers = `Slot:	0000:00:00.0
Class:	Host bridge [0600]
Vendor:	Intel Corporation [8086]
Device:	82G33/G31/P35/P31 Express DRAM Controller [29c0]
SVendor:	Red Hat, Inc. [1af4]
SDevice:	QEMU Virtual Machine [1100]

Slot:	0000:c1:00.0
Class:	3D controller [0302]
Vendor:	NVIDIA Corporation [10de]
Device:	GH100 [H100 SXM5 80GB] [2330]
Rev:	a1
NUMANode:	1

`

func TestReadLspciRecords(t *testing.T) {
	const bridge = "0000:00:00.0 060000 8086:29c0 node none\n"
	const gpu = "0000:c1:00.0 030200 10de:2330 node 1\n"
	tests := map[string]struct{ input, want string }{
		"names and numbers (-nn)": {lspciNumbers, bridge + gpu},
		"numbers (-n), CRLF, no newline at the end": {
			"Slot:\t0000:c1:00.0\r\nClass:\t0302\r\nVendor:\t10de\r\nDevice:\t2330\r\nNUMANode:\t1",
			gpu,
		},
		// A name may end in brackets without being a number.
		"names only": {
			"Slot:\t0000:c1:00.0\nClass:\t3D controller\nVendor:\tNVIDIA Corporation\n" +
				"Device:\tGA102 [GeForce RTX 3090]\nNUMANode:\t1\n",
			"0000:c1:00.0 030200 10de:0000 node 1\n",
		},
		"without -D, in any order": {
			"Slot:\tc1:00.0\nClass:\t0302\nVendor:\t10de\nDevice:\t2330\nNUMANode:\t1\n\n\n" +
				"Slot:\t00:00.0\nClass:\t0600\nVendor:\t8086\nDevice:\t29c0\n",
			bridge + gpu,
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m, _, err := paste.Read([]byte(test.input))
			expect.NoError(t, err)
			expect.Same(t, "lspci nodes=true\n"+test.want, machineText(m), "-want +got")
		})
	}
}

// A snapshot, unlike lspci, has the path to each device.
func TestReadSnapshot(t *testing.T) {
	snapshot := "-- bus/pci/devices/0000:c0:00.0 -> ../../../devices/pci0000:c0/0000:c0:00.0 --\n" +
		"-- devices/pci0000:c0/0000:c0:00.0/class --\n0x060400\n" +
		"-- bus/pci/devices/0000:c1:00.0 -> ../../../devices/pci0000:c0/0000:c0:00.0/0000:c1:00.0 --\n" +
		"-- devices/pci0000:c0/0000:c0:00.0/0000:c1:00.0/vendor --\n0x10de\n" +
		"-- devices/pci0000:c0/0000:c0:00.0/0000:c1:00.0/device --\n0x2330\n"

	m, _, err := paste.Read([]byte(snapshot))
	expect.NoError(t, err)
	gpu := m.Functions[1]
	if gpu.Root != "pci0000:c0" || !slices.Equal(gpu.Bridges, []topology.Address{{Bus: 0xc0}}) ||
		m.Farthest != topology.NODE {
		t.Errorf("GPU %+v, farthest %s", gpu, m.Farthest)
	}
}

func TestReadGuestRefuses(t *testing.T) {
	for name, input := range map[string]string{
		"nothing":        "",
		"lspci -vm":      "Device:\t00:00.0\nClass:\tHost bridge\n",
		"no address":     "Slot:\tfirst\n",
		"no node":        "Slot:\t0000:00:00.0\nNUMANode:\tone\n",
		"a node of 10^9": "Slot:\t0000:00:00.0\nNUMANode:\t1000000000\n",
		"twice":          "Slot:\t0000:00:00.0\n\nSlot:\t0000:00:00.0\n",
		"prose":          "see attachment\n",
		"a bad snapshot": "-- ../up --\n",
	} {
		if guest, _, err := paste.Read([]byte(input)); err == nil {
			t.Errorf("%s: no error, but %+v", name, guest)
		}
	}
}

// No input makes Read panic, or return a device twice or out of order.
func FuzzRead(f *testing.F) {
	f.Add([]byte(lspciNumbers))
	m := pastes.Load(f, "dlperf-v100")
	for _, format := range pastes.Formats {
		f.Add([]byte(format.Print(m)))
	}

	f.Add([]byte("-- bus/pci/devices/0000:00:00.0 -> ../../../devices/pci0000:00/0000:00:00.0 --\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, _, err := paste.Read(data)
		if err != nil {
			return
		}

		for i, d := range m.Functions {
			m.PathType(d.Address, m.Functions[0].Address)
			if i > 0 && m.Functions[i-1].Address.Compare(d.Address) >= 0 {
				t.Errorf("%s comes after %s", d.Address, m.Functions[i-1].Address)
			}
		}
	})
}

// TestRegisters: what a text says of registers is what root saw; without root, without -vv and where
// the text ends before them they are not known.
func TestRegisters(t *testing.T) {
	const port = "00:01.0 PCI bridge: Intel Corporation Device 352a\n"
	const acs = "\tCapabilities: [148 v1] Access Control Services\n" +
		"\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n"
	const control = "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ " +
		"EgressCtrl- DirectTrans-\n"
	const ats = "\tCapabilities: [1b0 v1] Address Translation Service (ATS)\n"
	for name, test := range map[string]struct{ text, want string }{
		"as root":         {port + acs + control, "SV TB RR CR UF / SV RR CR UF, ATS false"},
		"without root":    {port + "\tCapabilities: <access denied>\n", "unknown"},
		"without -vv":     {port + "\tCapabilities: [148] Access Control Services\n", "unknown"},
		"cut in ACS":      {port + acs, "unknown"},
		"before extended": {port + "\tCapabilities: [40] Express (v2) Root Port\n", "unknown"},
		"no ACS":          {port + ats, "none, ATS true"},
		"after another list": {
			port + "00:02.0 System peripheral: Intel\n" + port + acs + control,
			"SV TB RR CR UF / SV RR CR UF, ATS false",
		},
	} {
		m, _, err := paste.Read([]byte(test.text))
		expect.NoError(t, err)
		got, d := "unknown", m.FunctionAt(topology.Address{Device: 1}).Details
		switch {
		case d == nil || !d.ExtendedConfig:
		case d.ACS == nil:
			got = fmt.Sprintf("none, ATS %t", d.ATS)
		default:
			got = fmt.Sprintf("%s / %s, ATS %t", d.ACS.Capable, d.ACS.Control, d.ATS)
		}

		expect.Same(t, test.want, got, "%s (-want +got)", name)
	}
}

// TestJoinKeepsGroups: where lstopo's file says most, lspci's IOMMU groups, BARs and registers are
// added to it.
func TestJoinKeepsGroups(t *testing.T) {
	const file = `<topology><object type="Machine"><object type="NUMANode" os_index="0"/>` +
		`<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-00]">` +
		`<object type="PCIDev" pci_busid="0000:00:04.0" pci_type="0302 [10de:2330] [0000:0000] a1"/>` +
		"</object></object></topology>\n"
	const list = "00:04.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]\n" +
		"\tRegion 0: Memory at 380000000000 (64-bit, prefetchable) [size=128G]\n" +
		"\tIOMMU group: 7\n\tCapabilities: [1b0 v1] Address Translation Service (ATS)\n"
	m, _, err := paste.Read([]byte(file + list))
	expect.NoError(t, err)
	gpu := m.GPUs()[0]
	if gpu.IOMMUGroup == nil || *gpu.IOMMUGroup != 7 || len(gpu.BARs) != 1 || gpu.Details == nil ||
		!gpu.Details.ATS {
		t.Errorf("group %v, BARs %v, details %+v", gpu.IOMMUGroup, gpu.BARs, gpu.Details)
	}
}

// TestRDMATopoRefuses: an error about a dump says what is wrong with it.
func TestRDMATopoRefuses(t *testing.T) {
	const good = `[{"realpath": "/sys/devices/pci0000:00/0000:00:04.0", "config": "eJxjYKAMAAAAQAAB",` +
		` "modalias": "pci:v000010DEd00002330sv00000000sd00000000bc03sc02i00"}]`
	for _, test := range []struct{ old, new, want string }{
		{"]", "", "rdma_topo dump: the end is missing"},
		{"pci0000:00/", "", "no PCIe root in its path"},
		{"0000:00:04.0", "gpu", `invalid PCI address "gpu"`},
		{`"eJx`, `"%%`, "config: illegal base64 data"},
		{`"eJx`, `"AAA`, "config: zlib: invalid header"},
		{"pci:v", "usb:v", `invalid modalias "usb:v`},
		{`"config"`, `"numa_node": 99999999, "config"`, `invalid NUMA node "99999999"`},
	} {
		_, _, err := paste.Read([]byte(strings.Replace(good, test.old, test.new, 1)))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q for %q: error %v, want %s", test.new, test.old, err, test.want)
		}
	}
}

// TestNodeDevices: a device of virsh nodedev-dumpxml that is cut is left out, others are no PCI
// functions, and an error says in which line the device begins.
func TestNodeDevices(t *testing.T) {
	m := pastes.Parse(t, withRegisters)
	text := pastes.NodeDevices(m)
	usb := "<device>\n  <name>usb_1</name>\n  <capability type='usb_device'/>\n</device>\n"
	got, _, err := paste.Read([]byte(usb + text[:strings.LastIndex(text, "<numa")]))
	expect.NoError(t, err)
	if len(got.Functions) != len(m.Functions)-1 || len(got.Notes) != 1 ||
		!strings.HasSuffix(got.Notes[0], "is cut: it is left out") {
		t.Errorf("%d functions of %d, notes %q", len(got.Functions), len(m.Functions), got.Notes)
	}

	_, _, err = paste.Read([]byte(strings.Replace(usb+text, "<class>0x", "<class>", 1)))
	if err == nil || err.Error() != `device of line 5: 0000:10:00.0: invalid class "088000"` {
		t.Errorf("error %v", err)
	}
}
