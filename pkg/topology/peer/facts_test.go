package peer_test

import (
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/peer"
	"hook-sidecar/test/expect"
)

// two has a NIC and a GPU under one switch, as Linux leaves it, on a 4th gen Xeon.
const two = `pci0000:10/0000:10:00.0 class=0x088000 vendor=0x8086 device=0x09a2
pci0000:10/0000:10:01.0 class=0x060400 vendor=0x8086 device=0x352a acs=default
pci0000:10/0000:10:01.0/0000:11:00.0 class=0x060400 acs=none
pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0 class=0x060400 acs=default
pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0 class=0x060400 acs=default
pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0 class=0x020700 ats=on group=1
pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:14:00.0 ats=none group=2
`

// roots has a NIC and a GPU on root ports of two root buses.
const roots = `pci0000:10/0000:10:01.0 class=0x060400 vendor=0x8086 device=0x352a acs=default
pci0000:10/0000:10:01.0/0000:13:00.0 class=0x020700 ats=none
pci0000:30/0000:30:01.0 class=0x060400 vendor=0x8086 device=0x352a acs=default
pci0000:30/0000:30:01.0/0000:14:00.0 ats=none
`

// TestBetween: the facts come from a host's sysfs, read for the two devices alone.
func TestBetween(t *testing.T) {
	const first, second = "pci0000:10/0000:10:00.0 class=0x088000 ",
		"\npci0000:30/0000:30:00.0 class=0x088000 "
	change := func(replacements ...string) string {
		return strings.NewReplacer(replacements...).Replace(two)
	}

	for name, test := range map[string]struct{ host, want string }{
		"as Linux leaves it": {two, "through the root complex no-direct-translated [0000:12:00.0]"},
		"the NIC without ATS": {change("ats=on", "ats=none"),
			"through the root complex no-ats [0000:13:00.0]"},
		"Direct Translated": {change("12:00.0 class=0x060400 acs=default",
			"12:00.0 class=0x060400 acs=default,dt"), "ready direct []"},
		"ACS off": {change("acs=default", "acs=off"),
			"not ready not-isolated [0000:12:00.0 0000:12:01.0 0000:10:01.0]"},
		"a switch without ACS": {change("12:01.0 class=0x060400 acs=default",
			"12:01.0 class=0x060400 acs=none"), "not ready not-isolated [0000:12:01.0]"},
		"a root port without ACS": {change("0x352a acs=default", "0x352a acs=none"),
			"through the root complex no-direct-translated [0000:12:00.0]"},
		"one group": {change("group=2", "group=1"), "not ready same-group []"},
		"not as root": {change("acs=default", "", "acs=none", "", "ats=on", "", "ats=none", ""),
			"unknown unreadable [0000:12:00.0 0000:12:01.0 0000:10:01.0 0000:13:00.0]"},
		"another first function": {change("0x09a2", "0x4c43"), "not ready root-complex-refuses []"},
		"no first function": {strings.Join(strings.SplitAfter(two, "\n")[1:], ""),
			"unknown root-complex-unknown []"},

		"two roots": {first + "vendor=0x8086 device=0x09a2\n" + roots + second +
			"vendor=0x8086 device=0x09a2", "through the root complex no-ats [0000:13:00.0]"},
		"two roots of an older Xeon": {first + "vendor=0x8086 device=0x2f00\n" + roots + second +
			"vendor=0x8086 device=0x2f00", "not ready root-complex-refuses []"},
		"one root of an older Xeon": {change("0x09a2", "0x2f00"),
			"through the root complex no-direct-translated [0000:12:00.0]"},
		"two roots, one not shown": {first + "vendor=0x8086 device=0x09a2\n" + roots,
			"unknown root-complex-unknown []"},
		"Zen": {"cpu x86,ven0002fam0019mod0011\n" + roots,
			"through the root complex no-ats [0000:13:00.0]"},
		"AMD before Zen": {"cpu x86,ven0002fam0015mod0002\n" + first +
			"vendor=0x1022 device=0x1576\n" + roots + second + "vendor=0x1022 device=0x1576",
			"not ready root-complex-refuses []"},
		"AMD, CPU not recorded": {first + "vendor=0x1022 device=0x14a4\n" + roots + second +
			"vendor=0x1022 device=0x14a4", "unknown root-complex-unknown []"},
		"another architecture": {"cpu aarch64\n" + first + "vendor=0x1d0f device=0x0200\n" + roots +
			second + "vendor=0x1d0f device=0x0200", "not ready root-complex-refuses []"},

		"Grace": {strings.ReplaceAll(roots, "vendor=0x8086 device=0x352a",
			"vendor=0x10de device=0x22b2"), "unknown grace []"},
		"Vera": {strings.NewReplacer("vendor=0x8086 device=0x352a", "vendor=0x10de device=0x2f95",
			"acs=default", "acs=sv,rr,uf").Replace(roots), "through the root complex vera []"},
		"part of the root complex": {"pci0000:10/0000:13:00.0\npci0000:10/0000:14:00.0",
			"unknown root-complex-device []"},
		"conventional PCI": {`pci0000:10/0000:10:01.0/0000:11:00.0/0000:13:00.0
pci0000:10/0000:10:02.0/0000:14:00.0`, "unknown conventional-bridge []"},
		"two functions of a card": {
			"pci0000:10/0000:10:01.0/0000:13:00.0\npci0000:10/0000:10:01.0/0000:14:00.0",
			"unknown one-device []"},
		"elsewhere": {"pci0000:10/0000:10:01.0/0000:13:00.0", "unknown not-shown []"},
	} {
		nic := topology.PCIDevice(topology.Address{Bus: 0x13})
		gpu := topology.PCIDevice(topology.Address{Bus: 0x14})
		read, _ := host.Read(expect.Host(t, test.host), []topology.DeviceID{nic, gpu},
			host.Related|host.Details)
		a := peer.Judge(peer.Between(read, nic, gpu, peer.Guest{}))
		expect.Same(t, test.want, fmt.Sprintf("%s %s %v", a.Cause.Readiness(), a.Cause, a.Functions),
			"%s (-want +got)", name)
	}
}

// TestAddressRange: BARs right below 1 TiB are mapped by Intel's IOMMU, and not by AMD's.
func TestAddressRange(t *testing.T) {
	for cpu, want := range map[string]peer.Cause{
		"cpu x86,ven0002fam0019mod0011\n": peer.CauseAddressRange,
		"cpu x86,ven0000fam0006mod008F\n": peer.CauseRootUnknown,
	} {
		read, _ := host.Read(expect.Host(t, cpu+roots), nil, host.All|host.Details)
		nic := topology.PCIDevice(topology.Address{Bus: 0x13})
		gpu := topology.PCIDevice(topology.Address{Bus: 0x14})
		a := peer.Judge(peer.Between(read, nic, gpu, peer.Guest{PhysBits: 40}))
		expect.Same(t, want, a.Cause, "%s (-want +got)", cpu)
	}
}

// TestBetweenOfVF: a virtual function's own ATS counts (Linux drivers/pci/ats.c, pci_ats_init).
func TestBetweenOfVF(t *testing.T) {
	const vf = "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.4 class=0x020700 " +
		"physfn=0000:13:00.0 "
	nic := topology.PCIDevice(topology.Address{Bus: 0x13, Function: 4})
	gpu := topology.PCIDevice(topology.Address{Bus: 0x14})
	for ats, want := range map[string]peer.Cause{
		"none": peer.CauseNoATS, "on": peer.CauseNoDirectTranslated,
	} {
		read, _ := host.Read(expect.Host(t, two+vf+"ats="+ats), []topology.DeviceID{nic, gpu},
			host.Related|host.Details)
		if a := peer.Judge(peer.Between(read, nic, gpu, peer.Guest{})); a.Cause != want {
			t.Errorf("a VF with ats=%s: %v, want %s", ats, a, want)
		}
	}
}
