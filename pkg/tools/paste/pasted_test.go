package paste_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
)

// machineText returns a machine as text: a line per function with the path types to those before
// it.
func machineText(m paste.Machine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s nodes=%v\n", m.SourceNames(), m.HasNodes())
	for i, d := range m.Functions {
		if d.IsBridge {
			continue
		}

		node := d.Node.String()
		if !m.KnowsNode(&d) {
			node = "unknown"
		}

		fmt.Fprintf(&b, "%s %06x %s node %s", label(m, d.Address), d.Class, d.IDs(), node)

		for _, before := range m.Functions[:i] {
			if between, known := m.PathType(before.Address, d.Address); known && !before.IsBridge {
				fmt.Fprintf(&b, " %s", between)
			}
		}

		b.WriteString(registersText(d) + "\n")
	}

	return b.String()
}

// registersText returns the IOMMU group and the registers of a function that are known.
func registersText(d topology.Function) (text string) {
	if d.IOMMUGroup != nil {
		text = fmt.Sprintf(" group %d", *d.IOMMUGroup)
	}

	if d.Details == nil || !d.Details.ExtendedConfig {
		return text
	}

	if acs := d.Details.ACS; acs != nil {
		text += fmt.Sprintf(" ACS %07b/%07b", acs.Capable, acs.Control)
	}

	if atomics := d.Details.AtomicOps; atomics != nil {
		text += fmt.Sprintf(" AtomicOps %#x", *atomics)
	}

	return text + fmt.Sprintf(" ATS %t", d.Details.ATS)
}

// label returns the address of a function, or its name where the text has none.
func label(m paste.Machine, a topology.Address) string {
	if paste.HasAddress(a) {
		return a.String()
	}
	return m.Label(a)
}

func TestRead(t *testing.T) {
	const xmlOfOneNode = `<topology><object type="Machine" nodeset="0x1">` +
		`<info name="OSName" value="%s"/>` +
		`<object type="NUMANode" os_index="0" nodeset="0x1"/>` +
		`<object type="Bridge" bridge_pci="0000:[00-00]">` +
		`<object type="PCIDev" pci_busid="0000:00:04.0" pci_type="0302 [10de:2330] [0000:0000] ` +
		`a1"/></object></object></topology>`
	const several = `<topology><object type="Machine" nodeset="0x00000001,,0x00000003">` +
		`<info name="OSName" value="Linux"/><object type="NUMANode" os_index="0" nodeset="0x1"/>` +
		`<object type="PCIDev" pci_busid="0000:00:05.0" pci_type="0200 [15b3:101e]"/>` +
		`<object type="Group" nodeset="0x00000001,,0x0">` +
		`<object type="NUMANode" os_index="64" nodeset="0x00000001,,0x0"/>` +
		`<object type="PCIDev" pci_busid="0000:00:04.0" pci_type="0302 [10de:2330]"/></object>` +
		`</object></topology>`

	// Each package has DRAM, in which the kernel counts its devices, and HBM. A package with two
	// nodes of DRAM says nothing of a device beside them.
	const packages = `<topology><object type="Machine" nodeset="0x3f">` +
		`<info name="OSName" value="Linux"/>` +
		`<object type="Package" nodeset="0x5">` +
		`<object type="NUMANode" subtype="DRAM" os_index="0" nodeset="0x1"/>` +
		`<object type="NUMANode" subtype="HBM" os_index="2" nodeset="0x4"/>` +
		`<object type="PCIDev" pci_busid="0000:11:00.0" pci_type="0302 [10de:2342]"/></object>` +
		`<object type="Package" nodeset="0xa">` +
		`<object type="NUMANode" subtype="DRAM" os_index="1" nodeset="0x2"/>` +
		`<object type="NUMANode" subtype="HBM" os_index="3" nodeset="0x8"/>` +
		`<object type="PCIDev" pci_busid="0000:81:00.0" pci_type="0302 [10de:2342]"/></object>` +
		`<object type="Package" nodeset="0x30">` +
		`<object type="NUMANode" subtype="DRAM" os_index="4" nodeset="0x10"/>` +
		`<object type="NUMANode" subtype="DRAM" os_index="5" nodeset="0x20"/>` +
		`<object type="PCIDev" pci_busid="0000:c1:00.0" pci_type="0302 [10de:2342]"/></object>` +
		`</object></topology>`

	// As hwloc's files of machines without GPUs have it: a device that two packages of a group are near
	// to, a package with two nodes of DRAM after one of persistent memory, and memory whose node is in
	// another word of the mask.
	const groups = `<topology version="3.0"><object type="Machine" nodeset="0x00000001,0x0000003f">` +
		`<info name="OSName" value="Linux"/><object type="Group" nodeset="0x3">` +
		`<object type="Package" nodeset="0x1"><object type="NUMANode" os_index="0" nodeset="0x1"/>` +
		`<object type="L3Cache" nodeset="0x1"/>` +
		`<object type="PCIDev" pci_busid="0000:11:00.0" pci_type="0108 [8086:0a54]"/></object>` +
		`<object type="Package" nodeset="0x2"><object type="NUMANode" os_index="1" nodeset="0x2"/>` +
		`<object type="Bridge" bridge_pci="0000:[1a-1b]">` + // inherits the package's nodeset
		`<object type="PCIDev" pci_busid="0000:1b:00.0" pci_type="0200 [8086:1521]"/></object>` +
		`</object><object type="PCIDev" pci_busid="0000:21:00.0" pci_type="0200 [14e4:1639]"/>` +
		`</object><object type="Package" nodeset="0x1c">` +
		`<object type="NUMANode" subtype="NVM" os_index="2" nodeset="0x4"/>` +
		`<object type="NUMANode" os_index="3" nodeset="0x8"/>` +
		`<object type="NUMANode" os_index="4" nodeset="0x10"/>` +
		`<object type="PCIDev" pci_busid="0000:31:00.0" pci_type="0207 [15b3:1021]"/></object>` +
		`<object type="Package" nodeset="0x00000001,0x00000020">` +
		`<object type="NUMANode" os_index="5" nodeset="0x20"/>` +
		`<object type="NUMANode" subtype="HBM" os_index="32" nodeset="0x00000001,0x0"/>` +
		`<object type="PCIDev" pci_busid="0000:41:00.0" pci_type="0207 [15b3:1021]"/></object>` +
		`</object></topology>`

	const switches = `<system version="1"><cpu numaid="-1">` +
		`<pci busid="0000:01:00.0" class="0x060400"><pci busid="0000:02:00.0" class="0x030200"/>` +
		`<pci busid="0000:03:00.0" class="0x060400"><pci busid="0000:04:00.0" class="0x020000"/>` +
		`</pci></pci></cpu>` +
		`<cpu numaid="1"><pci busid="0000:81:00.0" class="0x030200"/></cpu></system>`

	// The higher bus numbers are those of the lower cell, as the hook gives them.
	var downwards strings.Builder
	for node, buses := range [][]string{{"e1", "f1"}, {"81", "91"}} {
		fmt.Fprintf(&downwards, `<cpu numaid="%d">`, node)
		for _, bus := range buses {
			fmt.Fprintf(&downwards,
				`<pci busid="ffff:%[1]s:00.0" class="0x060400">`+
					`<pci busid="0000:%[1]s:00.0" class="0x020000"/>`+
					`<pci busid="0000:%[1]s:01.0" class="0x030200"/></pci>`, bus)
		}

		downwards.WriteString("</cpu>")
	}

	tests := map[string]struct{ input, want string }{
		"lstopo": {pastes.LstopoXML(2)(pastes.Load(t, "guest-mirror")), `lstopo nodes=true
0000:00:02.0 020000 1af4:1041 node none
0000:e3:00.0 020700 15b3:101e node 0 SYS
0000:e4:00.0 030200 10de:2330 node 0 SYS PIX
`},
		"lstopo, packages with HBM": {packages, `lstopo nodes=true
0000:11:00.0 030200 10de:2342 node 0
0000:81:00.0 030200 10de:2342 node 1 SYS
0000:c1:00.0 030200 10de:2342 node none
`},
		"lstopo, groups and other memory": {groups, `lstopo nodes=true
0000:11:00.0 010800 8086:0a54 node 0
0000:1b:00.0 020000 8086:1521 node 1 SYS
0000:21:00.0 020000 14e4:1639 node none
0000:31:00.0 020700 15b3:1021 node none
0000:41:00.0 020700 15b3:1021 node 5 SYS SYS
`},
		"lstopo with one node and other memory": {strings.Replace(fmt.Sprintf(xmlOfOneNode, "Linux"),
			`nodeset="0x1"/>`, `nodeset="0x1"/>`+
				`<object type="NUMANode" subtype="NVM" os_index="1" nodeset="0x2"/>`, 1),
			"lstopo nodes=false\n0000:00:04.0 030200 10de:2330 node unknown\n"},
		"NCCL": {pastes.NCCLFile(pastes.Load(t, "guest-mirror")), `nccl nodes=true
0000:e3:00.0 020700 15b3:101e node 0
0000:e4:00.0 030200 10de:2330 node 0 PIX
`},
		"nvidia-smi": {pastes.TopoM.Print(pastes.Load(t, "guest-mirror")), `nvidia-smi nodes=true
GPU0 030000 0000:0000 node 0
mlx5_0 020000 0000:0000 node 0 PIX
`},
		// https://github.com/kubernetes/kubernetes/issues/53497
		"nvidia-smi of 2017": {"        GPU0    GPU1    mlx4_0  CPU Affinity\n" +
			"GPU0     X      PIX     PHB     0-7,16-23\n" +
			"GPU1    PIX      X      SYS     0-7,16-23\nmlx4_0  PHB     SYS      X\n",
			`nvidia-smi nodes=false
GPU0 030000 0000:0000 node unknown
GPU1 030000 0000:0000 node unknown PIX
mlx4_0 020000 0000:0000 node unknown PHB SYS
`},
		// https://github.com/vllm-project/vllm/issues/29944; without the rows of NICs, as some
		// paste it.
		"NVLink hides a path": {"GPU0 GPU1 NIC0 CPU Affinity NUMA Affinity GPU NUMA ID\n" +
			"GPU0 X NV18 NODE 0-31,64-95 0 N/A\nGPU1 NV18 X SYS 0-127 0-1 N/A\n",
			`nvidia-smi nodes=true
GPU0 030000 0000:0000 node 0
GPU1 030000 0000:0000 node none
NIC0 020000 0000:0000 node 0 NODE SYS
`},
		"an empty cell": {"GPU0 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X 0-3 N/A\n",
			"nvidia-smi nodes=false\nGPU0 030000 0000:0000 node unknown\n"},
		"lstopo with one node": {fmt.Sprintf(xmlOfOneNode, "Linux"), `lstopo nodes=false
0000:00:04.0 030200 10de:2330 node unknown
`},
		"lstopo not on Linux": {strings.Replace(several, "Linux", "FreeBSD", 1), `lstopo nodes=false
0000:00:04.0 030200 10de:2330 node unknown
0000:00:05.0 020000 15b3:101e node unknown
`},
		"lstopo with many nodes": {several, `lstopo nodes=true
0000:00:04.0 030200 10de:2330 node 64
0000:00:05.0 020000 15b3:101e node none
`},
		"NCCL with devices in another order than that of their addresses": {
			"<system>" + downwards.String() + "</system>", `nccl nodes=true
0000:81:00.0 020000 0000:0000 node 1
0000:81:01.0 030200 0000:0000 node 1 PIX
0000:91:00.0 020000 0000:0000 node 1 PHB PHB
0000:91:01.0 030200 0000:0000 node 1 PHB PHB PIX
0000:e1:00.0 020000 0000:0000 node 0 SYS SYS SYS SYS
0000:e1:01.0 030200 0000:0000 node 0 SYS SYS SYS SYS PIX
0000:f1:00.0 020000 0000:0000 node 0 SYS SYS SYS SYS PHB PHB
0000:f1:01.0 030200 0000:0000 node 0 SYS SYS SYS SYS PHB PHB PIX
`},
		"NCCL with a switch under a switch, without ids": {switches, `nccl nodes=true
0000:02:00.0 030200 0000:0000 node none
0000:04:00.0 020000 0000:0000 node none PXB
0000:81:00.0 030200 0000:0000 node 1 SYS SYS
`},
	}

	for name, test := range tests {
		for newline, system := range map[string]string{"\n": "Linux", "\r\n": "Windows"} {
			t.Run(name+" "+system, func(t *testing.T) {
				m, _, err := paste.Read([]byte("\ufeff" +
					strings.ReplaceAll(test.input, "\n", newline)))
				expect.NoError(t, err)
				if d := cmp.Diff(strings.ReplaceAll(test.want, " \n", "\n"),
					strings.ReplaceAll(machineText(m), " \n", "\n")); d != "" {
					t.Errorf("-want +got:\n%s", d)
				}
			})
		}
	}
}

// An error says where it is: the line of what is not XML, the row, or the value.
func TestReadRefuses(t *testing.T) {
	many := strings.Repeat("GPU0 ", 1025)
	manyPCI := strings.Repeat("<pci busid=\"0000:00:01.0\" class=\"0x030200\"/>", 1025)
	manySlots := strings.Repeat("Slot:\t0000:00:01.0\n\n", 1025)
	const address = "want domain:bus:device.function, such as 0000:17:00.0"
	bridges := strings.Repeat("<object type=\"Bridge\" pci_busid=\"0000:00:01.0\">", 65)
	for input, want := range map[string]string{
		"<network/>": "<network> is neither lstopo's <topology> nor NCCL's <system>",
		"<domain/>":  "a libvirt domain, which is the VM's configuration",
		"<domain type='kvm'><sysinfo><system></system></sysinfo></domain>": "a libvirt domain, " +
			"which is the VM's configuration",
		"<topology>\n": "line 2: unexpected EOF: the end of the file is missing",
		"<topology>\n  <object type=\"PCIDev\" pci_busid=\"x\"/></topology>": "" +
			`line 2: invalid PCI address "x": ` + address,
		"<topology><object type=\"PCIDev\" pci_busid=\"0000:00:01.0\"/></topology>": "" +
			`line 1: invalid pci_type "": want class and ids, such as 0302 [10de:2330]`,
		"<topology><object type=\"Bridge\" bridge_pci=\"pci[\"/></topology>": "" +
			`line 1: invalid bridge_pci "pci[": want buses such as 0000:[e0-e4]`,
		"<topology><object type=\"Machine\"/></topology>": "no PCI devices in it; lstopo on " +
			"Windows reads none",
		"<topology>" + bridges + strings.Repeat("</object>", 65) +
			"</topology>": "line 1: more than 64 bridges above 0000:00:01.0",
		"<system><cpu numaid=\"first\"/></system>": `line 1: invalid NUMA node "first"`,
		"<system><pci busid=\"0000:00:01.0\" class=\"GPU\"/></system>": `line 1: 0000:00:01.0: ` +
			`class: invalid number "GPU"`,
		"<system>" + strings.Repeat("<pci busid=\"0000:00:01.0\"/>", 2) +
			"</system>": "0000:00:01.0 appears twice",
		"<!DOCTYPE a [<!ENTITY e \"e\">]>\n<topology a=\"&e;\"/>": "line 2: invalid character entity &e;",
		"<system><cpu numaid=\"0\">" + manyPCI +
			"</cpu></system>": "more than 1024 devices",
		strings.Repeat("GPU0 GPU1\nGPU0 X PIX\n", 65): "more than 64 tables: paste those of one machine",
		manySlots:                            "more than 1024 devices",
		"hello\n":                            "nothing in it is a list, a tree or a table of PCI devices",
		many:                                 "more than 1024 devices",
		"GPU 0: NVIDIA H100 (UUID: GPU-0)\n": "nvidia-smi -L, which has neither addresses nor paths",
		"```xml\n  <object type=\"PCIDev\" pci_busid=\"0000:e3:00.0\">": "the beginning of the " +
			"file is missing: it starts with <object>",
		"        GPU0    GPU1    CPU\nGPU0     X      NV1     PHB\n": "a table of GPUs with a " +
			"column that nvidia-smi topo -m does not write",
		"<system></system>": "no PCI devices in it; lstopo on Windows reads none",
		"<system></" + strings.Repeat("x", 1000) + ">": "line 1: element <system> closed by </" +
			strings.Repeat("x", 71) + "…",
		"<system><cpu numaid=\"0\"><pci busid=\"\" class=\"0x060400\"/></cpu></system>": "" +
			`line 1: invalid PCI address "": ` + address,
	} {
		_, _, err := paste.Read([]byte(input))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %s", input, err, want)
		}
	}
}
