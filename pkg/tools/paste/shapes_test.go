package paste_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
)

// guestTable is nvidia-smi topo -mp of a guest with two cells.
const guestTable = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n" +
	"GPU0\t X \tSYS\tPIX\t0-7\t0\nGPU1\tSYS\t X \tSYS\t8-15\t1\nNIC0\tPIX\tSYS\t X \n"

// readTable is what is read of it.
const readTable = `nvidia-smi nodes=true
GPU0 030000 0000:0000 node 0
GPU1 030000 0000:0000 node 1 SYS
NIC0 020000 0000:0000 node 0 PIX SYS
`

// TestShapes: what a program prints is read in the forms in which terminals, editors, forums and
// programs leave it.
func TestShapes(t *testing.T) {
	for i, name := range []string{"dlperf-v100", "rccl-8p-940", "nccl-1453"} {
		m := pastes.Load(t, name)
		for j, f := range pastes.Formats {
			isPasted := !strings.HasPrefix(f.Name, "hook-sidecar") // not a file
			if !isPasted || !f.Suits(m) || !expect.IsSampled(i+j, 11) {
				continue
			}

			damages := maps.Clone(pastes.Harmless)
			if f.Farthest == topology.SYS { // a table
				maps.Copy(damages, pastes.HarmlessToTables)
			}

			whole := f.Print(m)
			want := readText(t, whole)
			for name, damage := range damages {
				got, _, err := paste.Read([]byte(damage(whole)))
				if err != nil {
					t.Errorf("%s, %s: %v", f.Name, name, err)
					continue
				}
				expect.Same(t, want, machineText(got), "%s, %s (-whole +damaged)", f.Name, name)
			}
		}
	}
}

// TestFormats: what each program says of a machine, and what its reader adds as a note.
func TestFormats(t *testing.T) {
	// A guest of QEMU: a root port with an upstream and a downstream port, under which the GPU is,
	// and a NIC on the root bus. lspci -vv leaves out a node of -1.
	const verbose = `00:02.0 PCI bridge: Red Hat, Inc. QEMU PCIe Root port (prog-if 00 [Normal decode])
	Control: I/O+ Mem+ BusMaster+
	Bus: primary=00, secondary=01, subordinate=03, sec-latency=0
01:00.0 PCI bridge: Texas Instruments XIO3130 PCI Express Switch (Upstream) (rev 02)
	Bus: primary=01, secondary=02, subordinate=03, sec-latency=0
02:00.0 PCI bridge: Texas Instruments XIO3130 PCI Express Switch (Downstream) (rev 01)
	Bus: primary=02, secondary=03, subordinate=03, sec-latency=0
	NUMA node: 1
03:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
	NUMA node: 1
		LnkCap:	Port #0, Speed 32GT/s, Width x16, ASPM not supported
	Kernel driver in use: nvidia
00:05.0 Ethernet controller: Mellanox Technologies MT2910 Family [ConnectX-7]
	Control: I/O+ Mem+ BusMaster+
`
	// mst status -v, as in https://github.com/k8snetworkplumbingwg/sriov-network-device-plugin/issues/601
	const mst = "PCI devices:\n------------\n" +
		"DEVICE_TYPE             MST                           PCI       RDMA            " +
		"NET            NUMA\n" +
		"ConnectX7(rev:0)        /dev/mst/mt4129_pciconf1      c7:00.0   mlx5_6          " +
		"net-ib6        1\n\n" +
		"ConnectX7(rev:0)        /dev/mst/mt4129_pciconf0      0b:00.0   mlx5_0          " +
		"net-ib0        -1\n"

	// hwloc 1 has nodes around the objects that are near them, and no version in the file.
	const lstopo1 = `<topology><object type="Machine" nodeset="0x3">` +
		`<info name="OSName" value="Linux"/>` +
		`<object type="NUMANode" os_index="0" nodeset="0x1">` +
		`<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-05]">` +
		`<object type="PCIDev" pci_busid="0000:00:04.0" pci_type="0302 [10de:2330] [0000:0000] ` +
		`a1"/></object></object>` +
		`<object type="NUMANode" os_index="1" nodeset="0x2">` +
		`<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[80-85]">` +
		`<object type="PCIDev" pci_busid="0000:81:00.0" pci_type="0207 [15b3:1021] [0000:0000] ` +
		`00"/></object></object></object></topology>`

	// hwloc 3 has what is known of the whole machine after the objects.
	const lstopo3 = `<topology version="3.0"><object type="Machine" nodeset="0x3">` +
		`<object type="Package" nodeset="0x1">` +
		`<object type="NUMANode" os_index="0" nodeset="0x1"/>` +
		`<object type="PCIDev" pci_busid="0000:00:04.0" pci_type="0302 [10de:2330]"/></object>` +
		`<object type="Package" nodeset="0x2">` +
		`<object type="NUMANode" os_index="1" nodeset="0x2"/>` +
		`<object type="PCIDev" pci_busid="0000:81:00.0" pci_type="0207 [15b3:1021]"/></object>` +
		`</object>` +
		`<info name="OSName" value="%s"/></topology>`
	const twoDevices = "0000:00:04.0 030200 10de:2330 node 0\n" +
		"0000:81:00.0 020700 15b3:1021 node 1 SYS\n"

	tests := map[string]struct{ input, want, note string }{
		"lspci -vv": {verbose, `lspci nodes=true
0000:00:05.0 020000 15b3:0000 node none
0000:03:00.0 030200 10de:0000 node 1 PHB
`, ""},
		"mst status -v": {mst, `nic-names nodes=true
0000:0b:00.0 020000 15b3:0000 node none
0000:c7:00.0 020000 15b3:0000 node 1
`, ""},
		"lstopo, version 1": {lstopo1, "lstopo nodes=true\n" + twoDevices, ""},
		"lstopo, version 3": {strings.ReplaceAll(lstopo3, "%s", "Linux"),
			"lstopo nodes=true\n" + twoDevices, ""},
		"lstopo without OSName": {
			strings.ReplaceAll(lstopo3, `<info name="OSName" value="%s"/>`, ""),
			"lstopo nodes=true\n" + twoDevices, "",
		},
		"lstopo, version 3, BSD": {strings.ReplaceAll(lstopo3, "%s", "FreeBSD"),
			"lstopo nodes=false\n" +
				strings.NewReplacer("node 0", "node unknown", "node 1 SYS", "node unknown").
					Replace(twoDevices), ""},
		"nvidia-smi topo -mp": {guestTable, readTable, ""},
		"nvidia-smi topo -p2p": {" \tGPU0\tGPU1\n GPU0\tX\tGNS\n GPU1\tGNS\tX\n\nLegend:\n\n" +
			"  GNS  = GPU not supported\n", "nvidia-smi nodes=false\n" +
			"GPU0 030000 0000:0000 node unknown\nGPU1 030000 0000:0000 node unknown\n",
			"nvidia-smi topo -p2p says"},
		// Where the space before it got lost, an affinity cannot be read.
		"a table without spaces": {strings.NewReplacer("\t", "", " X ", "X").Replace(guestTable),
			strings.NewReplacer("true", "false", "node 0", "node unknown",
				"node 1", "node unknown").Replace(readTable), ""},
		"a table cut in a word": {strings.TrimSuffix(guestTable[:strings.Index(guestTable,
			"\nGPU1\tSYS\t X \tSYS")], "") + "\nGPU1\tSY", "nvidia-smi nodes=true\n" +
			"GPU0 030000 0000:0000 node 0\nGPU1 030000 0000:0000 node unknown SYS\n" +
			"NIC0 020000 0000:0000 node 0 PIX\n", "the table is cut: GPU1"},
		"a table cut in columns": {"\tGPU0\tGPU1\tNIC0\tNIC1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n",
			"nvidia-smi nodes=false\nGPU0 030000 0000:0000 node unknown\n" +
				"GPU1 030000 0000:0000 node unknown PHB\nNIC0 020000 0000:0000 node unknown\n" +
				"NIC1 020000 0000:0000 node unknown\n", "the table is cut: GPU0, GPU1"},
		// As an issue's template cuts lines: a name, and the words under it.
		"a table cut at the right": {"\tGPU0\tGPU1\tNIC0\tNI\nGPU0\t X \tPHB\tPIX\tNO\n" +
			"GPU1\tPHB\t X \tNODE\tPI\nNUMA node0 CPU(s): 0-7\n", "nvidia-smi nodes=false\n" +
			"GPU0 030000 0000:0000 node unknown\nGPU1 030000 0000:0000 node unknown PHB\n" +
			"NIC0 020000 0000:0000 node unknown PIX NODE\n",
			"the table is cut at the right: columns after NIC0 are missing"},
		"a table cut after a column": {"\tGPU0\tNIC0\nGPU0\t X \tPHB\n",
			"nvidia-smi nodes=false\nGPU0 030000 0000:0000 node unknown\n" +
				"NIC0 020000 0000:0000 node unknown PHB\n",
			"the table is cut at the right: columns after NIC0 are missing"},
		"a table cut in a title": {"\tGPU0\tNIC0\tCPU Aff\nGPU0\t X \tPIX\t0-7\nNIC0\tPIX\t X \n",
			"nvidia-smi nodes=false\nGPU0 030000 0000:0000 node unknown\n" +
				"NIC0 020000 0000:0000 node unknown PIX\n", ""},
		// A GPU on the root bus of a guest, in a slot of one digit.
		"NCCL's log without a tree": {"vm:12:34 [0] NCCL INFO cudaDev 0 nvmlDev 0 busId 50 commId " +
			"0x1\n", "nccl-log nodes=false\n0000:00:05.0 030200 10de:0000 node unknown\n",
			"NCCL's log has no paths"},
		"NCCL, without classes": {`<system version="1"><cpu numaid="0">` +
			`<pci busid="0000:00:1b.0"/><pci busid="0000:00:1c.0"/></cpu></system>`,
			"nccl nodes=true\n0000:00:1b.0 000000 0000:0000 node 0\n" +
				"0000:00:1c.0 000000 0000:0000 node 0 PHB\n", "the file has no classes"},
		// A GPU, a NIC with its virtual functions in one line, and the display of QEMU or a server.
		"lstopo's text, a display": {"Machine\n  NUMANode L#0 (P#0 16GB)\n  HostBridge\n" +
			"    PCI 00:01.0 (VGA)\n    PCIBridge\n      PCI 04:00.0 (3D)\n    PCIBridge\n" +
			"      PCI 05:00.0 (InfiniBand)\n      2 x { PCI 05:00.7-01.0 (InfiniBand) }\n",
			`lstopo nodes=false
0000:00:01.0 ff0000 0000:0000 node unknown
0000:04:00.0 030200 0000:0000 node unknown PHB
0000:05:00.0 020700 0000:0000 node unknown PHB PHB
0000:05:00.7 020700 0000:0000 node unknown PHB PHB PIX
0000:05:01.0 020700 0000:0000 node unknown PHB PHB PIX PIX
`, ""},
		"lstopo's text, a display alone": {"Machine\n  NUMANode L#0 (P#0 16GB)\n" +
			"  HostBridge\n    PCI 00:01.0 (VGA)\n",
			"lstopo nodes=false\n0000:00:01.0 030000 0000:0000 node unknown\n",
			"lstopo's text has no vendors"},
		"lstopo's text, a card and a display": {"Machine\n  NUMANode L#0 (P#0 16GB)\n" +
			"  HostBridge\n    PCI 00:01.0 (VGA)\n    PCIBridge\n      PCI 04:00.0 (VGA)\n" +
			"        GPU(NVML) \"nvml0\"\n", "lstopo nodes=false\n" +
			"0000:00:01.0 ff0000 0000:0000 node unknown\n" +
			"0000:04:00.0 030000 0000:0000 node unknown PHB\n", ""},
		"lstopo's text with ids": {"Machine\n  NUMANode L#0 (P#0 16GB)\n" +
			"  HostBridge L#0 (buses=0000:[00-05])\n" +
			"    PCI L#0 (busid=0000:00:01.0 id=1a03:2000 class=0300(VGA) " +
			"PCIVendor=\"ASPEED\")\n    PCIBridge L#1 (busid=0000:00:02.0 id=8086:3c08 " +
			"class=0604(PCIBridge) buses=0000:[04-04])\n" +
			"      PCI L#1 (busid=0000:04:00.0 id=10de:2684 class=0300(VGA))\n",
			"lstopo nodes=false\n0000:00:01.0 030000 1a03:2000 node unknown\n" +
				"0000:04:00.0 030000 10de:2684 node unknown PHB\n", ""},
		"lstopo's text, cut": {"Machine (16GB total)\n  Package L#0\n" +
			"    NUMANode L#0 (P#0 16GB)\n  HostBridge\n    PCIBridge\n      PCI 03:00.1 (SATA)\n",
			"lstopo nodes=false\n0000:03:00.1 ff0000 0000:0000 node unknown\n", ""},
		"rocm-smi, heading cut": {"       GPU0         GPU1\nGPU0   0            15\n" +
			"GPU1   15           0\n\n========= Hops between two GPUs =========\n" +
			"       GPU0         GPU1\nGPU0   0            1\n", "rocm-smi nodes=false\n" +
			"GPU0 120000 1002:0000 node unknown\nGPU1 120000 1002:0000 node unknown\n",
			"rocm-smi shows no paths"},
		"table with nameless tree": {"-[0000:00]-+-00.0\n           \\-01.0-[01]----00.0\n\n" +
			guestTable,
			readTable, "the tree has no names"},
		"nvidia-smi -q and mst status": {"GPU 00000000:03:00.0\n    Product Name : NVIDIA H100\n\n" +
			mst, `nvidia-smi-list, nic-names nodes=true
0000:03:00.0 030200 10de:0000 node unknown
0000:0b:00.0 020000 15b3:0000 node none
0000:c7:00.0 020000 15b3:0000 node 1
`, ""},
		"amd-smi and ibdev2netdev": {"GPU: 0\n    BDF: 0000:03:00.0\n\n" +
			"0000:05:00.0 mlx5_0 (MT4129 - X) ConnectX-7 fw 28 port 1 (ACTIVE) " +
			"==> ib0 (Up)\n", `amd-smi, nic-names nodes=false
0000:03:00.0 120000 1002:0000 node unknown
0000:05:00.0 020000 15b3:0000 node unknown
`, "amd-smi shows no paths"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m, _, err := paste.Read([]byte(test.input))
			expect.NoError(t, err)
			expect.Same(t, strings.ReplaceAll(test.want, " \n", "\n"),
				strings.ReplaceAll(machineText(m), " \n", "\n"), "machine (-want +got)")
			if !slices.ContainsFunc(m.Notes, func(note string) bool {
				return strings.HasPrefix(note, test.note)
			}) && test.note != "" {
				t.Errorf("notes %q, want %s", m.Notes, test.note)
			}
		})
	}
}

// TestNamesBeforeOrder: where a list says which NIC has which name, the table's NICs are these, and
// not those of the same place in the order of addresses.
func TestNamesBeforeOrder(t *testing.T) {
	const list = "e1:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2330]\n" +
		"e2:00.0 Infiniband controller [0207]: Mellanox Technologies Device [15b3:1021]\n" +
		"f2:00.0 Infiniband controller [0207]: Mellanox Technologies Device [15b3:1021]\n"
	const names = "0000:e2:00.0 mlx5_1 (MT4129) port 1 (ACTIVE) ==> ib1 (Up)\n" +
		"0000:f2:00.0 mlx5_0 (MT4129) port 1 (ACTIVE) ==> ib0 (Up)\n"
	const table = "\tGPU0\tmlx5_0\tmlx5_1\tCPU Affinity\nGPU0\t X \tPIX\tSYS\n"
	const want = `lspci, nic-names, nvidia-smi nodes=false
0000:e1:00.0 030200 10de:2330 node unknown
0000:e2:00.0 020700 15b3:1021 node unknown SYS
0000:f2:00.0 020700 15b3:1021 node unknown PIX
`

	together, _, err := paste.Read([]byte(table + names + list))
	expect.NoError(t, err)

	var parts []paste.Machine
	for _, text := range []string{table, names, list} {
		part, _, err := paste.Read([]byte(text))
		expect.NoError(t, err)
		parts = append(parts, part)
	}

	apart, err := paste.Join(parts)
	expect.NoError(t, err)

	for form, m := range map[string]paste.Machine{"one text": together, "three files": apart} {
		expect.Same(t, want, machineText(m), "%s: machine (-want +got)", form)
		if len(m.Notes) > 0 {
			t.Errorf("%s: notes %q", form, m.Notes)
		}
	}
}

// TestAffinity: CPUs of a GPU are read also from a table without NUMA nodes, as drivers before 450
// wrote it.
func TestAffinity(t *testing.T) {
	const table = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSOC\t0-13,28-41\n" +
		"GPU1\tSOC\t X \t14-27,42-55\n"
	const list = "\n04:00.0 3D controller: NVIDIA Corporation GP100GL\n" +
		"84:00.0 3D controller: NVIDIA Corporation GP100GL\n"

	for name, text := range map[string]string{"alone": table, "with lspci": table + list} {
		m, _, err := paste.Read([]byte(text))
		expect.NoError(t, err)

		var cpus []string
		for _, d := range m.GPUs() {
			cpus = append(cpus, m.CPUs[d.Address].String())
		}

		expect.Same(t, []string{"0-13,28-41", "14-27,42-55"}, cpus, "%s: CPUs (-want +got)", name)
	}
}

// TestC2C: a table shows that a GPU is one of Grace's by the NUMA nodes of its memory, or by their
// first.
func TestC2C(t *testing.T) {
	for affinity, want := range map[string]bool{
		"0\t\tN/A": false, "0\t\t1": true, "0,2-17\t\tN/A": true,
	} {
		m, _, err := paste.Read([]byte("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n" +
			"GPU0\t X \t0-71\t" + affinity + "\n"))
		expect.NoError(t, err)
		if gpu := m.GPUs()[0]; m.OverC2C[gpu.Address] != want || gpu.Node.String() != "0" {
			t.Errorf("%q: over C2C %v, node %s", affinity, !want, gpu.Node)
		}
	}
}

// TestC2COfNCCL: NCCL's log and file show the links of Grace's GPUs to their CPUs.
func TestC2COfNCCL(t *testing.T) {
	for name, want := range map[string]int{"sglang-gb200": 4, "sglang-h100": 0} {
		machine := pastes.Load(t, name)
		for format, text := range map[string]string{
			"log": pastes.NCCLLog(machine), "file": pastes.NCCLFile(machine),
		} {
			m, _, err := paste.Read([]byte(text))
			expect.NoError(t, err)
			if len(m.OverC2C) != want {
				t.Errorf("%s, %s: %d GPUs over C2C, want %d", name, format, len(m.OverC2C), want)
			}
		}
	}
}

// TestTwoProcesses: of a log into which several processes print, at once or one after the other,
// the first is read, and of one process the first tree.
func TestTwoProcesses(t *testing.T) {
	first, second := pastes.Load(t, "sglang-h100"), pastes.Load(t, "rccl-8p-pcie-2nic")
	asOther := pastes.Replaced("gpu-node:4254:4327 [0]", "other-node:4311:4390 [1]")
	for name, print := range map[string]func(*pastes.Machine) string{
		"tree": pastes.NCCLLog, "paths": pastes.NCCLPaths("0-"), "addresses": pastes.NCCLInit,
	} {
		want := readText(t, print(first))
		texts := map[string]string{
			"together":      pastes.Interleaved(print(first), asOther(print(second)), 1),
			"a later start": pastes.Interleaved(print(first), asOther(print(second)), 12),
			"one by one":    print(first) + asOther(print(second)),
		}
		if name == "tree" {
			texts["of one process"] = print(first) + print(second)
		}

		for order, text := range texts {
			expect.Same(t, want, readText(t, text), "%s, %s (-first +both)", name, order)
		}
	}
}

// TestWholeTable: a title after the names, also one that is cut, says that no device is missing.
func TestWholeTable(t *testing.T) {
	for _, after := range []string{
		"\tCPU Affinity\tNUMA Affinity", "\tCPU Affinity", "\tCPU Aff", "\tC",
	} {
		m, _, err := paste.Read([]byte("\tGPU0\tNIC0" + after + "\nGPU0\t X \tPHB\t0-7\t0\n"))
		expect.NoError(t, err)
		if m.LacksDevices || len(m.Notes) > 0 {
			t.Errorf("%q: lacks devices %v, notes %q", after, m.LacksDevices, m.Notes)
		}
	}
}

// TestNarrowTable: where a table is cut at the right, also among GPUs that NVLink joins, devices
// may be missing; so they may where a list of PCI devices says what its devices are.
func TestNarrowTable(t *testing.T) {
	m := pastes.Load(t, "sglang-h100")
	table, list := pastes.TopoM.Print(m), pastes.LspciList(pastes.WithBoth)(m)
	head, _, _ := strings.Cut(pastes.Spaced(table), "\n")
	gpus, end := strings.Index(head, "GPU7")+len("GPU7"), strings.Index(head, "CPU Affinity")
	texts := map[string]string{}
	for columns := strings.Index(head, "NIC0") + 1; columns <= end; columns += 7 {
		texts[fmt.Sprintf("%d columns", columns)] = pastes.Columns(columns)(table)
	}

	row := strings.Index(pastes.Spaced(table), "\n")
	texts["the header alone"] = head[:gpus] + pastes.Spaced(table)[row:]
	for name, text := range texts {
		together, _, err := paste.Read([]byte(text + "\n" + list))
		expect.NoError(t, err)
		alone, _, err := paste.Read([]byte(text))
		expect.NoError(t, err)
		if !alone.LacksDevices || !together.LacksDevices {
			t.Errorf("%s: lacks devices %v, with a list %v", name, alone.LacksDevices,
				together.LacksDevices)
		}
	}
}

// TestLstopoNames: the name of a NIC is that of its OpenFabrics device, as each hwloc writes it.
func TestLstopoNames(t *testing.T) {
	const nic = `<topology version="VERSION"><object type="Machine"><object type="PCIDev" ` +
		`pci_busid="0000:05:00.0" pci_type="0207 [15b3:1021]">` +
		`<object type="OSDev" name="ib0" osdev_type="NETWORK"/>` +
		`<object type="OSDev" name="mlx5_0" osdev_type="RDMA"/></object></object></topology>`
	const text = "Machine\n  NUMANode L#0 (P#0 16GB)\n  HostBridge\n    PCI 05:00.0 (InfiniBand)\n" +
		"      NETWORK \"ib0\"\n      RDMA \"mlx5_0\"\n"

	for name, input := range map[string]string{
		"XML of hwloc 2": strings.NewReplacer("VERSION", "2.0", "NETWORK", "2",
			"RDMA", "3").Replace(nic),
		"XML of hwloc 3": strings.NewReplacer("VERSION", "3.0", "NETWORK", "16",
			"RDMA", "48").Replace(nic),
		"text of hwloc 2": strings.NewReplacer("NETWORK", "Net", "RDMA", "OpenFabrics").Replace(text),
		"text of hwloc 3": strings.NewReplacer("NETWORK", "OSDev[Network]",
			"RDMA", "OSDev[OpenFabrics]").Replace(text),
	} {
		m, _, err := paste.Read([]byte(input))
		expect.NoError(t, err)
		expect.Same(t, "mlx5_0", m.Label(m.NICs()[0].Address), "%s: name (-want +got)", name)
	}
}

// TestTwoGuests: of two texts that show different GPUs one is left out, which a note says.
func TestTwoGuests(t *testing.T) {
	const list = "03:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2330]\n"
	m, _, err := paste.Read([]byte(list + "\nGPU 00000000:04:00.0\n"))
	expect.NoError(t, err)
	if len(m.GPUs()) != 1 || len(m.Notes) != 1 ||
		!strings.Contains(m.Notes[0], "show different devices: the second is left out") {
		t.Errorf("%d GPUs, notes %q", len(m.GPUs()), m.Notes)
	}
}
