//go:build lane

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/boot"
	"hook-sidecar/test/expect"
)

// checkSnapshot: with the snapshot of the node in place of its /sys, explain prints the
// same as on the node.
func checkSnapshot(t *testing.T, i inner, r results) {
	t.Helper()
	vmi := filepath.Join(t.TempDir(), "vmi.json")
	expect.NoError(t, os.WriteFile(vmi, []byte(vmiJSON), 0o644))
	args := append(strings.Fields("explain -o json "+i.flags), "--vmi", vmi, "--sysfs",
		r.path("host.txtar"), "--domain", r.path(i.name+".readback.xml"))
	out, err := exec.Command(r.program, args...).Output()
	expect.NoError(t, err)
	expect.Same(t, string(r.file(t, i.name+".explained.json")), string(out),
		"explain (-on the node +with its snapshot)")
}

// checkLinks: with port-speed=host the inner guest's switch ports are those of QEMU that have a
// link, with that of the node, whose emulated devices and switches have 2.5 GT/s x1. Without it
// they are libvirt's, whose downstream ports have none.
func checkLinks(t *testing.T, i inner, r results) {
	t.Helper()
	files, err := host.ParseSnapshot(r.file(t, i.name+".guest.txtar"))
	expect.NoError(t, err)
	seen, _ := host.Read(files, nil, host.All|host.Details)
	const ti, cxl = 0x104c, 0x19e5
	ports := map[uint16]int{}
	for d := range slices.Values(seen.Functions) {
		if d.Vendor == ti || d.Vendor == cxl {
			ports[d.Vendor]++
			if link := seen.MaxLink(&d); link == nil ||
				*link != (topology.Link{Speed: 2.5, Width: 1}) {
				t.Errorf("port %s has the link %v", d.Address, link)
			}
		}
	}

	if hasSwitches := i.layout == "mirror"; ports[ti] > 0 || hasSwitches != (ports[cxl] > 0) {
		t.Errorf("%d switch ports without a link of their own, %d with one", ports[ti], ports[cxl])
	}
}

// checkCompared: with the inner guest's snapshot of itself the program finds every
// device as planned, and has compared all of them.
func checkCompared(t *testing.T, i inner, r results) {
	t.Helper()
	var got boot.Compared
	r.read(t, i.name+".compared.json", &got)
	if got.Source != "snapshot" || len(got.Devices) != len(i.devices) || len(got.Notes) > 0 {
		t.Errorf("a %s with %d devices, want a snapshot with %d; not compared: %q", got.Source,
			len(got.Devices), len(i.devices), got.Notes)
	}

	for _, d := range got.Devices {
		if d.Outcome != "as-planned" || len(d.Differences) > 0 {
			t.Errorf("%s is %s: %q", d.ID, d.Outcome, d.Differences)
		}
	}
}

// diagnosis is the part of `doctor -o json` that the tests read.
type diagnosis struct {
	Results []struct{ Name, Status, Device, Found, Hint string }
}

// with returns the results that have a status, as name and device.
func (d diagnosis) with(status string) []string {
	all := []string{}
	for _, r := range d.Results {
		if r.Status == status {
			all = append(all, fmt.Sprint(r.Name, " ", r.Device))
		}
	}

	return all
}

// checkDoctor: nothing is wrong with the node and the domain except that one
// device is on no node.
func checkDoctor(t *testing.T, i inner, r results) {
	t.Helper()
	var got diagnosis
	r.read(t, i.name+".doctor.json", &got)
	if d := cmp.Diff([]string{"placement " + loose}, got.with("FAIL")); d != "" {
		t.Errorf("FAILs of doctor (-want +got):\n%s\n%+v", d, got.Results)
	}
}

// checkUnbound: doctor names the device without a driver, and libvirt refuses to
// start the domain because the device's IOMMU group has no file.
func checkUnbound(t *testing.T, r results) {
	guests := inners()
	last := guests[len(guests)-1]
	var got diagnosis
	r.read(t, last.name+".unbound.json", &got)
	want := []string{"driver-bound " + unbound, "placement " + loose}
	if d := cmp.Diff(want, got.with("FAIL")); d != "" {
		t.Errorf("FAILs of doctor (-want +got):\n%s\n%+v", d, got.Results)
	}

	// A group has a file if a member has the driver (Linux drivers/vfio/group.c).
	files, err := host.ParseSnapshot(r.file(t, "host.txtar"))
	expect.NoError(t, err)
	address, err := topology.ParseAddress(unbound)
	expect.NoError(t, err)
	node, _ := host.Read(files, []topology.DeviceID{topology.PCIDevice(address)}, host.Related)
	group := fmt.Sprint("/dev/vfio/", *node.FunctionAt(address).IOMMUGroup)
	if refusal := string(r.file(t, last.name+".refusal")); !strings.Contains(refusal, group+":") {
		t.Errorf("libvirt does not name %s, the group of %s: %s", group, unbound, refusal)
	}
}
