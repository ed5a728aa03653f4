package kubevirt

import (
	"fmt"
	"testing"

	"hook-sidecar/test/tree"
)

// readTree reads a domain's tree.
func readTree(t *testing.T, domain []byte) *tree.Tree {
	t.Helper()
	read, err := tree.Read(domain)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// place is the place of an address by what decides it in the guest: the bus
// number and cell of the expander bus, then slot, function and hotplug of each
// bridge, no index. Without an expander bus it begins with "root bus".
func place(read *tree.Tree, at *tree.Address) string {
	slot := func(at *tree.Address) string { return fmt.Sprintf(" > %02x.%x", at.Slot, at.Function) }
	place := slot(at)
	for _, c := range read.Above(at) {
		switch {
		case c.Model == tree.ExpanderBus:
			return fmt.Sprintf("busNr %d cell %d%s", c.BusNr, c.Cell, place)
		case c.Hotplug != "":
			place = " hotplug=" + c.Hotplug + place
		}
		if c.At != nil {
			place = slot(c.At) + place
		}
	}
	return "root bus" + place
}

// placed is the place of each hostdev under an expander bus.
func placed(t *testing.T, domain []byte) map[string]string {
	t.Helper()
	read := readTree(t, domain)
	all := map[string]string{}
	for id, h := range read.Hostdevs() {
		if read.RootBus(h.At) != 0 {
			all[id] = place(read, h.At)
		}
	}
	return all
}

// others is the place of each disk, NIC and controller that is not a PCI bridge,
// for those that have one.
func others(t *testing.T, domain []byte) map[string]string {
	t.Helper()
	read := readTree(t, domain)
	all := map[string]string{}
	for _, d := range read.Devices {
		isOther := d.Name == "disk" || d.Name == "interface" || d.Name == "controller" && d.Attr("type") != "pci"
		if isOther && d.At != nil {
			all[d.Label] = place(read, d.At)
		}
	}
	return all
}
