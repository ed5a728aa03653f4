package e2e

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"hook-sidecar/test/boot"
)

// seen is where the inner guest shows each of its devices: NVMe devices are known
// by their serial number, the others by their kind, of which there is one each.
func seen(i inner, guest *boot.Guest) map[string]boot.Expected {
	found := map[string]boot.Expected{}
	for _, d := range i.devices {
		for _, g := range guest.Devices {
			if g.ID == d.ids && (g.Label == "" || g.Label == d.id) {
				found[boot.Label(d.id)] = g.Standing()
			}
		}
	}
	return found
}

// node is the snapshot that the program took of the node: files with their
// content, links with their target.
func (r results) node(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, f := range txtar.Parse(r.file(t, "host.txtar")).Files {
		name, target, _ := strings.Cut(f.Name, " -> ")
		files[name] = target + strings.TrimSpace(string(f.Data))
	}
	return files
}

// nodePaths are the paths of the devices below /sys/devices of the node. A
// mediated device stands where its parent stands.
func nodePaths(t *testing.T, i inner, files map[string]string) map[string]place {
	t.Helper()
	all := map[string]place{}
	for _, d := range i.devices {
		link := files["bus/pci/devices/"+d.id]
		if d.isMediated() {
			link = strings.TrimSuffix(files["bus/mdev/devices/"+d.id], "/"+d.id)
		}
		_, path, found := strings.Cut(link, "/devices/")
		if !found {
			t.Fatalf("the snapshot has no link for %s: %q", d.id, link)
		}
		all[d.id] = place{strings.Split(path, "/"), files["devices/"+path+"/numa_node"]}
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

// class is the path type of two devices as nvidia-smi topo -m names it: what
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
// apart and those of one node together. What stands on no node is SYS to all.
func checkClasses(t *testing.T, i inner, node, guest map[string]place) {
	t.Helper()
	var classes []string
	for n, a := range i.devices {
		for _, b := range i.devices[n+1:] {
			want, got := class(node[a.id], node[b.id]), class(guest[boot.Label(a.id)], guest[boot.Label(b.id)])
			classes = append(classes, want)
			if want != got && (i.layout == "mirror" || want == "SYS" || got == "SYS") {
				t.Errorf("%s and %s: %s on the node, %s in the inner guest", a.id, b.id, want, got)
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
