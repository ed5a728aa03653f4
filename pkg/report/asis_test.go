package report_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"hook-sidecar/pkg/report"
)

// KubeVirt's domain as libvirt has it has everything on the root bus: no device
// has a cell and every address is libvirt's. numa would move all sixteen under two
// expander buses, with a root port each.
func TestAsIs(t *testing.T) {
	snapshot := readHost(t, "x86-2n8g-hgx-h100")
	domain, err := os.ReadFile("../../testdata/samples/02-8gpu-8nic-gate-off.libvirt9-inactive.xml")
	if err != nil {
		t.Fatal(err)
	}
	current := reportOf(t, snapshot, domain, "keep")
	a := report.NewAsIs(current, reportOf(t, snapshot, domain, "numa"))
	for i, d := range a.Devices {
		if d.GuestCell != nil || *d.GuestAddress != *current.Devices[i].GuestAddress {
			t.Errorf("%s: cell %v, address %s", d.ID, d.GuestCell, *d.GuestAddress)
		}
	}
	p := a.WouldChange
	if !p.Changed || len(p.Devices) != 16 || p.ControllersAdded != 18 || p.ControllersRemoved != 0 {
		t.Errorf("changed %v: %d devices, %d controllers added, %d removed", p.Changed, len(p.Devices), p.ControllersAdded, p.ControllersRemoved)
	}
	var b bytes.Buffer
	if err := a.WriteText(&b, report.Style{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"16 devices in the current domain", "GUEST, current domain", "LAYOUT numa WOULD CHANGE",
		"0000:1b:00.0 ua-gpu-gpu2: 07:00.0, no cell -> e2:00.0, cell 0 (memnode)",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// The devices of a domain that an earlier call has placed are in their cells, and
// the layout would change nothing.
func TestAsIsPlaced(t *testing.T) {
	snapshot := readHost(t, "x86-2n8g-hgx-h100")
	placed := resultOf(t, snapshot, wholeHost(t, snapshot), "mirror").Domain
	a := report.NewAsIs(reportOf(t, snapshot, placed, "keep"), reportOf(t, snapshot, placed, "mirror"))
	for _, d := range a.Devices {
		// The host's nodes and the cells of wholeHost have the same numbers.
		if d.GuestCell == nil || int(*d.GuestCell) != int(*d.HostNode) {
			t.Errorf("%s: cell %v on node %d", d.ID, d.GuestCell, *d.HostNode)
		}
	}
	if p := a.WouldChange; p.Changed || len(p.Devices) != 0 || p.Reasons["already-aligned"] != len(a.Devices) {
		t.Errorf("would change %+v", p)
	}
}
