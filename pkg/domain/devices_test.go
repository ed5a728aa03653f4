package domain_test

import (
	"testing"

	"hook-sidecar/pkg/domain"

	"github.com/google/go-cmp/cmp"
)

func TestParseHostdevs(t *testing.T) {
	const source = `<source><address domain='0x0000' bus='0x17' slot='0x00' function='0x0'/>` +
		`</source>`
	id := pci("0000:17:00.0")
	for _, test := range []struct {
		name, xml string
		want      []domain.Hostdev
		others    []domain.Device
	}{
		{"no mode", `<hostdev type='pci'>` + source + `</hostdev>`, []domain.Hostdev{{ID: id}},
			nil},
		{"mode", `<hostdev mode='subsystem' type='pci'>` + source + `</hostdev>`, []domain.Hostdev{
			{ID: id, HasMode: true},
		}, nil},
		{"source of bus alone",
			`<hostdev type='pci'><source><address bus='0x17'/></source></hostdev>`,
			[]domain.Hostdev{
				{ID: id},
			}, nil},
		// KubeVirt's pci-placement_test.go has a guest address of a bus alone; what
		// is not written is 0, and all zero is libvirt's way to say: choose one.
		{"partial guest address", `<hostdev type='pci'>` + source +
			`<address bus="0x00"/></hostdev>`, []domain.Hostdev{
			{ID: id},
		}, nil},
		{
			"guest address of zeros",
			`<hostdev type='pci'>` + source +
				`<address type='pci' domain='0' bus='0' slot='0' function='0'/></hostdev>`,
			[]domain.Hostdev{{ID: id}}, nil,
		},
		{
			"guest address without type",
			`<hostdev type='pci'>` + source + `<address bus="0x02" slot="1"/></hostdev>`,
			[]domain.Hostdev{{ID: id, Address: &domain.GuestAddress{Bus: 2, Slot: 1}}}, nil,
		},
		// libvirt's formatdomain.rst: with type='pci' alone the hypervisor chooses.
		{"guest address of type alone", `<hostdev type='pci'>` + source +
			`<address type='pci'/></hostdev>`, []domain.Hostdev{
			{ID: id},
		}, nil},
		{
			"unassigned",
			`<hostdev type='pci'>` + source + `<address type='unassigned'/></hostdev>`,
			[]domain.Hostdev{{ID: id, Unassigned: true}}, nil,
		},
		{"mdev without model", `<hostdev type='mdev'><source><address uuid='` + uuid +
			`'/></source></hostdev>`, []domain.Hostdev{
			{ID: mdev(uuid)},
		}, nil},
		{
			"vfio-ap",
			`<hostdev type='mdev' model='vfio-ap'><source><address uuid='` + uuid +
				`'/></source></hostdev>`, nil,
			[]domain.Device{{Element: "hostdev", Type: "mdev", Model: "vfio-ap"}},
		},
		{
			"usb",
			`<hostdev type='usb'><source><address bus='3' device='7'/></source>` +
				`<address type='usb' bus='0' port='1'/></hostdev>`, nil,
			[]domain.Device{
				{Element: "hostdev", Type: "usb", AddressType: "usb", AddressController: ptr(0)},
			},
		},
		{
			"capabilities",
			`<hostdev mode='capabilities' type='misc'><source><char>/dev/x</char></source>` +
				`</hostdev>`, nil,
			[]domain.Device{{Element: "hostdev", Type: "misc", Mode: "capabilities"}},
		},
		{
			"no source",
			`<hostdev type='pci'><alias name='ua-x'/><address type='pci' bus='4'/></hostdev>`, nil,
			[]domain.Device{
				{Element: "hostdev", Type: "pci", Alias: "ua-x", AddressType: "pci",
					AddressController: ptr(0), Address: &domain.GuestAddress{
						Bus: 4,
					}},
			},
		},
		{"empty source", `<hostdev type='pci'><source/></hostdev>`, nil, []domain.Device{
			{Element: "hostdev", Type: "pci"},
		}},
		{
			"source of type alone",
			`<hostdev type='pci'><source><address type='pci'/></source></hostdev>`, nil,
			[]domain.Device{{Element: "hostdev", Type: "pci"}},
		},
		{
			"unreadable uuid",
			`<hostdev type='mdev' model='vfio-pci'><source><address uuid='x'/></source>` +
				`<address type='pci' bus='5'/></hostdev>`, nil,
			[]domain.Device{
				{Element: "hostdev", Type: "mdev", Model: "vfio-pci", AddressType: "pci",
					AddressController: ptr(0), Address: &domain.GuestAddress{
						Bus: 5,
					}},
			},
		},
		{
			"no source, unassigned", `<hostdev type='pci'><address type='unassigned'/></hostdev>`,
			nil,
			[]domain.Device{
				{Element: "hostdev", Type: "pci", AddressType: "unassigned",
					AddressController: ptr(0)},
			},
		},
		{"other namespace", `<h:hostdev xmlns:h='urn:h' type='pci'>` + source + `</h:hostdev>`, nil,
			nil},
		{"source in another namespace",
			`<hostdev type='pci' xmlns:h='urn:h'><h:source><address bus='1'/></h:source></hostdev>`, nil, []domain.Device{
				{Element: "hostdev", Type: "pci"},
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := parse(t, devices(test.xml))
			if diff := cmp.Diff(test.want, d.Hostdevs, equal); diff != "" {
				t.Errorf("hostdevs (-want +got):\n%s", diff)
			}

			if diff := cmp.Diff(test.others, d.Others, equal); diff != "" {
				t.Errorf("others (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseOthers(t *testing.T) {
	for xml, want := range map[string]domain.Device{
		`<disk type='file'><target dev='sda' bus='scsi'/>` +
			`<address type='drive' controller='2' bus='0x300'/></disk>`: {
			Element: "disk", Type: "file", Bus: "scsi", TargetDev: "sda", AddressType: "drive",
			AddressController: ptr(2),
		},
		`<interface type='ethernet'><model type='virtio'/><alias name='ua-n'/></interface>`: {
			Element: "interface", Type: "ethernet", Model: "virtio", Alias: "ua-n",
		},
		`<video><model type='vga' primary='yes'/></video>`: {
			Element: "video", Model: "vga", Primary: true,
		},
		`<input type='tablet' bus='virtio' model='virtio'/>`: {
			Element: "input", Type: "tablet", Bus: "virtio", Model: "virtio",
		},
		`<serial type='pty'><target type='pci-serial'/></serial>`: {
			Element: "serial", Type: "pty", TargetType: "pci-serial",
		},
		`<filesystem type='mount'><driver type='loop'/></filesystem>`: {
			Element: "filesystem", Type: "mount", DriverType: "loop",
		},
		`<tpm model='tpm-crb'><address type='pci' bus='2' multifunction='on'/></tpm>`: {
			Element: "tpm", Model: "tpm-crb", AddressType: "pci", AddressController: ptr(0),
			Address: &domain.GuestAddress{Bus: 2, Multifunction: true},
		},
		`<rng model='virtio'><address bus='3'/></rng>`: {Element: "rng", Model: "virtio",
			AddressController: ptr(0), Address: &domain.GuestAddress{
				Bus: 3,
			}},
		`</devices><devices><controller type='usb' index='1' model='ich9-uhci1'/>`: {
			Element: "controller", Type: "usb", Index: "1", Model: "ich9-uhci1",
		},
		`<panic/><q:panic xmlns:q='urn:q'/><controller type='pci' model='pcie-root'/>`: {Element: "panic"},
		`<disk type='nvme'><source><address type='pci' bus='9'/></source><target/></disk>`: {
			Element: "disk", Type: "nvme",
		},
	} {
		if diff := cmp.Diff([]domain.Device{want}, parse(t, devices(xml)).Others,
			equal); diff != "" {
			t.Errorf("%s (-want +got):\n%s", xml, diff)
		}
	}
}
