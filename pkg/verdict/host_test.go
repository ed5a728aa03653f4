package verdict_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/paste"
	"hook-sidecar/pkg/verdict"
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
	snapshot := filepath.Join("..", "..", "testdata", "hosts", "x86-2n4g2n-pcie.txtar")
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

// TestHost: a flat guest lost the same pairs, and needs the same keys, whatever shows the host.
func TestHost(t *testing.T) {
	for format, host := range servers(t) {
		c := compared(t, flatGuest(4, 2), host).Host
		if c.GPUs != 4 || c.NICs != 2 || c.Direct != 4 || !c.Compared {
			t.Errorf("%s: %d GPUs, %d NICs, GPUDirect RDMA on %d, compared %v", format, c.GPUs, c.NICs,
				c.Direct, c.Compared)
		}

		var lost []string
		for _, l := range c.Lost {
			lost = append(lost, fmt.Sprintf("%s %s %s->%s", l.A, l.B, l.Host, l.Guest))
		}

		expect.Same(t, []string{
			"GPU0 GPU1 PIX->PHB", "GPU0 NIC0 PIX->PHB", "GPU1 NIC0 PIX->PHB",
			"GPU2 GPU3 PIX->PHB", "GPU2 NIC1 PIX->PHB", "GPU3 NIC1 PIX->PHB",
		}, lost, "%s: lost (-want +got)", format)

		var keys []string
		for _, r := range c.Restore {
			keys = append(keys, r.Key)
		}

		expect.Same(t, []string{"layout=mirror", "nccl-topology=fwcfg"}, keys,
			"%s: keys (-want +got)", format)
	}
}

// TestHostHasMore: a guest with a part of the host's GPUs is not compared pair by pair, since which
// of them it has is not known. The key that it lacks is named all the same.
func TestHostHasMore(t *testing.T) {
	for format, host := range servers(t) {
		v := compared(t, flatGuest(2, 1), host)
		if v.Host.Compared || len(v.Host.Lost) > 0 {
			t.Errorf("%s: compared %v, lost %v", format, v.Host.Compared, v.Host.Lost)
		}

		if !slices.ContainsFunc(v.Notes, func(note string) bool {
			return strings.HasPrefix(note, "the host has 4 GPUs and the guest 2")
		}) {
			t.Errorf("%s: notes %q", format, v.Notes)
		}

		if len(v.Host.Restore) == 0 || v.Host.Restore[0].Key != "layout=mirror" {
			t.Errorf("%s: keys %v", format, v.Host.Restore)
		}
	}
}
