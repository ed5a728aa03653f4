package domain

import (
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"hook-sidecar/pkg/topology"
)

// TestPrintsAsLibvirt compares printed controllers with those of libvirt's types, for
// all combinations of what a controller can have.
func TestPrintsAsLibvirt(t *testing.T) {
	cell := topology.CellID(3)
	addresses := []*GuestAddress{
		nil,
		{Bus: 0, Slot: 31, Function: 7},
		{Bus: 255, Slot: 0, Function: 1, Multifunction: true},
		{Bus: 16, Slot: 1},
	}

	count := 0
	for _, model := range []Model{
		ExpanderBus, RootPort, UpstreamPort, DownstreamPort, PCIeToPCIBridge,
	} {
		for _, index := range []int{0, 9, 255} {
			for _, alias := range []string{"", "ua-port", `ua-<&">`} {
				for _, off := range []bool{false, true} {
					for _, address := range addresses {
						for expander := range 4 {
							c := Controller{
								Index:      index,
								Model:      model,
								Alias:      alias,
								HotplugOff: off,
								Address:    address,
							}

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
	want := &libvirtxml.DomainController{
		Type:  "pci",
		Index: ptr(c.Index),
		Model: string(c.Model),
		PCI:   &libvirtxml.DomainControllerPCI{},
		Alias: newAlias(c.Alias),
	}

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
		want.Address = libvirtAddress(*c.Address)
	}

	got := printController(c)
	comparePrint(t, got, "controller", want)
	if c.Address != nil && !strings.Contains(got, fmt.Sprintf(`slot="0x%02x"`, c.Address.Slot)) {
		t.Errorf("%s has another slot than %d", got, c.Address.Slot)
	}
}

// comparePrint compares a printed element with that of one of libvirt's types.
func comparePrint(t *testing.T, got, name string, want any) {
	t.Helper()
	var expected strings.Builder
	encoder := xml.NewEncoder(&expected)
	encoder.Indent("", "\t")
	if err := encoder.EncodeElement(want,
		xml.StartElement{Name: xml.Name{Local: name}}); err != nil {
		t.Fatal(err)
	}

	if got != expected.String() {
		t.Errorf("%s, want %s", got, &expected)
	}
}

func ptr(n int) *uint { return new(uint(n)) }

func newAlias(name string) *libvirtxml.DomainAlias {
	if name == "" {
		return nil
	}
	return &libvirtxml.DomainAlias{Name: name}
}

func libvirtAddress(a GuestAddress) *libvirtxml.DomainAddress {
	pci := &libvirtxml.DomainAddressPCI{
		Domain: ptr(0), Bus: ptr(a.Bus), Slot: ptr(a.Slot), Function: ptr(a.Function),
	}

	if a.Multifunction {
		pci.MultiFunction = "on"
	}

	return &libvirtxml.DomainAddress{PCI: pci}
}

// TestPrintsIOMMUsAsLibvirt does the same for iommus.
func TestPrintsIOMMUsAsLibvirt(t *testing.T) {
	for _, driver := range []*libvirtxml.DomainIOMMUDriver{
		nil, {IntRemap: "on"}, {CachingMode: "on"}, {EIM: "on"}, {AWBits: 48},
		{IntRemap: "on", CachingMode: "on", EIM: "on", AWBits: 48},
	} {
		iommu := IOMMU{Model: "intel", Alias: "ua-iommu"}
		if driver != nil {
			iommu.IntRemap, iommu.CachingMode, iommu.EIM, iommu.AddressBits = driver.IntRemap, driver.CachingMode, driver.EIM, driver.AWBits
		}

		comparePrint(t, iommu.printWith("-suffix"), "iommu", &libvirtxml.DomainIOMMU{
			Model: "intel", Driver: driver, Alias: newAlias("ua-iommu-suffix"),
		})
	}
}
