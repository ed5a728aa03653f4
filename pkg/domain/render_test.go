package domain

import (
	"fmt"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// TestPrintsAsLibvirt compares printed controllers with those of libvirt's types, for
// all combinations of what a controller can have.
func TestPrintsAsLibvirt(t *testing.T) {
	cell := topology.CellID(3)
	addresses := []*GuestAddress{nil, {Bus: 0, Slot: 31, Function: 7}, {Bus: 255, Slot: 0, Function: 1, Multifunction: true}, {Bus: 16, Slot: 1}}
	count := 0
	for _, model := range []Model{ExpanderBus, RootPort, UpstreamPort, DownstreamPort, PCIeToPCIBridge} {
		for _, index := range []int{0, 9, 255} {
			for _, alias := range []string{"", "ua-port", `ua-<&">`} {
				for _, off := range []bool{false, true} {
					for _, address := range addresses {
						for expander := range 4 {
							c := Controller{Index: index, Model: model, Alias: alias, HotplugOff: off, Address: address}
							if model == ExpanderBus && expander&1 != 0 {
								c.BusNr = new(254)
							}
							if model == ExpanderBus && expander&2 != 0 {
								c.Cell = &cell
							}
							comparePrinted(t, c)
							count++
						}
					}
				}
			}
		}
	}
	if count != 5*3*3*2*4*4 {
		t.Errorf("%d combinations", count)
	}
}

func comparePrinted(t *testing.T, c Controller) {
	t.Helper()
	want := &libvirtxml.DomainController{Type: "pci", Index: ptr(c.Index), Model: string(c.Model), PCI: &libvirtxml.DomainControllerPCI{}, Alias: newAlias(c.Alias)}
	if c.BusNr != nil || c.Cell != nil || c.HotplugOff {
		want.PCI.Target = &libvirtxml.DomainControllerPCITarget{}
	}
	if c.BusNr != nil {
		want.PCI.Target.BusNr = ptr(*c.BusNr)
	}
	if c.Cell != nil {
		want.PCI.Target.NUMANode = ptr(int(*c.Cell))
	}
	if c.HotplugOff {
		want.PCI.Target.Hotplug = "off"
	}
	if c.Address != nil {
		var err error
		if want.Address, err = newAddress(*c.Address); err != nil {
			t.Fatal(err)
		}
	}
	expected, err := newRenderer().write("controller", want)
	expect.NoError(t, err)
	got, err := printController(c)
	if err != nil || got != expected {
		t.Errorf("%s, error %v, want %s", got, err, expected)
	}
	if c.Address != nil && !strings.Contains(got, fmt.Sprintf(`slot="0x%02x"`, c.Address.Slot)) {
		t.Errorf("%s has another slot than %d", got, c.Address.Slot)
	}
}
