package e2e

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/tree"
)

// seen is where the inner guest shows each of its devices: NVMe devices are known
// by their serial number, the others by their kind, one of each.
func seen(i inner, guest *boot.Guest) map[string]boot.Expected {
	found := map[string]boot.Expected{}
	for _, d := range i.devices {
		for _, g := range guest.Devices {
			if g.ID == d.ids && (g.Label == "" || g.Label == d.id) {
				found[boot.Label(d.id)] = g.Place()
			}
		}
	}
	return found
}

// node is the program's snapshot of the node: the content of files and the target
// of links.
func (r results) node(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, f := range txtar.Parse(r.file(t, "host.txtar")).Files {
		name, target, _ := strings.Cut(f.Name, " -> ")
		files[name] = target + strings.TrimSpace(string(f.Data))
	}
	return files
}

// nodeSpots are the places of the devices on the node. A mediated device is where
// its parent is.
func nodeSpots(t *testing.T, i inner, files map[string]string) map[string]tree.Spot {
	t.Helper()
	all := map[string]tree.Spot{}
	for _, d := range i.devices {
		link := files["bus/pci/devices/"+d.id]
		if d.isMediated() {
			link = strings.TrimSuffix(files["bus/mdev/devices/"+d.id], "/"+d.id)
		}
		_, path, found := strings.Cut(link, "/devices/")
		if !found {
			t.Fatalf("the snapshot has no link for %s: %q", d.id, link)
		}
		node, err := strconv.Atoi(files["devices/"+path+"/numa_node"])
		if err != nil {
			node = tree.Unknown
		}
		all[d.id] = tree.PathSpot(path, node)
	}
	return all
}

// guestSpots are the places of the devices that were found in the inner guest.
func guestSpots(guest *boot.Guest, found map[string]boot.Expected) map[string]tree.Spot {
	all := map[string]tree.Spot{}
	for id, at := range found {
		for _, g := range guest.Devices {
			if g.Address() == at.Address {
				all[id] = tree.PathSpot(g.Path, at.Node)
			}
		}
	}
	return all
}

// checkPathTypes: mirror keeps every path type; any layout keeps devices of two
// nodes apart and those of one node together. What is on no node is SYS to all.
func checkPathTypes(t *testing.T, i inner, node, guest map[string]tree.Spot) {
	t.Helper()
	var types []string
	for n, a := range i.devices {
		for _, b := range i.devices[n+1:] {
			want, got := tree.PathType(node[a.id], node[b.id]), tree.PathType(guest[boot.Label(a.id)], guest[boot.Label(b.id)])
			types = append(types, want)
			if want != got && (i.layout == "mirror" || want == "SYS" || got == "SYS") {
				t.Errorf("%s and %s: %s on the node, %s in the inner guest", a.id, b.id, want, got)
			}
		}
	}
	for _, each := range []string{"PIX", "PXB", "PHB", "NODE", "SYS"} {
		if !slices.Contains(types, each) {
			t.Errorf("no pair of the node's devices is %s, so that was not tried", each)
		}
	}
}
