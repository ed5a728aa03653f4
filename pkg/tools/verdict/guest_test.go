package verdict_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/machines"
	"hook-sidecar/test/pastes"
)

// placedPair returns a GPU and a NIC under one switch of the host, placed with mirror: cell 0,
// expander bus 0xe0, so by the numbering of docs/how-it-works.md root port e0:00.0, switch
// e1:00.0, its ports e2:00.0 and e2:01.0, and the devices at e3:00.0 and e4:00.0.
func placedPair(t *testing.T) report.Report { return pairWith(t, "mirror") }

func pairWith(t *testing.T, layout string) report.Report {
	t.Helper()
	domain := []byte(`<domain type='kvm'><name>pair</name><os><type arch='x86_64' machine='q35'>hvm</type></os>
<cpu><numa><cell id='0' cpus='0' memory='1' unit='GiB'/></numa></cpu><numatune><memnode cellid='0' mode='strict' nodeset='0'/></numatune>
<devices>
<hostdev mode='subsystem' type='pci'><source><address domain='0' bus='0x18' slot='0' function='1'/></source><alias name='ua-nic'/></hostdev>
<hostdev mode='subsystem' type='pci'><source><address domain='0' bus='0x1b' slot='0' function='0'/></source><alias name='ua-gpu'/></hostdev>
</devices></domain>`)

	return machines.Report(t, machines.Sysfs(t, machines.HGX), domain, layout)
}

// pairGuest returns a guest with placedPair where all is well.
func pairGuest(t *testing.T) paste.Machine {
	t.Helper()
	guest, _, err := paste.Read([]byte(pastes.LstopoXML(2)(pastes.Load(t, "guest-mirror"))))
	expect.NoError(t, err)
	return guest
}

// Each change to the good guest is found, at the device that it is about, in
// words that say what was found instead.
func TestCompareGuest(t *testing.T) {
	const nic, gpu = 1, 2 // positions in pairGuest
	tests := map[string]struct {
		change func(*paste.Machine)
		want   map[string][]string // differences by alias
		notes  int
	}{
		"all is well": {func(*paste.Machine) {}, nil, 0},
		"the GPU is not there": {
			func(g *paste.Machine) { g.Functions = g.Functions[:gpu] },
			map[string][]string{"ua-gpu": {"nothing at 0000:e4:00.0"}}, 0,
		},
		"the GPU is on the root bus": {
			func(g *paste.Machine) {
				g.Functions[gpu].Address = topology.Address{Bus: 5}
				slices.SortFunc(g.Functions, func(a, b topology.Function) int {
					return a.Address.Compare(b.Address)
				})
			},
			map[string][]string{
				"ua-gpu": {"nothing at 0000:e4:00.0; there is a 10de:2330 at 0000:05:00.0"},
			}, 0,
		},
		"another device in its place": {
			func(g *paste.Machine) { g.Functions[nic].Device = 0x1017 },
			map[string][]string{"ua-nic": {"it is a 15b3:1017, on the host 15b3:101e"}}, 0,
		},
		"the firmware lost the NUMA node": {
			func(g *paste.Machine) { g.Functions[gpu].Node = topology.Affinity{} },
			map[string][]string{"ua-gpu": {"NUMA node none, planned 0"}}, 0,
		},
		"the firmware found no room for the GPU": {
			func(g *paste.Machine) {
				g.Functions[nic].BARs = []topology.BAR{{Bytes: 1 << 20, Is64: true}}
				g.Functions[gpu].BARs = []topology.BAR{
					{Bytes: 1 << 36, Is64: true, Unassigned: true}, {Bytes: 128, IO: true},
				}
			},
			map[string][]string{
				"ua-gpu": {"none of its memory BARs has an address, so no driver can use it"},
			}, 0,
		},
		"lspci with names": {
			func(g *paste.Machine) {
				*g = paste.Machine{Host: g.Host, Sources: []paste.Source{paste.Lspci}}
				for i := range g.Functions {
					g.Functions[i].Vendor, g.Functions[i].Device = 0, 0
				}
			},
			nil, 2, // neither ids nor path types are compared, and that is said
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			guest := pairGuest(t)
			test.change(&guest)
			checkComparison(t, verdict.CompareGuest(placedPair(t), guest), test.want, test.notes)
		})
	}
}

// NCCL's dump has the host's switches where the guest has the hook's topology file: its tree may
// have none.
func TestCompareGuestOfTopologyFile(t *testing.T) {
	r := pairWith(t, "root")
	guest, _, err := paste.Read(fmt.Appendf(nil, `<system><cpu numaid="0"><pci busid="ffff:ff:00.0" class="0x060400">
<pci busid="%s" class="0x020700"/><pci busid="%s" class="0x030200"/></pci></cpu></system>`, r.Devices[0].Predicted, r.Devices[1].Predicted))
	expect.NoError(t, err)
	checkComparison(t, verdict.CompareGuest(r, guest), map[string][]string{
		"ua-nic": {"1 path type not as planned: PIX to ua-gpu, planned PHB"},
		"ua-gpu": {"1 path type not as planned: PIX to ua-nic, planned PHB"},
	}, 1) // NCCL's file has no ids here

	r.Policy[policy.KeyNCCLTopology] = report.Setting{Value: policy.NCCLTopologyFWCfg}
	checkComparison(t, verdict.CompareGuest(r, guest), nil, 1)
}

func checkComparison(t *testing.T, c verdict.GuestComparison, want map[string][]string, notes int) {
	t.Helper()
	got := map[string][]string{}
	for _, d := range c.Devices {
		if (d.Outcome == verdict.Differs) != (len(d.Differences) > 0) ||
			d.Outcome == verdict.NotCompared {
			t.Errorf("%s: %s with %d differences", *d.Alias, d.Outcome, len(d.Differences))
		}
		if len(d.Differences) > 0 {
			got[*d.Alias] = d.Differences
		}
	}

	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}

	if len(c.Notes) != notes {
		t.Errorf("notes %q, want %d", c.Notes, notes)
	}

	var shown strings.Builder
	expect.NoError(t, c.WriteText(&shown, report.Style{}))
	for _, differences := range want {
		if !strings.Contains(strings.Join(strings.Fields(shown.String()), " "), differences[0]) {
			t.Errorf("the text does not say %q:\n%s", differences[0], &shown)
		}
	}
}

// What a guest's user pastes is compared with the plan as far as it says something; the flat guest
// differs in what the format shows.
func TestCompareGuestPasted(t *testing.T) {
	const columns = "GPU0 NIC0 CPU Affinity NUMA Affinity GPU NUMA ID\n"
	mirror := pastes.Load(t, "guest-mirror")
	tests := map[string]struct {
		input string
		want  map[string][]string
		notes int
	}{
		"lstopo":     {input: pastes.LstopoXML(2)(mirror)},
		"NCCL":       {input: pastes.NCCLFile(mirror)},
		"nvidia-smi": {input: pastes.TopoM.Print(mirror), notes: 1}, // matched by order
		"flat lstopo": {
			input: `<topology><object type="Bridge" bridge_pci="0000:[00-02]">` +
				`<object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0302 [10de:2330]"/>` +
				`</object></topology>`,
			want: map[string][]string{
				"ua-gpu": {"nothing at 0000:e4:00.0; there is a 10de:2330 at 0000:01:00.0"},
				"ua-nic": {"nothing at 0000:e3:00.0"},
			},
			notes: 1, // no nodes
		},
		"NCCL without the switch": {
			input: `<system><cpu numaid="-1">` +
				`<pci busid="0000:e3:00.0" class="0x020700" vendor="0x15b3" device="0x101e"/>` +
				`<pci busid="0000:e4:00.0" class="0x030200" vendor="0x10de" device="0x2330"/>` +
				`</cpu></system>`,
			want: map[string][]string{
				"ua-gpu": {"NUMA node none, planned 0",
					"1 path type not as planned: PHB to ua-nic, planned PIX"},
				"ua-nic": {"NUMA node none, planned 0",
					"1 path type not as planned: PHB to ua-gpu, planned PIX"},
			},
		},
		"flat nvidia-smi": {
			input: columns + "GPU0 X PHB 0-3 N/A N/A\nNIC0 PHB X\n",
			want: map[string][]string{
				"ua-gpu": {"NUMA node none, planned 0",
					"1 path type not as planned: PHB to ua-nic, planned PIX"},
				"ua-nic": {"1 path type not as planned: PHB to ua-gpu, planned PIX"},
			},
			notes: 1,
		},
		"NVLink hides the path": {input: columns + "GPU0 X NV4 0-3 0 N/A\n", notes: 2},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			guest, _, err := paste.Read([]byte(test.input))
			expect.NoError(t, err)
			checkComparison(t, verdict.CompareGuest(placedPair(t), guest), test.want, test.notes)
		})
	}
}

// What the source does not list, or cannot tell from another, is not compared, and that is said.
func TestCompareGuestUnlisted(t *testing.T) {
	for input, source := range map[string]string{
		"GPU0 GPU1\nGPU0 X SYS\n": "nvidia-smi", // two GPUs, and one is planned
		`<system><cpu numaid="0">` +
			`<pci busid="0000:05:00.0" class="0x020000" vendor="0x1af4" device="0x1041"/></cpu>` +
			`</system>`: "nccl",
	} {
		guest, _, err := paste.Read([]byte(input))
		expect.NoError(t, err)
		c := verdict.CompareGuest(placedPair(t), guest)
		said := func(note string) bool {
			return strings.HasPrefix(note, "2 devices not compared: ")
		}

		if c.Count(verdict.NotCompared) != 2 || c.Source != source ||
			!slices.ContainsFunc(c.Notes, said) {
			t.Errorf("%s: %+v", source, c)
		}
	}
}
