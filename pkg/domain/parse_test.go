package domain_test

import (
	"errors"
	"strings"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	got := parse(t, `<?xml version="1.0"?>
<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <metadata><devices><hostdev type='pci'><source><address bus='9'/></source></hostdev></devices><kubevirt xmlns='http://kubevirt.io'><uid>5b1c</uid></kubevirt></metadata>
  <name>a&amp;b</name>
  <memory unit='GiB'>3</memory>
  <os><type arch='x86_64' machine='pc-q35-9.2'>hvm</type><loader type='pflash'>f</loader></os>
  <cpu><model fallback='allow'> EPYC-Milan </model><vendor>AMD</vendor><numa><cell id='1' cpus='4-7'/><cell cpus=''/></numa></cpu>
  <numatune><memnode cellid='1' nodeset='0-1'/></numatune>
  <cputune><vcpupin vcpu='3' cpuset='2,^4'/><emulatorpin cpuset='1'/></cputune>
  <launchSecurity type='sev'/>
  <devices>
    <controller type='pci' index='0' model='pcie-root'><pcihole64 unit='KiB'>0</pcihole64></controller>
    <controller type='pci' model='pcie-root-port'><address type='pci' slot='010' function='0x0' multifunction='on'/></controller>
    <controller type='pci' index='1' model='pcie-expander-bus'>
      <target busNr='0xfe'><node> 1 </node></target>
      <alias name='ua-pxb'/><address type='pci' domain='0x0000' bus='0x00' slot='28' function='0'/>
    </controller>
    <controller type='pci' index='3' model='pcie-root-port'><target hotplug='off' busNr='7'/></controller>
    <controller type='usb' index='0' model='none'/>
    <hostdev type="pci" managed="no">
      <source><address type="pci" domain="0x10000" bus="0X1B" slot="0x1f" function="0x7"/></source>
      <alias name="ua-gpu-1"/>
    </hostdev>
    <hostdev mode='subsystem' type='mdev' model='vfio-pci' display='on' ramfb='on'>
      <source><address uuid='4A1F0B5C-6C3E-4F5A-9D0E-3B1C7F2A9E01'/></source>
      <address type='pci' domain='0' bus='0x03' slot='0' function='0'/>
    </hostdev>
    <hostdev mode='subsystem' type='usb'><source><address bus='3' device='7'/></source><alias name='ua-usb-host-key'/></hostdev>
    <memballoon model='none'/>
    <iommu model='intel'/>
  </devices>
</domain>`)

	want := &domain.Domain{
		Name: "a&b", UID: "5b1c",
		Arch: "x86_64", Machine: "pc-q35-9.2", UEFI: true, MemoryBytes: 3 << 30,
		CPUVendor: "AMD", CPUModel: "EPYC-Milan",
		// the second by its position
		Cells:    []domain.Cell{{ID: 1, CPUs: "4-7"}, {ID: 1, CPUs: ""}},
		Memnodes: []domain.Memnode{{Cell: 1, Nodeset: "0-1"}},
		Pins:     []domain.VCPUPin{{VCPU: 3, CPUSet: "2,^4"}},
		Controllers: []domain.Controller{
			{Index: 0, Model: domain.PCIeRoot},
			// 2 is the lowest index that no other has; 010 is octal.
			{
				Index: 2, NoIndex: true, Model: domain.RootPort, AddressType: "pci",
				Address: &domain.GuestAddress{Slot: 8, Multifunction: true},
			},
			{
				Index: 1, Model: domain.ExpanderBus, AddressType: "pci",
				Address: &domain.GuestAddress{Slot: 0x1c}, BusNr: ptr(0xfe),
				Cell: ptr(topology.CellID(1)), Alias: "ua-pxb",
			},
			{Index: 3, Model: domain.RootPort, HotplugOff: true},
		},
		Hostdevs: []domain.Hostdev{
			{ID: pci("10000:1b:1f.7"), Alias: "ua-gpu-1"},
			{ID: mdev(uuid), HasMode: true, Address: &domain.GuestAddress{
				Bus: 3,
			}, Display: true, RamFB: true},
		},
		Others: []domain.Device{
			{Element: "controller", Type: "usb", Model: "none", Index: "0"},
			{Element: "hostdev", Type: "usb", Mode: "subsystem", Alias: "ua-usb-host-key",
				Hostdevs: 2},
			{Element: "memballoon", Model: "none"},
			{Element: "iommu", Model: "intel"},
		},
		HostdevAliases: []string{"ua-gpu-1", "ua-usb-host-key"},
		Fragments:      []domain.Fragment{domain.IOMMU{Model: "intel"}}, LaunchSecurity: true,
		PCIHole64: new(uint64),
	}

	if diff := cmp.Diff(want, got, equal); diff != "" {
		t.Errorf("read model (-want +got):\n%s", diff)
	}
}

// TestParseGrace reads the elements that KubeVirt's gate for Grace writes.
func TestParseGrace(t *testing.T) {
	const hostdev = `<hostdev type='pci'><source><address bus='0x17'/></source>` +
		`<acpi nodeset='1-8'/>`
	got := parse(t, `<domain><iommufd enabled='yes'/><cpu><numa><cell cpus='0-3' memory='0'/><cell memory='0'/><cell memory='8'/><cell/></numa></cpu>
<devices><controller type='pci' index='0' model='pcie-root'><pcihole64 unit='TiB'>1</pcihole64></controller>`+
		hostdev+`</hostdev>`+hostdev+`<driver iommufd='no'/></hostdev>
<iommu model='smmuv3'><driver pciBus='1' accel='on'/></iommu></devices></domain>`)

	want := []domain.Hostdev{
		// it may differ from the domain's
		{ID: pci("0000:17:00.0"), Nodeset: "1-8", IOMMUFD: true},
		{ID: pci("0000:17:00.0"), Nodeset: "1-8"},
	}

	if diff := cmp.Diff(want, got.Hostdevs, equal); diff != "" {
		t.Errorf("hostdevs (-want +got):\n%s", diff)
	}

	bare := []bool{false, true, false, false} // the last has no size, which is not 0
	for i, c := range got.Cells {
		if c.IsBare() != bare[i] {
			t.Errorf("cell %d is bare: %v", c.ID, c.IsBare())
		}
	}

	if smmu := got.IOMMUs()[0]; !smmu.Accel || smmu.PCIBus != "1" || *got.PCIHole64 != 1<<40 {
		t.Errorf("iommu %+v, pcihole64 %d", smmu, *got.PCIHole64)
	}
}

// Units of libvirt's formatdomain.rst, memory.
func TestParseMemory(t *testing.T) {
	for unit, want := range map[string]uint64{
		"": 2 << 10, " unit='b'": 2, " unit='bytes'": 2, " unit='KB'": 2000, " unit='k'": 2 << 10,
		" unit='KiB'": 2 << 10,
		" unit='MB'":  2_000_000, " unit='M'": 2 << 20, " unit='MiB'": 2 << 20,
		" unit='GB'": 2_000_000_000, " unit='G'": 2 << 30,
		" unit='TiB'": 2 << 40, " unit='p'": 2 << 50, " unit='EB'": 2_000_000_000_000_000_000,
	} {
		if got := parse(t, "<domain><memory"+unit+">2</memory></domain>").MemoryBytes; got != want {
			t.Errorf("memory%s is %d bytes, want %d", unit, got, want)
		}
	}
}

func TestParseFirmware(t *testing.T) {
	for os, want := range map[string]bool{
		"": false, "<os/>": false, "<os firmware='efi'/>": true, "<os firmware='bios'/>": false,
		"<os><loader type='pflash'/></os>": true, "<os><loader type='rom'/></os>": false,
		"<os><loader type='rom'/></os><launchSecurity type='tdx'/>": true,
		"<launchSecurity type='sev'/>":                              false,
	} {
		if got := parse(t, "<domain>"+os+"</domain>").UEFI; got != want {
			t.Errorf("%s: UEFI %v, want %v", os, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	device := func(s string) string { return "<domain>\n<devices>\n" + s + "\n</devices></domain>" }
	port := func(s string) string {
		return device("<controller type='pci' index='1' model='pcie-root-port'>\n" + s +
			"</controller>")
	}

	for _, test := range []struct {
		name, src    string
		line, column int
		reason       string // a part of it
	}{
		{"not XML", "<domain>", 1, 1, "never closed"},
		{"other root", "\n<network/>", 2, 1, "the root element is <network>"},
		{"domain of another namespace", "<q:domain xmlns:q='urn:q'/>", 1, 1,
			`<q:domain> in namespace "urn:q"`},
		{"domain of another default namespace", "<domain xmlns='urn:q'/>", 1, 1,
			`<domain> in namespace "urn:q"`},
		{"index in hex", device("<controller type='pci' index='0x1'/>"), 3, 31,
			`attribute index of <controller>: invalid number "0x1": must be between 0 and 255`},
		{"index too high", device("<controller type='pci' index='256'/>"), 3, 31,
			"attribute index of <controller>"},
		{"index negative", device("<controller type='pci' index='-1'/>"), 3, 31,
			"attribute index of <controller>"},
		{"busNr",
			device("<controller type='pci' model='pcie-expander-bus'><target busNr='255'/>" +
				"</controller>"), 3, 65, "attribute busNr of <target>"},
		{"node",
			device("<controller type='pci' model='pcie-expander-bus'><target><node>a</node>" +
				"</target></controller>"), 3, 64, `text of <node>: invalid number "a"`},
		{"hole", device("<controller type='pci' index='0'>\n<pcihole64>x</pcihole64></controller>"),
			4, 12, "text of <pcihole64>"},
		{"domain of the guest", port("<address type='pci' domain='1'/>"), 4, 29,
			"attribute domain of <address>"},
		{"bus", port("<address type='pci' bus='0a'/>"), 4, 26,
			`attribute bus of <address>: invalid number "0a"`},
		{"octal", port("<address type='pci' bus='08'/>"), 4, 26,
			`attribute bus of <address>: invalid number "08"`},
		{"underscore", port("<address type='pci' bus='1_0'/>"), 4, 26,
			`attribute bus of <address>: invalid number "1_0"`},
		{"slot", port("<address type='pci' slot='0x20'/>"), 4, 27, "attribute slot of <address>"},
		{"function", port("<address type='pci' function='8'/>"), 4, 31,
			"attribute function of <address>"},
		{"source", device("<hostdev type='pci'><source><address bus='0x100'/></source></hostdev>"),
			3, 43, "attribute bus of <address>"},
		{"source domain of nine digits",
			device("<hostdev type='pci'><source><address domain='0x100000000'/></source></hostdev>"), 3, 46, "attribute domain of <address>"},
		{"disk", device("<disk><target bus='virtio'/><address type='pci' slot='x'/></disk>"), 3, 55,
			"attribute slot of <address>"},
		{"pciBus", device("<iommu><driver pciBus='pci.1'/></iommu>"), 3, 24,
			"attribute pciBus of <driver>"},
		{"cell", "<domain><cpu><numa><cell id='one'/></numa></cpu></domain>", 1, 30,
			"attribute id of <cell>"},
		{"memnode", "<domain><numatune><memnode/></numatune></domain>", 1, 19,
			"<memnode> has no attribute cellid"},
		{"pin", "<domain><cputune><vcpupin vcpu='0x1'/></cputune></domain>", 1, 33,
			"attribute vcpu of <vcpupin>"},
		{"memory", "<domain><memory>4G</memory></domain>", 1, 17,
			`text of <memory>: invalid number "4G"`},
		{"unit", "<domain><memory unit='GIB!'>4</memory></domain>", 1, 23,
			`attribute unit of <memory>: invalid unit "GIB!"`},
		{"too much memory", "<domain><memory unit='EiB'>16</memory></domain>", 1, 9,
			"larger than 64 bits"},
		{"two addresses",
			device("<hostdev type='pci'><source><address bus='1'/></source><address/>\n" +
				"<address/></hostdev>"), 4, 1, "<hostdev> has two <address>"},
		{"two sources",
			device("<hostdev type='pci'><source><address bus='1'/></source>\n<source/></hostdev>"),
			4, 1, "<hostdev> has two <source>"},
		{"two aliases",
			device("<hostdev type='pci'><source><address bus='1'/></source><alias/>\n" +
				"<alias/></hostdev>"), 4, 1, "<hostdev> has two <alias>"},
		{"two addresses of a source",
			device("<hostdev type='pci'><source><address bus='1'/>\n<address bus='2'/></source>" +
				"</hostdev>"), 4, 1, "<source> has two <address>"},
		{"two addresses of a port", port("<address type='pci' slot='1'/>\n<address/>"), 5, 1,
			"<controller> has two <address>"},
		{"two targets", port("<target/>\n<target/>"), 5, 1, "<controller> has two <target>"},
		{"a long value is cut",
			device("<controller type='pci' index='" + strings.Repeat("1", 90) + "'/>"), 3, 31,
			strings.Repeat("1", 40) + "…"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := domain.Parse([]byte(test.src))
			var at *domain.Error
			if !errors.As(err, &at) {
				t.Fatalf("Parse: error %v, want an *Error", err)
			}

			if at.Line != test.line || at.Column != test.column ||
				!strings.Contains(at.Reason, test.reason) {
				t.Errorf("Parse: %v; want line %d, column %d: …%s…", err, test.line, test.column,
					test.reason)
			}
		})
	}
}
