package kubevirt

import (
	"fmt"
	"testing"

	"hook-sidecar/test/tree"
)

// placed is the place of each hostdev under an expander bus, by what decides it in the
// guest: the bus number and cell of the expander bus, then slot, function and hotplug of
// each bridge, no index.
func placed(t *testing.T, domain string) map[string]string {
	t.Helper()
	read, err := tree.Read([]byte(domain))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for id, h := range read.Hostdevs() {
		place := slot(h.At)
		for _, c := range read.Above(h.At) {
			switch {
			case c.Model == tree.ExpanderBus:
				all[id] = fmt.Sprintf("busNr %d cell %d%s", c.BusNr, c.Cell, place)
			case c.Hotplug != "":
				place = " hotplug=" + c.Hotplug + place
			}
			if c.At != nil {
				place = slot(c.At) + place
			}
		}
	}
	return all
}

func slot(at *tree.Address) string { return fmt.Sprintf(" > %02x.%x", at.Slot, at.Function) }
