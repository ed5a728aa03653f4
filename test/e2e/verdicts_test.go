package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/expect"
)

// explain asks the program about a guest's domain as the node did, with the
// snapshot of the node in place of its /sys.
func (r results) explain(t *testing.T, i inner, more ...string) (out []byte, status int) {
	t.Helper()
	vmi := filepath.Join(t.TempDir(), "vmi.json")
	expect.NoError(t, os.WriteFile(vmi, []byte(vmiJSON), 0o644))
	args := append(strings.Fields("explain --format json "+i.flags), "--vmi", vmi, "--sysfs", r.path("host.txtar"), "--domain", r.path(i.name+".readback.xml"))
	out, err := exec.Command(r.program, append(args, more...)...).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		status = exit.ExitCode()
	}
	return out, status
}

// checkSnapshot: explain prints the same with the snapshot of the node as on the
// node.
func checkSnapshot(t *testing.T, i inner, r results) {
	t.Helper()
	out, status := r.explain(t, i)
	if d := cmp.Diff(string(r.file(t, i.name+".explained.json")), string(out)); d != "" || status != 0 {
		t.Errorf("explain with the snapshot of the node exits with %d (-on the node +with its snapshot):\n%s", status, d)
	}
}

// checkOtherGuest: a guest with another layout is not as planned, except for the
// device that is on the root bus in both.
func checkOtherGuest(t *testing.T, r results) {
	numa, mirror := inners()[0], inners()[1]
	out, status := r.explain(t, mirror, "--guest", r.path(numa.name+".guest.txtar"))
	var got boot.Compared
	expect.NoError(t, json.Unmarshal(out, &got))
	differ := 0
	for _, d := range got.Devices {
		if d.Outcome == "differs" && len(d.Differences) > 0 {
			differ++
		}
	}
	// The exit status is diff(1)'s.
	if status != 1 || differ == 0 {
		t.Errorf("a guest with layout numa is compared with a plan of mirror: status %d, %d devices differ:\n%s", status, differ, out)
	}
}

// checkCompared: with the inner guest's snapshot of itself the program finds every
// device as planned, and has compared all of them.
func checkCompared(t *testing.T, i inner, r results) {
	t.Helper()
	var got boot.Compared
	r.read(t, i.name+".compared.json", &got)
	if got.Source != "snapshot" || len(got.Devices) != len(i.devices) || len(got.Notes) > 0 {
		t.Errorf("a %s with %d devices, want a snapshot with %d; not compared: %q", got.Source, len(got.Devices), len(i.devices), got.Notes)
	}
	for _, d := range got.Devices {
		if d.Outcome != "as-planned" || len(d.Differences) > 0 {
			t.Errorf("%s is %s: %q", d.ID, d.Outcome, d.Differences)
		}
	}
}

// diagnosis is the part of `doctor --format json` that the tests read.
type diagnosis struct {
	Results []struct{ Name, Status, Device, Found, Hint string }
}

// with are the results that have a status, as name and device.
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
	fails := []string{}
	if i.has(loose) {
		fails = append(fails, "placement "+loose)
	}
	if d := cmp.Diff(fails, got.with("FAIL")); d != "" {
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
	want := []string{"driver-bound " + unbound}
	if last.has(loose) {
		want = append(want, "placement "+loose)
	}
	if d := cmp.Diff(want, got.with("FAIL")); d != "" {
		t.Errorf("FAILs of doctor (-want +got):\n%s\n%+v", d, got.Results)
	}
	// A group has a file where a member has the driver (Linux drivers/vfio/group.c).
	files := r.node(t)
	_, path, _ := strings.Cut(files["bus/pci/devices/"+unbound], "/devices/")
	group := "/dev/vfio/" + filepath.Base(files["devices/"+path+"/iommu_group"])
	if refusal := string(r.file(t, last.name+".refusal")); !strings.Contains(refusal, group+":") {
		t.Errorf("libvirt does not name %s, the group of %s: %s", group, unbound, refusal)
	}
}
