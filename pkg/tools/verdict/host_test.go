package verdict_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/test/expect"
)

// flatGuest returns what nvidia-smi topo -mp shows in a guest with GPUs and NICs on the root bus.
func flatGuest(gpus, nics int) string {
	var names []string
	for i := range gpus {
		names = append(names, fmt.Sprintf("GPU%d", i))
	}

	for i := range nics {
		names = append(names, fmt.Sprintf("NIC%d", i))
	}

	var b strings.Builder
	fmt.Fprintf(&b, "\t%s\tCPU Affinity\tNUMA Affinity\n", strings.Join(names, "\t"))

	for i, name := range names {
		b.WriteString(name)
		for j := range names {
			b.WriteString(map[bool]string{true: "\tX", false: "\tPHB"}[i == j])
		}

		b.WriteString(map[bool]string{true: "\t0-7\tN/A\n", false: "\n"}[i < gpus])
	}

	return b.String()
}

// serverTopo, serverNCCL and serverLstopo are what other programs print on the server of
// testdata/hosts/x86-2n4g2n-pcie.txtar: per socket a switch with two GPUs and a NIC.
const serverTopo = `	GPU0	GPU1	GPU2	GPU3	NIC0	NIC1	CPU Affinity	NUMA Affinity
GPU0	 X 	PIX	SYS	SYS	PIX	SYS	0-15	0
GPU1	PIX	 X 	SYS	SYS	PIX	SYS	0-15	0
GPU2	SYS	SYS	 X 	PIX	SYS	PIX	16-31	1
GPU3	SYS	SYS	PIX	 X 	SYS	PIX	16-31	1
NIC0	PIX	PIX	SYS	SYS	 X 	SYS
NIC1	SYS	SYS	PIX	PIX	SYS	 X
`

// serverNCCL is the file of NCCL_TOPO_DUMP_FILE, which has a switch as one bridge.
var serverNCCL = `<system version="1">` + perSocket(`<cpu numaid="%[1]s">
    <pci busid="0000:%[2]s1:00.0" class="0x060400" vendor="0x1000" device="0xc010" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:%[2]s3:00.0" class="0x030200" vendor="0x10de" device="0x26b9" link_speed="16.0 GT/s PCIe" link_width="16"/>
      <pci busid="0000:%[2]s4:00.0" class="0x030200" vendor="0x10de" device="0x26b9" link_speed="16.0 GT/s PCIe" link_width="16"/>
      <pci busid="0000:%[2]s5:00.0" class="0x020700" vendor="0x15b3" device="0x101b" link_speed="16.0 GT/s PCIe" link_width="16"/>
    </pci>
  </cpu>`) + `</system>`

// serverLstopo has the ports of the switch, too.
var serverLstopo = `<topology version="2.0"><object type="Machine" nodeset="0x3">` +
	`<info name="OSName" value="Linux"/>` +
	perSocket(`<object type="Package" nodeset="0x%[3]s">
    <object type="NUMANode" os_index="%[1]s" nodeset="0x%[3]s"/>
    <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[%[2]s0-%[2]s5]">
      <object type="Bridge" bridge_type="1-1" pci_busid="0000:%[2]s0:01.0" pci_type="0604 [8086:347a]">
        <object type="Bridge" bridge_type="1-1" pci_busid="0000:%[2]s1:00.0" pci_type="0604 [1000:c010]">
          <object type="Bridge" bridge_type="1-1" pci_busid="0000:%[2]s2:00.0" pci_type="0604 [1000:c010]">
            <object type="PCIDev" pci_busid="0000:%[2]s3:00.0" pci_type="0302 [10de:26b9]"/>
          </object>
          <object type="Bridge" bridge_type="1-1" pci_busid="0000:%[2]s2:04.0" pci_type="0604 [1000:c010]">
            <object type="PCIDev" pci_busid="0000:%[2]s4:00.0" pci_type="0302 [10de:26b9]"/>
          </object>
          <object type="Bridge" bridge_type="1-1" pci_busid="0000:%[2]s2:08.0" pci_type="0604 [1000:c010]">
            <object type="PCIDev" pci_busid="0000:%[2]s5:00.0" pci_type="0207 [15b3:101b]"/>
          </object>
        </object>
      </object>
    </object>
  </object>`) + `</object></topology>`

// perSocket writes a text for each of two sockets: node 0 with buses 10 to 15, node 1 with 80 to
// 85.
func perSocket(format string) string {
	return fmt.Sprintf(format, "0", "1", "1") + fmt.Sprintf(format, "1", "8", "2")
}

// servers returns the server in each format that --host takes.
func servers(t *testing.T) map[string]string {
	t.Helper()
	snapshot := filepath.Join("..", "..", "..", "testdata", "hosts", "x86-2n4g2n-pcie.txtar")
	return map[string]string{
		"snapshot": string(expect.File(t, snapshot)),
		"topo -m":  serverTopo, "NCCL": serverNCCL, "lstopo": serverLstopo,
	}
}

// compared returns the comparison of a guest with a host.
func compared(t *testing.T, guest, host string) verdict.Verdict {
	t.Helper()
	g, _, err := paste.Read([]byte(guest))
	expect.NoError(t, err)
	h, _, err := paste.Read([]byte(host))
	expect.NoError(t, err)
	return verdict.New(g, &h)
}

// numbered is a GPU or NIC of lstopo's XML with the number that it has on the host and in a guest.
type numbered struct{ address, number string }

// lstopoOf returns lstopo's XML of devices under host bridges with these buses, on the root bus if
// that is "00".
func lstopoOf(buses map[string][]numbered) string {
	var b strings.Builder
	b.WriteString(`<topology version="2.0"><object type="Machine" nodeset="0x1">` +
		`<info name="OSName" value="Linux"/>` +
		`<object type="NUMANode" os_index="0" nodeset="0x1" cpuset="0xff"/>`)
	for _, bus := range slices.Sorted(maps.Keys(buses)) {
		fmt.Fprintf(&b, `<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[%s-%s]">`, bus, bus)
		for _, d := range buses[bus] {
			ids, kind, info := "0302 [10de:26b9]", "5", "NVIDIAUUID"
			if strings.HasPrefix(d.number, "n") {
				ids, kind, info = "0207 [15b3:101b]", "3", "NodeGUID"
			}

			fmt.Fprintf(&b, `<object type="PCIDev" pci_busid="0000:%[1]s" pci_type="%[2]s">`+
				`<object type="OSDev" osdev_type="%[3]s" name="%[5]s">`+
				`<info name="%[4]s" value="%[5]s"/></object></object>`,
				d.address, ids, kind, info, d.number)
		}
		b.WriteString("</object>")
	}

	return b.String() + "</object></topology>"
}

// withNumbers adds a number to each device of serverLstopo, in the order of addresses.
func withNumbers(lstopo string) string {
	i := 0
	for _, kind := range []string{"10de:26b9]\"/>", "15b3:101b]\"/>"} {
		for strings.Contains(lstopo, kind) {
			info := fmt.Sprintf(`NVIDIAUUID" value="g%d"`, i)
			if strings.HasPrefix(kind, "15b3") {
				info = fmt.Sprintf(`NodeGUID" value="n%d"`, i-4)
			}

			lstopo = strings.Replace(lstopo, kind, strings.TrimSuffix(kind, "/>")+
				`><object type="OSDev" osdev_type="5"><info name="`+info+`/></object></object>`, 1)
			i++
		}
	}

	return lstopo
}

// TestHostByNumbers: a flat guest has the host's devices in another order, and a part of them. They
// are paired by the numbers that both sides show: UUIDs and GUIDs.
func TestHostByNumbers(t *testing.T) {
	host := withNumbers(serverLstopo)
	for name, test := range map[string]struct {
		guest []numbered
		want  []string
	}{
		"all": {
			[]numbered{
				{"01:00.0", "g3"}, {"02:00.0", "g0"}, {"03:00.0", "g2"}, {"04:00.0", "g1"},
				{"05:00.0", "n1"}, {"06:00.0", "n0"},
			},
			[]string{
				"01:00.0 03:00.0 PIX", "01:00.0 n1 PIX", "02:00.0 04:00.0 PIX", "02:00.0 n0 PIX",
				"03:00.0 n1 PIX", "04:00.0 n0 PIX",
			},
		},
		"a part": {
			[]numbered{{"01:00.0", "g2"}, {"02:00.0", "g1"}, {"05:00.0", "n1"}},
			[]string{"01:00.0 n1 PIX"},
		},
	} {
		v := compared(t, lstopoOf(map[string][]numbered{"00": test.guest}), host)
		var lost []string
		for _, l := range v.Host.Lost {
			lost = append(lost, l.A+" "+l.B+" "+l.Host)
		}

		expect.Same(t, test.want, lost, "%s: lost (-want +got)", name)
		if len(v.Host.Restore) == 0 || v.Host.Restore[0].Key != "layout=mirror" {
			t.Errorf("%s: keys %v", name, v.Host.Restore)
		}

		// An administrator is asked for one of the two keys that do the same.
		asked := strings.Join(v.Send, "\n")
		if len(v.Host.Restore) != 2 || !strings.Contains(asked, "the hook-sidecar with layout=mirror (") {
			t.Errorf("%s: keys %v, asked for in %q", name, v.Host.Restore, asked)
		}

		if _, err := v.TopologyFile(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHostOfOthers: a GPU and a NIC that are apart on the host lose nothing in the guest, though other
// GPUs of the host have GPUDirect RDMA. No key restores it, and none is asked for.
func TestHostOfOthers(t *testing.T) {
	guest := lstopoOf(map[string][]numbered{"00": {{"01:00.0", "g2"}, {"02:00.0", "n0"}}})
	v := compared(t, guest, withNumbers(serverLstopo))
	if v.Host.Direct != 4 || !v.Host.Compared || len(v.Host.Lost) > 0 {
		t.Fatalf("compared %+v", v.Host)
	}

	if asked := strings.Join(v.Send, "\n"); len(v.Host.Restore) > 0 ||
		strings.Contains(asked, "layout=") {
		t.Errorf("restored by %v, asked for in %q", v.Host.Restore, asked)
	}
}

// TestHostNotShown: without numbers nothing shows which device of the host is which in a flat
// guest. Pairs are not compared, no key restores them, there is no file, and it is said who can
// write it.
func TestHostNotShown(t *testing.T) {
	for format, host := range servers(t) {
		for _, guest := range []string{flatGuest(4, 2), flatGuest(2, 1)} {
			v := compared(t, guest, host)
			c := v.Host
			if c.GPUs != 4 || c.NICs != 2 || c.Direct != 4 {
				t.Errorf("%s: %d GPUs, %d NICs, GPUDirect RDMA on %d", format, c.GPUs, c.NICs,
					c.Direct)
			}

			if c.Compared || len(c.Lost) > 0 || len(c.Restore) > 0 {
				t.Errorf("%s: compared %v, lost %v, restored %v", format, c.Compared, c.Lost,
					c.Restore)
			}

			_, err := v.TopologyFile()
			const who = "kubectl hostdev explain VM -o nccl"
			isSaid := slices.ContainsFunc(v.Notes, func(note string) bool {
				return strings.Contains(note, who)
			})
			if err == nil || !strings.Contains(err.Error(), who) || !isSaid {
				t.Errorf("%s: error %v, notes %q", format, err, v.Notes)
			}
		}
	}
}

// TestHostInOrder: devices are paired by order in a guest whose tree is the host's, and in one
// whose expander buses have the hook's bus numbers. In KubeVirt's they have others.
func TestHostInOrder(t *testing.T) {
	under := func(first, second string) string {
		at := func(bus string, from int, numbers ...string) (all []numbered) {
			for i, number := range numbers {
				all = append(all, numbered{fmt.Sprintf("%s:%02x.0", bus, from+i), number})
			}
			return all
		}

		text := lstopoOf(map[string][]numbered{
			first: at(first, 1, "a", "b", "nic"), second: at(second, 1, "c", "d", "nib"),
		})
		return regexp.MustCompile(`<info name="N[^>]*>`).ReplaceAllString(text, "")
	}

	for name, test := range map[string]struct {
		guest, host string
		want        bool
	}{
		"the host's tree":          {serverTopo, serverTopo, true},
		"the hook's bus numbers":   {under("c0", "e0"), serverLstopo, true},
		"KubeVirt's bus numbers":   {under("fa", "fd"), serverLstopo, false},
		"as many, on the root bus": {flatGuest(4, 2), serverTopo, false},
	} {
		if c := compared(t, test.guest, test.host).Host; c.Compared != test.want {
			t.Errorf("%s: compared %v, want %v", name, c.Compared, test.want)
		}
	}
}
