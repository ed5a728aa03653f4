package verdict_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
)

// TestConsumersOfFormats: of each machine no program's output says of more GPUs or pairs what a
// consumer decides than the machine's whole /sys does: what the text lacks is not known.
func TestConsumersOfFormats(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/machines/*")
	expect.NoError(t, err)
	seen := map[string]bool{}
	for i, file := range files {
		if !expect.IsSampled(i, 4) {
			continue
		}

		m := pastes.Parse(t, string(expect.File(t, file)))
		// Descriptions are of hosts, whose GPUs have VFIO's driver. Those of guests would be broken.
		guest := strings.NewReplacer("vfio-pci", "mlx5_core")
		whole, _, err := paste.Read([]byte(guest.Replace(pastes.SnapshotText(m))))
		expect.NoError(t, err)
		truth := map[string]verdict.Consumer{}
		for _, row := range verdict.New(whole, &whole).Consumers {
			truth[row.Consumer] = row
			if row.Host != nil && row.Host.Open+row.Host.Wrong > 0 {
				t.Errorf("%s beside itself: %+v, %+v", file, row, row.Host)
			}
		}

		for j, f := range pastes.Formats {
			if !f.Suits(m) || !expect.IsSampled(i+j, 3) {
				continue
			}

			shown, _, err := paste.Read([]byte(guest.Replace(f.Print(m))))
			expect.NoError(t, err)
			for _, row := range verdict.New(shown, &shown).Consumers {
				if row.Host != nil && row.Host.Open+row.Host.Wrong > 0 {
					t.Errorf("%s, %s beside itself: %+v, %+v", file, f.Name, row, row.Host)
				}

				of := truth[row.Consumer]
				what := fmt.Sprintf("%s, %s: %+v, by its /sys %+v", filepath.Base(file), f.Name, row, of)
				// That a GPU reaches a NIC over NVLink shows in its id alone, and that links are
				// XGMI, over which it reaches none, in its vendor.
				isNVLink := row.Consumer == consumers.NCCL && len(m.Links) > 0
				if !isNVLink && (row.Yes > of.Yes+of.Unknown || row.No > of.No+of.Unknown) {
					t.Error(what)
				}
				seen[row.Consumer] = seen[row.Consumer] || row.Yes > 0
			}
		}
	}

	expect.Same(t, 6, len(seen), "%v", seen)
	for consumer, isYes := range seen {
		if !isYes {
			t.Errorf("%s says yes of nothing, so the test shows nothing", consumer)
		}
	}
}

// rowsOf prints the answers of consumers: "UCX 0+2-0?0 UCX_DISTANCE_BW=…"; compared with the host
// those as on it, open, otherwise and not known.
func rowsOf(v verdict.Verdict) (rows []string) {
	for _, c := range v.Consumers {
		text := fmt.Sprintf("%s %d+%d-%d?%d", c.Consumer, c.Yes, c.Open, c.No, c.Unknown)
		if v.Host != nil && c.Host != nil {
			text = fmt.Sprintf("%s %d+%d-%d?%d", c.Consumer, c.Host.Right, c.Host.Open, c.Host.Wrong,
				c.Host.Unknown)
		}

		if len(c.Set) > 0 {
			text += " " + strings.Join(c.Set, " ")
		}
		rows = append(rows, text)
	}

	return rows
}

// TestConsumers: what a guest's text says of each consumer, with the variables to set.
func TestConsumers(t *testing.T) {
	const zen = "cpu x86,ven0002fam0019mod0011\n"
	roots := `cpus 0 0-7
cpus 1 8-15
pci0000:10 node=0
  0000:10:01.0 bridge
    0000:11:00.0 gpu
  0000:10:02.0 bridge
    0000:12:00.0 nic
pci0000:80 node=1
  0000:80:01.0 bridge
    0000:81:00.0 nic
`
	for name, test := range map[string]struct {
		text, sysfs string // one of both
		want        []string
	}{
		"flat": {flatGuest(2, 2), "", []string{
			"NCCL 0+0-2?0 NCCL_NET_GDR_LEVEL=PHB", "UCX 0+2-0?0", "DRA pcieRoot 5+0-0?0",
			"DRA numaNode 0+0-1?4", "P2PDMA 0+0-0?5", "hwloc 0+2-0?0",
		}},
		"a root per GPU and NIC": {twoRoots, "", []string{
			"NCCL 0+0-2?0 NCCL_NET_GDR_LEVEL=PHB", "UCX 0+0-2?0 UCX_DISTANCE_BW=auto,phb:48GBs",
			"DRA pcieRoot 2+0-3?0", "DRA numaNode 5+0-0?0", "P2PDMA 0+0-0?5", "hwloc 2+0-0?0",
		}},
		// UCX's ucx.conf has 5,100 MB/s between the nodes of AMD's CPUs, and 3,500 for one root.
		"an unknown CPU": {"", roots, []string{
			"NCCL 0+0-1?0 NCCL_NET_GDR_LEVEL=PHB", "UCX 0+0-0?1", "DRA pcieRoot 1+0-1?0",
			"DRA numaNode 1+0-1?0", "P2PDMA 0+0-0?2", "hwloc 1+0-0?0",
		}},
		"Zen": {"", zen + roots, []string{
			"NCCL 0+0-1?0 NCCL_NET_GDR_LEVEL=PHB", "UCX 0+0-1?0 UCX_DISTANCE_BW=auto,phb:48GBs",
			"DRA pcieRoot 1+0-1?0", "DRA numaNode 1+0-1?0", "P2PDMA 2+0-0?0", "hwloc 1+0-0?0",
		}},
		"Intel": {"", "cpu x86,ven0000fam0006mod008F\n" + roots, []string{
			"NCCL 0+0-1?0 NCCL_NET_GDR_LEVEL=PHB", "UCX 1+0-0?0",
			"DRA pcieRoot 1+0-1?0", "DRA numaNode 1+0-1?0", "P2PDMA 0+0-2?0", "hwloc 1+0-0?0",
		}},
	} {
		m, _ := paste.ReadSysfs(expect.Host(t, test.sysfs))
		if test.text != "" {
			var err error
			m, _, err = paste.Read([]byte(test.text))
			expect.NoError(t, err)
		}
		expect.Same(t, test.want, rowsOf(verdict.New(m, nil)), "%s (-want +got)", name)
	}
}

// TestConsumersBesideHost: the server of serverTopo, and guests of it. What the texts do not tell is
// not known: the links in a table, and hence NCCL's speed; a GPU that does not answer decides nothing.
func TestConsumersBesideHost(t *testing.T) {
	whole := servers(t)["snapshot"]
	flat := withNumbers(lstopoOf(map[string][]numbered{"00": {
		{"01:00.0", "g0"}, {"02:00.0", "g1"}, {"03:00.0", "g2"}, {"04:00.0", "g3"},
		{"05:00.0", "n0"}, {"06:00.0", "n1"},
	}}))
	for name, test := range map[string]struct {
		guest, host string
		headline    string
		want        []string
	}{
		"the host's tree": {whole, whole, "4 of 4 GPUs: NCCL, UCX, DRA, P2PDMA, hwloc as on the host",
			[]string{
				"NCCL 4+0-0?0", "UCX 4+0-0?0", "DRA pcieRoot 14+0-0?0", "DRA numaNode 14+0-0?0",
				"P2PDMA 6+0-0?0", "hwloc 4+0-0?0",
			}},
		"the host's tree in a table": {serverTopo, serverTopo,
			"4 of 4 GPUs: UCX, DRA, P2PDMA, hwloc as on the host; not known of all: NCCL", []string{
				"NCCL 0+0-0?4", "UCX 4+0-0?0", "DRA pcieRoot 14+0-0?0", "DRA numaNode 14+0-0?0",
				"P2PDMA 6+0-0?0", "hwloc 4+0-0?0",
			}},
		"a GPU does not answer": {
			onSwitch("(rev ff)", ""), onSwitch("(rev a1)", ""),
			"0 of 1 GPU: NCCL, UCX, DRA, P2PDMA, hwloc as on the host", []string{
				"NCCL 0+0-1?0", "UCX 0+0-1?0", "DRA pcieRoot 0+0-1?0", "DRA numaNode 0+0-1?0",
				"P2PDMA 0+0-1?0", "hwloc 0+0-1?0",
			},
		},
		"flat": {flat, withNumbers(serverLstopo),
			"0 of 4 GPUs: NCCL, UCX, hwloc as on the host; not known of all: DRA numaNode, P2PDMA",
			[]string{
				"NCCL 0+2-2?0 NCCL_NET_GDR_LEVEL=PHB NCCL_TOPO_FILE=$PWD/topo.xml", "UCX 0+4-0?0",
				"DRA pcieRoot 6+0-8?0", "DRA numaNode 0+0-0?14", "P2PDMA 0+0-0?6", "hwloc 0+4-0?0",
			}},
	} {
		v := compared(t, test.guest, test.host)
		expect.Same(t, test.want, rowsOf(v), "%s (-want +got)", name)
		var b strings.Builder
		expect.NoError(t, v.WriteText(&b, report.Style{Width: 120}))
		if !strings.Contains(b.String(), "COMPARED WITH THE HOST\n"+test.headline+"\n") {
			t.Errorf("%s: no %q in\n%s", name, test.headline, b.String())
		}
	}
}
