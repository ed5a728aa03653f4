package firmware_test

import (
	"fmt"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/keys/firmware"
	"hook-sidecar/pkg/topology"
)

// TestLow: 8 switches with 2 or 8 devices that have a BAR of 16 KiB below 4 GiB, as booted with
// QEMU 10.0 and 11.1, SeaBIOS 1.16, OVMF 2025.02 and 2026.08: the sum of the root ports' windows
// in MiB.
func TestLow(t *testing.T) {
	for _, tt := range []struct {
		devices          int
		uefi, hotplugOff bool
		without, with    uint64 // links of the switch ports
	}{
		{2, false, false, 32, 64},
		{2, true, false, 32, 48},
		{8, false, false, 128, 160},
		{8, true, false, 128, 144},
		{8, true, true, 64, 80},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			plain, linked := switches(tt.devices, tt.uefi, tt.hotplugOff,
				false), switches(tt.devices, tt.uefi, tt.hotplugOff, true)
			if all, ports := plain.Low(); all != tt.without<<20 || ports != 0 {
				t.Errorf("without links %d MiB, %d for ports, want %d", all>>20, ports>>20,
					tt.without)
			}

			if all, ports := linked.Low(); all != tt.with<<20 || ports != (tt.with-tt.without)<<20 {
				t.Errorf("with links %d MiB, %d for ports, want %d", all>>20, ports>>20, tt.with)
			}
		})
	}
}

// switches returns a guest with 8 root ports, each with a switch with some devices.
func switches(devices int, uefi, hotplugOff, linked bool) firmware.Input {
	d := &domain.Domain{UEFI: uefi}
	tree := topology.NewTree(8*devices, 0)
	guest := firmware.Input{Domain: d, Tree: tree}
	add := func(parent *topology.Node, kind topology.NodeKind, model domain.Model,
		driver string) *topology.Node {
		c := domain.Controller{Index: len(d.Controllers), Model: model, HotplugOff: hotplugOff}
		d.Controllers = append(d.Controllers, c)
		if linked && driver != "" {
			d.Fragments = append(d.Fragments, domain.PortOverride{
				Alias: c.QEMUAlias(), Driver: driver,
			})
		}

		return tree.Add(parent, topology.Node{Kind: kind, ID: topology.Index(c.Index)})
	}

	root := add(nil, topology.Root, domain.PCIeRoot, "")
	for i := range 8 {
		upstream := add(add(root, topology.RootPort, domain.RootPort, ""), topology.UpstreamPort,
			domain.UpstreamPort, "cxl-upstream")
		for slot := range devices {
			address := topology.Address{Bus: uint8(1 + i), Device: uint8(slot)}
			guest.Functions = append(guest.Functions, &topology.Function{
				Address: address, BARs: []topology.BAR{{Bytes: 16 << 10}},
			})

			port := add(upstream, topology.DownstreamPort, domain.DownstreamPort, "cxl-downstream")
			tree.Add(port, topology.Node{Kind: topology.Endpoint, ID: topology.PCIDevice(address)})
		}
	}

	return guest
}
