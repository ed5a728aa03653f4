package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/test/tree"
)

// CoreTree is a tree that KubeVirt's converter makes for devices of type pci, or may come to make
// by a change that is under review. A device whose node has no cell of its own stays without an
// address.
type CoreTree string

// The trees of kubevirt/kubevirt 1.9, and of pull requests as of 2026-09.
const (
	// ExpanderPerCell: one expander bus per cell, with a root port per device (1.9's gate
	// PCINUMAAwareTopology, pkg/virt-launcher/virtwrap/converter/pci-placement.go).
	ExpanderPerCell CoreTree = "PCINUMAAwareTopology"
	// SwitchPerRoot: one expander bus per cell; a host bridge with more than one device gets a
	// root port, one upstream port and a downstream port per device, any other device a root port
	// (17025).
	SwitchPerRoot CoreTree = "17025"
	// ExpanderPerRootPort: one expander bus per root port of the host, with a root port per device
	// (19104).
	ExpanderPerRootPort CoreTree = "19104"
	// ExpanderPerRoot: one expander bus per PCIe root, with a root port per device
	// (kubevirt/enhancements 424).
	ExpanderPerRoot CoreTree = "424"
	// Flat: one root port on the root bus per device, as libvirt gives them without a gate.
	Flat CoreTree = "flat"
)

// CoreTrees are those that place devices.
var CoreTrees = []CoreTree{ExpanderPerCell, ExpanderPerRootPort, ExpanderPerRoot, SwitchPerRoot}

// coreDevice is a device that the tree places.
type coreDevice struct {
	id   string
	spot tree.Spot
	cell int
}

// expander returns the key of the device's expander bus.
func (c CoreTree) expander(d coreDevice) string {
	switch {
	case c == ExpanderPerRootPort && len(d.spot.Bridges) > 0:
		return fmt.Sprint(d.cell, d.spot.Bridges[0])
	case c == ExpanderPerRoot:
		return fmt.Sprint(d.cell, d.spot.Root)
	}

	return fmt.Sprint(d.cell)
}

// port returns the key of the device's root port: devices with one key share it, with a switch.
func (c CoreTree) port(d coreDevice) string {
	if c == SwitchPerRoot {
		return d.spot.Root
	}
	return d.id
}

// groups splits devices by a key, in the order of the first of each group.
func groups(devices []coreDevice, key func(coreDevice) string) (all [][]coreDevice) {
	for _, d := range devices {
		i := slices.IndexFunc(all, func(group []coreDevice) bool { return key(group[0]) == key(d) })
		if i < 0 {
			i, all = len(all), append(all, nil)
		}
		all[i] = append(all[i], d)
	}

	return all
}

// Domain returns the host's Domain with the tree's controllers and addresses.
func (c CoreTree) Domain(host Sysfs, numa GuestNUMA, devices []string) ([]byte, error) {
	var placed []coreDevice
	for _, id := range devices {
		spot, found, err := host.Spot(id)
		if err != nil {
			return nil, err
		}

		if cell := numa.CellOf(spot.Node); found && strings.Contains(id, ":") &&
			cell != tree.Unknown {
			placed = append(placed, coreDevice{id, spot, cell})
		}
	}

	slices.SortFunc(placed, func(a, b coreDevice) int {
		return cmp.Or(cmp.Compare(a.cell, b.cell), cmp.Compare(a.id, b.id))
	})

	b := coreBuilder{index: 1, bus: map[string]int{}}
	if c == Flat {
		for _, id := range devices {
			b.bus[id] = b.controller("pcie-root-port", "")
		}
		placed = nil
	}

	busNr := 256
	for _, under := range groups(placed, c.expander) {
		ports := groups(under, c.port)
		busNr -= 1 + len(under) + 2*len(ports) // its own, one per port, and two more per switch
		expander := b.controller("pcie-expander-bus",
			fmt.Sprintf(`<target busNr="%d"><node>%d</node></target>`, busNr, under[0].cell))
		for slot, group := range ports {
			port := b.controller("pcie-root-port", addressXML(expander, slot))
			if len(group) == 1 {
				b.bus[group[0].id] = port
				continue
			}

			upstream := b.controller("pcie-switch-upstream-port", addressXML(port, 0))
			for i, d := range group {
				b.bus[d.id] = b.controller("pcie-switch-downstream-port", addressXML(upstream, i))
			}
		}
	}

	text := string(Domain(numa, devices))
	for i, id := range devices {
		if bus, isPlaced := b.bus[id]; isPlaced {
			alias := fmt.Sprintf("\t\t\t<alias name=\"ua-hostdevice-%d\">", i)
			text = strings.Replace(text, alias, "\t\t\t"+addressXML(bus, 0)+"\n"+alias, 1)
		}
	}

	return []byte(strings.Replace(text, "\t<devices>\n", "\t<devices>\n"+b.xml.String(), 1)), nil
}

// coreBuilder writes controllers in the order of their indexes.
type coreBuilder struct {
	xml   strings.Builder
	index int            // of the next
	bus   map[string]int // of devices
}

// controller adds a controller and returns its index.
func (b *coreBuilder) controller(model, inner string) int {
	fmt.Fprintf(&b.xml, "\t\t<controller type=\"pci\" index=\"%d\" model=\"%s\">%s</controller>\n",
		b.index, model, inner)
	b.index++
	return b.index - 1
}

func addressXML(bus, slot int) string {
	return fmt.Sprintf(`<address type="pci" domain="0x0000" bus="0x%02x" slot="0x%02x" function="0x0"></address>`, bus, slot)
}
