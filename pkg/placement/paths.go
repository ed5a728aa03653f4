package placement

import (
	"fmt"
	"strconv"

	"hook-sidecar/pkg/topology"
)

// paths are the path types between the devices, on the host and as the guest
// will see them.
func (b *builder) paths(t *tree) Paths {
	host := make([]topology.Place, len(b.devices))
	guest := make([]topology.Place, len(b.devices))
	for i, d := range b.devices {
		host[i], guest[i] = hostPlace(d), guestPlace(t, d)
	}
	return Paths{Host: matrix(host), Guest: matrix(guest)}
}

func matrix(places []topology.Place) [][]topology.PathType {
	rows := make([][]topology.PathType, len(places))
	for i, a := range places {
		rows[i] = make([]topology.PathType, len(places))
		for j, b := range places {
			rows[i][j] = topology.Class(a, b)
			if i == j {
				rows[i][j] = topology.Self
			}
		}
	}
	return rows
}

func hostPlace(d *device) topology.Place {
	if d.Function == nil {
		return topology.Place{Root: "unknown " + d.ID.String()}
	}
	slot := d.Function.Address
	slot.Function = 0
	place := topology.Place{Root: string(d.PCIeRoot), Slot: slot.String()}
	for _, bridge := range d.HostPath {
		place.Bridges = append(place.Bridges, bridge.String())
	}
	if node, known := d.HostNode.Node(); known {
		place.Node = new(int(node))
	}
	return place
}

// guestPlace is where a device stands after the changes. One without an address
// gets a root port of its own on the main bus.
func guestPlace(t *tree, d *device) topology.Place {
	if d.Address == nil {
		return topology.Place{Root: "main bus", Bridges: []string{"port of " + d.ID.String()}, Slot: d.ID.String()}
	}
	place := topology.Place{Root: "main bus", Slot: fmt.Sprintf("%d/%d", d.Address.Bus, d.Address.Slot)}
	path := d.GuestPath
	if e := t.expander(d.Address.Bus); e != nil {
		place.Root, path = strconv.Itoa(e.Index), path[1:]
		if e.Cell != nil {
			place.Node = new(int(*e.Cell))
		}
	}
	for _, index := range path {
		place.Bridges = append(place.Bridges, strconv.Itoa(index))
	}
	return place
}
