package report_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/machines"
)

// placedPair is a GPU and a NIC under one switch of the host, placed with
// mirror: cell 0, expander bus 0xe0, so by the numbering of docs/how-it-works.md
// root port e0:00.0, switch e1:00.0, its ports e2:00.0 and e2:01.0, and the
// devices at e3:00.0 and e4:00.0.
func placedPair(t *testing.T) report.Report {
	t.Helper()
	domain := []byte(`<domain type='kvm'><name>pair</name><os><type arch='x86_64' machine='q35'>hvm</type></os>
<cpu><numa><cell id='0' cpus='0' memory='1' unit='GiB'/></numa></cpu><numatune><memnode cellid='0' mode='strict' nodeset='0'/></numatune>
<devices>
<hostdev mode='subsystem' type='pci'><source><address domain='0' bus='0x18' slot='0' function='1'/></source><alias name='ua-nic'/></hostdev>
<hostdev mode='subsystem' type='pci'><source><address domain='0' bus='0x1b' slot='0' function='0'/></source><alias name='ua-gpu'/></hostdev>
</devices></domain>`)
	return machines.Report(t, machines.Sysfs(t, machines.HGX), domain, "mirror")
}

func address(t *testing.T, s string) topology.Address {
	t.Helper()
	a, err := topology.ParseAddress(s)
	expect.NoError(t, err)
	return a
}

// pairGuest is a guest with placedPair where all is well.
func pairGuest(t *testing.T) host.Guest {
	t.Helper()
	path := func(port string) []topology.Address {
		return []topology.Address{address(t, "0000:e0:00.0"), address(t, "0000:e1:00.0"), address(t, port)}
	}
	return host.Guest{Source: "snapshot", IDs: true, Paths: true, Devices: []topology.Device{
		{Address: address(t, "0000:00:00.0"), Vendor: 0x8086, Device: 0x29c0, Root: "pci0000:00"},
		{Address: address(t, "0000:e3:00.0"), Vendor: 0x15b3, Device: 0x101e, Node: topology.OnNode(0), Root: "pci0000:e0", Bridges: path("0000:e2:00.0")},
		{Address: address(t, "0000:e4:00.0"), Vendor: 0x10de, Device: 0x2330, Node: topology.OnNode(0), Root: "pci0000:e0", Bridges: path("0000:e2:01.0")},
	}}
}

// Each change to the good guest is found, at the device that it is about, in
// words that say what was found instead.
func TestCompareGuest(t *testing.T) {
	const nic, gpu = 1, 2 // positions in pairGuest
	tests := map[string]struct {
		change func(*host.Guest)
		want   map[string][]string // differences by alias
		notes  int
	}{
		"all is well": {func(*host.Guest) {}, nil, 0},
		"the GPU is not there": {
			func(g *host.Guest) { g.Devices = g.Devices[:gpu] },
			map[string][]string{"ua-gpu": {"nothing at 0000:e4:00.0"}}, 0,
		},
		"the GPU is on the root bus": {
			func(g *host.Guest) {
				g.Devices[gpu].Address = topology.Address{Bus: 5}
				slices.SortFunc(g.Devices, func(a, b topology.Device) int { return a.Address.Compare(b.Address) })
			},
			map[string][]string{"ua-gpu": {"nothing at 0000:e4:00.0; there is a 10de:2330 at 0000:05:00.0"}}, 0,
		},
		"another device in its place": {
			func(g *host.Guest) { g.Devices[nic].Device = 0x1017 },
			map[string][]string{"ua-nic": {"it is a 15b3:1017, on the host 15b3:101e"}}, 0,
		},
		"the firmware lost the NUMA node": {
			func(g *host.Guest) { g.Devices[gpu].Node = topology.Affinity{} },
			map[string][]string{"ua-gpu": {"NUMA node none, planned 0"}}, 0,
		},
		"another path": {
			func(g *host.Guest) { g.Devices[gpu].Bridges = g.Devices[gpu].Bridges[:1] },
			map[string][]string{"ua-gpu": {
				"its path is pci0000:e0/0000:e0:00.0, planned pci0000:e0/0000:e0:00.0/0000:e1:00.0/0000:e2:01.0",
			}}, 0,
		},
		"the firmware found no room for the GPU": {
			func(g *host.Guest) {
				g.Devices[nic].BARs = []topology.BAR{{Bytes: 1 << 20, Is64: true}}
				g.Devices[gpu].BARs = []topology.BAR{{Bytes: 1 << 36, Is64: true, Unassigned: true}, {Bytes: 128, IO: true}}
			},
			map[string][]string{"ua-gpu": {"none of its memory BARs has an address, so no driver can use it"}}, 0,
		},
		"lspci with names": {
			func(g *host.Guest) {
				g.IDs, g.Paths = false, false
				for i := range g.Devices {
					g.Devices[i].Vendor, g.Devices[i].Device, g.Devices[i].Bridges = 0, 0, nil
				}
			},
			nil, 2, // neither ids nor paths are compared, and that is said
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			guest := pairGuest(t)
			test.change(&guest)
			checkComparison(t, report.CompareGuest(placedPair(t), guest), test.want, test.notes)
		})
	}
}

func checkComparison(t *testing.T, c report.GuestComparison, want map[string][]string, notes int) {
	t.Helper()
	got := map[string][]string{}
	for _, d := range c.Devices {
		if (d.Outcome == report.Differs) != (len(d.Differences) > 0) || d.Outcome == report.NotCompared {
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
	shown := text(t, c, report.Style{})
	for _, differences := range want {
		if !strings.Contains(strings.Join(strings.Fields(shown), " "), differences[0]) {
			t.Errorf("the text does not say %q:\n%s", differences[0], shown)
		}
	}
}

// A device without an address yet is neither as planned nor not.
func TestCompareGuestTooEarly(t *testing.T) {
	c := report.CompareGuest(machines.Report(t, machines.Sysfs(t, machines.HGX), machines.OneGPU(t, "ua-gpu"), "keep"), pairGuest(t))
	if c.Count(report.NotCompared) != 1 {
		t.Errorf("outcomes %+v, want not-compared: the domain has no addresses", c.Devices)
	}
}
