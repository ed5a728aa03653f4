package report_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/report"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/machines"
)

// KubeVirt's domain as libvirt has it has everything on the root bus: no device
// has a cell and every address is libvirt's. numa would move all sixteen under two
// expander buses, with a root port each.
func TestAsIs(t *testing.T) {
	sysfs := machines.Sysfs(t, machines.HGX)
	domain := expect.File(t, "../../testdata/samples/02-8gpu-8nic-gate-off.libvirt9-inactive.xml")
	current := machines.Report(t, sysfs, domain, "keep")
	a := report.AsIs(current, machines.Report(t, sysfs, domain, "numa"))
	for i, d := range a.Devices {
		if d.GuestCell != nil || *d.GuestAddress != *current.Devices[i].GuestAddress {
			t.Errorf("%s: cell %v, address %s", d.ID, d.GuestCell, *d.GuestAddress)
		}
	}

	p := a.WouldChange
	if !p.Changed || len(p.Devices) != 16 || p.ControllersAdded != 18 || p.ControllersRemoved != 0 {
		t.Errorf("changed %v: %d devices, %d controllers added, %d removed", p.Changed,
			len(p.Devices), p.ControllersAdded, p.ControllersRemoved)
	}

	got := text(t, a, report.Style{})
	for _, want := range []string{
		"16 devices in the current domain", "GUEST, current domain", "LAYOUT numa WOULD CHANGE",
		"  1b:00.0 ua-gpu-gpu2: 07:00.0, no cell -> c2:00.0, cell 0 (memnode)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestNextStart: explain says which addresses and names the guest has now and after its next start.
// A tree that is there is kept by its layout.
func TestNextStart(t *testing.T) {
	sysfs := machines.Sysfs(t, machines.HGX)
	domain := expect.File(t, "../../testdata/samples/02-8gpu-8nic-gate-off.libvirt9-inactive.xml")
	a := report.AsIs(machines.Report(t, sysfs, domain, "keep"),
		machines.Report(t, sysfs, domain, "mirror"))
	addresses, names := a.WouldChange.Moved()
	expect.Same(t, []int{16, 8}, []int{addresses, names}, "addresses and names (-want +got)")
	got := text(t, a, report.Style{Width: 140})
	for _, want := range []string{
		"\nat the next start with the hook 16 devices get other addresses in the guest, " +
			"8 NICs other names, and the GPUs another order; layout=keep\n  keeps them\n",
		"ua-sriov-rdma1: 0e:00.0 ibp14s0, no cell -> 83:00.0 ibp131s0, cell 0 (memnode)\n",
		"ua-gpu-gpu2: 07:00.0, no cell -> 84:00.0, cell 0 (memnode)\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}

	placed := machines.Result(t, sysfs, machines.Domain(t, sysfs), "root").Domain
	other := report.AsIs(machines.Report(t, sysfs, placed, "keep"),
		machines.Report(t, sysfs, placed, "mirror"))
	got = text(t, other, report.Style{Width: 140})
	if !strings.Contains(got, "; layout=root") {
		t.Errorf("the layout of the tree is not named:\n%s", got)
	}
}

// The devices of a domain that an earlier call has placed are in their cells, and
// the layout would change nothing.
func TestAsIsPlaced(t *testing.T) {
	sysfs := machines.Sysfs(t, machines.HGX)
	placed := machines.Result(t, sysfs, machines.Domain(t, sysfs), "mirror").Domain
	a := report.AsIs(machines.Report(t, sysfs, placed, "keep"),
		machines.Report(t, sysfs, placed, "mirror"))
	for _, d := range a.Devices {
		// The host's nodes and the cells of machines.Domain have the same numbers.
		if d.GuestCell == nil || int(*d.GuestCell) != int(*d.HostNode) {
			t.Errorf("%s: cell %v on node %d", d.ID, d.GuestCell, *d.HostNode)
		}
	}

	if p := a.WouldChange; p.Changed || len(p.Devices) != 0 ||
		p.Reasons["already-aligned"] != len(a.Devices) {
		t.Errorf("would change %+v", p)
	}
}

// TestOrder: KubeVirt's tree, which stays, has the bus numbers of the second cell before those of
// the first, so explain shows the guest's order; docs/layouts.md has the line. The tree of a
// layout has the host's order, and no such line.
func TestOrder(t *testing.T) {
	c := cases.Named(t, "../..", "kubevirt-placed")
	kept := report.New(c.Planner.Read(c.Request).Plan().Plan, true, nil)
	const line = "\nthe guest's order is not the host's: #8 #9 #10 #11 #12 #13 #14 #15 #0 #1 #2 " +
		"#3 #4 #5 #6 #7\n"
	for name, shown := range map[string]string{
		"explain":         text(t, kept, report.Style{}),
		"docs/layouts.md": string(expect.File(t, "../../docs/layouts.md")),
	} {
		if !strings.Contains(shown, line) {
			t.Errorf("%s lacks the line %q", name, line)
		}
	}

	if len(kept.GuestOrder) != 16 || kept.GuestOrder[0] != kept.Devices[8].ID {
		t.Errorf("guestOrder %v", kept.GuestOrder)
	}

	sysfs := machines.Sysfs(t, machines.HGX)
	built := machines.Report(t, sysfs, machines.Domain(t, sysfs), "numa")
	if got := text(t, built, report.Style{}); built.GuestOrder != nil ||
		strings.Contains(got, "order") {
		t.Errorf("guestOrder %v\n%s", built.GuestOrder, got)
	}
}
