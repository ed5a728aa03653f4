package e2e

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/tree"
)

// ReadSnapshot is a snapshot by the program under test: the content of files and the
// target of links.
func ReadSnapshot(data []byte) map[string]string {
	files := map[string]string{}
	for _, f := range txtar.Parse(data).Files {
		name, target, _ := strings.Cut(f.Name, " -> ")
		files[name] = target + strings.TrimSpace(string(f.Data))
	}
	return files
}

// NodeSpots are the places of devices on the node, of which this is a snapshot. A
// mediated device is where its parent is.
func NodeSpots(files map[string]string, devices []Device) (map[string]tree.Spot, error) {
	all := map[string]tree.Spot{}
	for _, d := range devices {
		link := files["bus/pci/devices/"+d.ID]
		if d.isMediated() {
			link = strings.TrimSuffix(files["bus/mdev/devices/"+d.ID], "/"+d.ID)
		}
		_, path, found := strings.Cut(link, "/devices/")
		if !found {
			return nil, fmt.Errorf("read snapshot of the node: no link for %s: %q", d.ID, link)
		}
		node, err := strconv.Atoi(files["devices/"+path+"/numa_node"])
		if err != nil {
			node = tree.Unknown
		}
		all[d.ID] = tree.PathSpot(path, node)
	}
	return all, nil
}

// GuestSpots are the places of those devices that the guest shows.
func GuestSpots(guest *boot.Guest, devices []Device) map[string]tree.Spot {
	all := map[string]tree.Spot{}
	for _, d := range devices {
		for _, g := range guest.Devices {
			if d.is(g) {
				all[d.ID] = tree.PathSpot(g.Path, g.Node)
			}
		}
	}
	return all
}

// is reports whether the guest shows this device: NVMe devices are known by their
// serial number, the others by their kind, one of each.
func (d Device) is(g boot.Device) bool { return g.ID == d.IDs && (g.Label == "" || g.Label == d.ID) }
