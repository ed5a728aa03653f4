package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"hook-sidecar/test/boot"
)

// imageVariable names the folder that get-image has filled.
const imageVariable = "E2E_IMAGE"

const (
	silence  = 2 * time.Minute // a node that says nothing for so long hangs
	attempts = 3
)

func TestEndToEnd(t *testing.T) {
	image, kernel := os.Getenv(imageVariable), os.Getenv(boot.KernelVariable)
	if image == "" || kernel == "" {
		t.Skipf("%s and %s are not both set; `make e2e` sets them", imageVariable, boot.KernelVariable)
	}
	share := run(t, image, kernel)
	for _, layout := range []string{"numa", "mirror"} {
		t.Run(layout, func(t *testing.T) {
			out := func(name string) []byte { return readFile(t, filepath.Join(share, "out", layout+"."+name)) }
			guest, err := boot.ReadGuest(out("console"))
			if err != nil {
				t.Fatal(err)
			}
			plan := &boot.Explained{}
			if err := json.Unmarshal(out("json"), plan); err != nil {
				t.Fatal(err)
			}
			found := seen(guest)
			if d := cmp.Diff(plan.Expectations(), found); d != "" || len(found) != len(devices()) {
				t.Errorf("%d of %d devices (-planned +in the inner guest):\n%s", len(found), len(devices()), d)
			}
			checkClasses(t, layout, nodePaths(t, share), guestPaths(guest, found))
		})
	}
}

// run runs the node until it has done its work, and returns the shared folder.
func run(t *testing.T, image, kernelFolder string) (share string) {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "hook-sidecar")
	build := exec.Command("go", "build", "-o", binary, "./cmd/hook-sidecar")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	initramfs := filepath.Join(dir, "initramfs")
	modules := append(strings.Fields("virtio_blk squashfs overlay 9p 9pnet_virtio kvm_amd vfio-pci vfio_iommu_type1 igb"), "mtty parent="+parent)
	err := boot.Initramfs{Program: "hook-sidecar/test/e2e/host", Kernel: filepath.Join(image, "kernel"), Modules: modules}.Write(initramfs)
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := boot.KernelIn(filepath.Join(image, "kernel"))
	if err != nil {
		t.Fatal(err)
	}
	for attempt := range attempts {
		share = t.TempDir()
		if err := fill(share, binary, kernelFolder); err != nil {
			t.Fatal(err)
		}
		program, args := qemu(image)
		args = append(args, machineArguments(image, kernel, initramfs, share, filepath.Join(image, "root.squashfs"))...)
		began := time.Now()
		console, err := boot.Run(t.Context(), silence, program, args...)
		t.Logf("attempt %d of %d: %v, %v", attempt+1, attempts, time.Since(began).Round(time.Second), err)
		hung := errors.Is(err, boot.ErrHung) || strings.Contains(string(console), "HOST-HUNG")
		switch {
		case hung && attempt+1 < attempts:
			t.Logf("its last words:\n%s", console[max(0, len(console)-2000):])
			continue
		case err != nil || hung || !strings.Contains(string(console), "HOST-END") || strings.Contains(string(console), "HOST-ERROR"):
			t.Fatalf("the node failed: %v\n%s", err, console[max(0, len(console)-8000):])
		}
		return share
	}
	return share
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// seen is where the inner guest shows each device of the node: NVMe devices are
// known by their serial number, the others by their kind, of which there is one
// each.
func seen(guest *boot.Guest) map[string]boot.Expected {
	found := map[string]boot.Expected{}
	for _, d := range devices() {
		for _, g := range guest.Devices {
			if g.ID == d.id && (g.Label == "" || g.Label == d.address) {
				found[boot.Label(d.address)] = g.Standing()
			}
		}
	}
	return found
}

// nodePaths are the paths of the devices below /sys/devices of the node, from
// the snapshot that the program took there.
func nodePaths(t *testing.T, share string) map[string]place {
	t.Helper()
	files := map[string]string{}
	for _, f := range txtar.Parse(readFile(t, filepath.Join(share, "out", "host.txtar"))).Files {
		name, target, _ := strings.Cut(f.Name, " -> ")
		files[name] = target + strings.TrimSpace(string(f.Data))
	}
	all := map[string]place{}
	for _, d := range devices() {
		// A mediated device stands where its parent stands.
		address := d.address
		if address == mediated {
			address = parent
		}
		link := files["bus/pci/devices/"+address]
		at := strings.Index(link, "pci")
		if at < 0 {
			t.Fatalf("the snapshot has no link for %s: %q", d.address, link)
		}
		path := link[at:]
		all[d.address] = place{strings.Split(path, "/"), files["devices/"+path+"/numa_node"]}
	}
	return all
}

// guestPaths are the paths of the devices that were found in the inner guest.
func guestPaths(guest *boot.Guest, found map[string]boot.Expected) map[string]place {
	all := map[string]place{}
	for id, at := range found {
		for _, g := range guest.Devices {
			if g.Address() == at.Address {
				all[id] = place{strings.Split(g.Path, "/"), strconv.Itoa(at.Node)}
			}
		}
	}
	return all
}

// place is a device's path, root bus first, and its NUMA node.
type place struct {
	path []string
	node string
}

// class is the path class of two devices as nvidia-smi topo -m names it: what
// the way from one to the other crosses.
func class(a, b place) string {
	switch {
	case a.node != b.node:
		return "SYS"
	case a.path[0] != b.path[0]:
		return "NODE"
	}
	common := 0
	for common < len(a.path) && common < len(b.path) && a.path[common] == b.path[common] {
		common++
	}
	// path[1] is the root port; what is common beyond it is inside a switch.
	if common < 2 {
		return "PHB"
	}
	// Each way leads up from the device's own port to the bridge that is common:
	// one switch when that is its port or the next bridge above it.
	if len(a.path)-common <= 2 && len(b.path)-common <= 2 {
		return "PIX"
	}
	return "PXB"
}

// checkClasses: mirror keeps every class; any layout keeps devices of two nodes
// apart and those of one node together.
func checkClasses(t *testing.T, layout string, node, guest map[string]place) {
	t.Helper()
	var classes []string
	for i, a := range devices() {
		for _, b := range devices()[i+1:] {
			want, got := class(node[a.address], node[b.address]), class(guest[boot.Label(a.address)], guest[boot.Label(b.address)])
			classes = append(classes, want)
			if want != got && (layout == "mirror" || want == "SYS" || got == "SYS") {
				t.Errorf("%s and %s: %s on the node, %s in the inner guest", a.address, b.address, want, got)
			}
		}
	}
	for _, each := range []string{"PIX", "PXB", "PHB", "NODE", "SYS"} {
		if !slices.Contains(classes, each) {
			t.Errorf("no pair of the node's devices is %s, so that was not tried", each)
		}
	}
}

func TestClass(t *testing.T) {
	at := func(node, path string) place { return place{strings.Split(path, "/"), node} }
	device := at("0", "root0/port0/up/down0/a")
	for want, other := range map[string]place{
		"PIX":  at("0", "root0/port0/up/down1/b"),
		"PXB":  at("0", "root0/port0/up/down1/up/down/b"),
		"PHB":  at("0", "root0/port1/b"),
		"NODE": at("0", "root1/port0/b"),
		"SYS":  at("1", "root2/port0/b"),
	} {
		if got := class(device, other); got != want {
			t.Errorf("%v and %v: %s, want %s", device, other, got, want)
		}
	}
	if got := class(at("0", "root0/port0/a"), at("0", "root0/port0/b")); got != "PIX" {
		t.Errorf("two functions behind one port: %s, want PIX", got)
	}
}
