package peer_test

import (
	"fmt"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/peer"
	"hook-sidecar/test/expect"
)

// TestNear: the pairs are those of a NIC or drive and a GPU under one switch, in groups by cause.
func TestNear(t *testing.T) {
	const others = `pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:02.0 class=0x060400 acs=default
pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:02.0/0000:15:00.0 class=0x010802 ats=none
pci0000:30/0000:30:01.0 class=0x060400 acs=default
pci0000:30/0000:30:01.0/0000:16:00.0 class=0x020000 ats=none`
	read, _ := host.Read(expect.Host(t, two+others), nil, host.All|host.Details)
	var ids []topology.DeviceID
	for bus := range uint8(4) {
		ids = append(ids, topology.PCIDevice(topology.Address{Bus: 0x13 + bus}))
	}

	var got []string
	for _, g := range peer.ByCause(peer.Near(read, read.Tree(ids), ids, peer.Guest{})) {
		got = append(got, fmt.Sprint(g.Cause, g.Requesters(), g.Functions))
	}

	expect.Same(t, []string{
		"no-ats[0000:15:00.0] [0000:15:00.0]",
		"no-direct-translated[0000:13:00.0] [0000:12:00.0]",
	}, got, "groups (-want +got)")
}

// TestIOMMUFD: before Linux 6.19 iommufd maps no BARs, and later QEMU's version decides, which is
// not known.
func TestIOMMUFD(t *testing.T) {
	for kernel, want := range map[string]peer.Cause{
		"":                      peer.CauseMappingUnknown,
		"kernel 5.14.0-611.el9": peer.CauseNotMapped,
		"kernel 6.18.3":         peer.CauseNotMapped,
		"kernel 6.19.0-rc1":     peer.CauseMappingUnknown,
		"kernel 7.2.12+deb14":   peer.CauseMappingUnknown,
	} {
		read, _ := host.Read(expect.Host(t, two+kernel), nil, host.All|host.Details)
		guest := peer.Guest{UsesIOMMUFD: func(topology.DeviceID) bool { return true }}
		nic := topology.PCIDevice(topology.Address{Bus: 0x13})
		gpu := topology.PCIDevice(topology.Address{Bus: 0x14})
		if a := peer.Judge(peer.Between(read, nic, gpu, guest)); a.Cause != want {
			t.Errorf("%q: %s, want %s", kernel, a.Cause, want)
		}
	}
}
