package e2e

import (
	"fmt"

	"hook-sidecar/pkg/host"
	"hook-sidecar/test/boot"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/tree"
)

// NodeSpots returns the places of devices on a node, of which this is a snapshot. A mediated
// device is where its parent is, and nowhere if that is not a PCI device.
func NodeSpots(snapshot []byte, devices []Device) (map[string]tree.Spot, error) {
	files, err := host.ParseSnapshot(snapshot)
	if err != nil {
		return nil, err
	}

	all := map[string]tree.Spot{}
	for _, d := range devices {
		spot, found, err := matrix.Sysfs{FS: files}.Spot(d.ID)
		if err != nil || !found && !d.isMediated() {
			return nil, fmt.Errorf("find %s in the snapshot of the node: %t, %w", d.ID, found, err)
		}

		if !found {
			spot.Node = tree.Unknown
		}

		all[d.ID] = spot
	}

	return all, nil
}

// GuestSpots returns the places of those devices that the guest shows.
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

// Seen returns where the guest shows each of these devices.
func Seen(devices []Device, guest *boot.Guest) map[string]boot.Expected {
	found := map[string]boot.Expected{}
	for _, d := range devices {
		for _, g := range guest.Devices {
			if d.is(g) {
				found[boot.Label(d.ID)] = g.Place()
			}
		}
	}

	return found
}

// is reports whether the guest shows this device: NVMe devices are known by their
// serial number, the others by their kind, one of each.
func (d Device) is(g boot.Device) bool {
	return g.ID == d.IDs && (g.Label == "" || g.Label == d.ID)
}
