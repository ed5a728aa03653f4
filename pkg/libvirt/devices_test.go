package libvirt_test

import (
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/test/expect"
)

// devices returns the devices of a domain whose machine and devices are given.
func devices(t *testing.T, machine, xml string) []libvirt.Endpoint {
	t.Helper()
	d, err := domain.Parse(fmt.Appendf(nil,
		"<domain><os><type machine='%s'/></os><devices>%s</devices></domain>", machine, xml))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}

	return libvirt.Endpoints(d)
}

// portCase is how many root ports libvirt takes for devices without an address.
// The numbers are those of libvirt 9.0 with QEMU 7.2, counted when a domain with
// 25 free root ports is read back; those of devices that came later follow
// qemu_domain_address.c of libvirt 11.
type portCase struct {
	xml       string
	q35, virt int
}

func (c portCase) check(t *testing.T) {
	t.Helper()
	for machine, want := range map[string]int{
		"q35": c.q35, "pc-q35-9.2": c.q35, "virt": c.virt, "virt-10.0": c.virt,
	} {
		got, _ := plugged(t, machine, c.xml, false)
		if got != want {
			t.Errorf("%s: %d ports, want %d: %s", machine, got, want, c.xml)
		}
	}
}

// plugged counts the root ports that libvirt takes for devices without an address, and reports
// whether it adds a bridge to conventional PCI.
func plugged(t *testing.T, machine, xml string, hasLSI bool) (ports int, isBridged bool) {
	t.Helper()
	d, err := domain.Parse(fmt.Appendf(nil,
		"<domain><os><type machine='%s'/></os><devices>%s</devices></domain>", machine, xml))
	expect.NoError(t, err)
	given := libvirt.NewGuest(d)
	whole, err := alloc.Simulate(given,
		alloc.Libvirt{Version: alloc.Libvirt11, HasLSI: hasLSI})
	if err != nil {
		t.Fatalf("%s: %v", xml, err)
	}

	taken := map[int]bool{}
	for i, o := range whole.Devices {
		if given.Devices[i].Address == nil && o.Address != nil {
			taken[o.Address.Bus] = true
		}
	}

	for i, c := range whole.Domain.Controllers {
		if c.Address != nil && (i >= len(d.Controllers) || d.Controllers[i].Address == nil) {
			taken[c.Address.Bus] = true
		}
		isBridged = isBridged || i >= len(d.Controllers) && c.Model == domain.PCIeToPCIBridge
	}

	for _, c := range whole.Domain.Controllers {
		if c.Model == domain.RootPort && taken[c.Index] {
			ports++
		}
	}

	return ports, isBridged
}

const (
	usb     = `<controller type='usb' index='0' model='none'/>`
	balloon = `<memballoon model='none'/>`
	none    = usb + balloon
)

func TestControllersAndCardsNeedPorts(t *testing.T) {
	for _, test := range []portCase{
		{none, 0, 0},
		{usb, 1, 0},     // a balloon is added on x86
		{balloon, 1, 0}, // xHCI is added on q35
		{none + `<graphics type='vnc'/>`, 0, 1},
		{none + `<video/>`, 0, 1},
		{none + `<video><model type='virtio'/></video>`, 0, 1},
		{none + `<video><model type='vga'/></video>`, 0, 1},
		{none + `<video><model type='none'/></video>`, 0, 0},
		{none + `<video><model type='bochs'/></video>`, 0, 1},
		{none + `<video><model type='vga'/></video><video><model type='virtio'/></video>`, 1, 2},
		{none +
			`<video><model type='virtio'/></video><video><model type='vga' primary='yes'/></video>`,
			1, 2},
		{none + `<interface type='user'/>`, 1, 1},
		{none + `<interface type='user'><model type='virtio'/></interface>`, 1, 1},
		{none +
			`<interface type='user'><model type='e1000'/></interface><interface>` +
			`<model type='rtl8139'/></interface>`, 1, 1},
		{none +
			`<interface type='user'><model type='e1000e'/></interface><interface>` +
			`<model type='igb'/></interface>`, 2, 2},
		{none + `<interface type='user'><model type='virtio-transitional'/></interface>`, 1, 1},
		{none + `<interface type='user'><model type='usb-net'/></interface>`, 0, 0},
		{none +
			`<interface type='hostdev'><source><address type='pci' bus='1'/></source></interface>`,
			1, 1},
		{none + `<sound model='ich9'/>`, 0, 1},
		{none + `<sound model='ich9'/><sound model='ich9'/>`, 1, 1},
		{none + `<sound model='ich6'/><sound model='ac97'/>`, 1, 1},
		{none + `<sound model='usb'/>`, 0, 0},
		{none + `<sound model='virtio'/>`, 1, 1},
		{none + `<controller type='scsi' index='0'/>`, 1, 1},
		{none + `<controller type='scsi' index='0' model='virtio-scsi'/>`, 1, 1},
		{none + `<controller type='scsi' index='0' model='lsilogic'/>`, 1, 1},
		{none + `<controller type='sata' index='0'/><controller type='sata' index='1'/>`, 1, 1},
		{none + `<controller type='sata' index='0'/>`, 0, 1},
		{none + `<controller type='virtio-serial' index='0'/>`, 1, 1},
		{none + `<controller type='nvme' index='0'/>`, 1, 1},
		{none + `<controller type='fdc' index='0'/><controller type='ccid' index='0'/>`, 0, 0},
		{balloon + `<controller type='usb' index='0'/>`, 1, 1},
		{balloon + `<controller type='usb' index='0' model='nec-xhci'/>`, 1, 1},
		{balloon + `<controller type='usb' index='0' model='piix3-uhci'/>`, 1, 1},
		{balloon + ich9("0", "ehci1", "uhci1", "uhci2", "uhci3"), 0, 1},
		{balloon + ich9("0", "ehci1"), 1, 1},
		{balloon + ich9("0", "uhci1") + ich9("1", "uhci1") + ich9("2", "uhci1", "ehci1"), 1, 1},
	} {
		test.check(t)
	}
}

func TestOtherDevicesNeedPorts(t *testing.T) {
	for _, test := range []portCase{
		{none + `<disk device='disk'><target dev='vda'/></disk>`, 1, 1},
		{none +
			`<disk device='lun' model='virtio-transitional'><target dev='sda' bus='virtio'/></disk>`, 1, 1},
		{none + `<disk device='disk'><target dev='sda' bus='scsi'/></disk>`, 1, 1},
		{none + `<disk device='cdrom'><target dev='sda' bus='sata'/></disk>`, 0, 1},
		{none + `<disk device='disk'><target dev='sda' bus='usb'/></disk>`, 0, 0},
		// libvirt adds a controller for every six SATA disks and every seven SCSI
		// disks, by name; the first SATA controller of q35 is the chipset's.
		{none + `<disk><target dev='sdf' bus='sata'/></disk>`, 0, 1},
		{none + `<disk><target dev='sdg' bus='sata'/></disk>`, 1, 1},
		{none + `<disk><target dev='sdaa' bus='sata'/></disk>`, 1, 1},
		{none + `<disk><target dev='sda' bus='sata'/><address type='drive' controller='2'/></disk>`,
			1, 1},
		{none + `<disk><target dev='sdz' bus='sata'/><address type='drive' controller='0'/></disk>`,
			0, 1},
		{none +
			`<disk><target dev='sdg' bus='sata'/></disk><controller type='sata' index='0'/>` +
			`<controller type='sata' index='1'><address type='pci' bus='0' slot='5'/></controller>`, 0, 1},
		{none + `<disk><target dev='sdg' bus='scsi'/></disk>`, 1, 1},
		{none + `<disk><target dev='sdh' bus='scsi'/></disk>`, 2, 2},
		{none +
			`<disk><target dev='sdh' bus='scsi'/></disk>` +
			`<controller type='scsi' index='0' model='virtio-scsi'/>`, 2, 2},
		{none + `<disk><target dev='sdz' bus='scsi'/><address type='drive' controller='0'/></disk>`,
			1, 1},
		{none + `<disk><target dev='' bus='scsi'/></disk>`, 1, 1},
		{none + `<disk><target dev='vda' bus='scsi'/></disk>`, 1, 1},
		{none + `<disk><target dev='xvdh' bus='scsi'/></disk>`, 2, 2},
		// libvirt refuses it
		{none + `<disk><target dev='SDZ' bus='scsi'/></disk>`, 1, 1},
		{none + `<channel type='unix'><target type='virtio' name='a'/></channel>`, 1, 1},
		{none + `<console type='pty'><target type='virtio'/></console>`, 1, 1},
		{none + `<hostdev type='scsi'><source><adapter name='scsi_host0'/></source></hostdev>`, 1,
			1},
		{none + `<hostdev type='scsi_host'><source protocol='vhost'/></hostdev>`, 1, 1},
		{none + `<rng model='virtio'/>`, 1, 1},
		{none + `<shmem name='a'/>`, 1, 1},
		{none + `<input type='tablet' bus='virtio'/><input type='mouse'/>`, 1, 1},
		{none + `<watchdog model='i6300esb'/>`, 1, 1},
		{none + `<watchdog model='itco'/>`, 0, 0},
		{none + `<vsock/>`, 1, 1},
		{none + `<crypto model='virtio' type='qemu'/>`, 1, 1},
		{none + `<iommu model='virtio'/>`, 0, 0},
		{none + `<iommu model='intel'/>`, 0, 0},
		{none + `<panic model='pvpanic'/>`, 0, 0},
		{none + `<serial type='pty'><target type='pci-serial'/></serial>`, 1, 1},
		{none + `<serial type='pty'/><parallel type='pty'/>`, 0, 0},
		{none + `<filesystem type='mount'/>`, 1, 1},
		{none + `<memory model='virtio-mem'/><memory model='dimm'/>`, 1, 1},
		{none + `<tpm model='tpm-crb'/><redirdev bus='usb' type='tcp'/>`, 0, 0},
		// the bridge takes a port
		{none +
			`<controller type='pci' index='40' model='pcie-to-pci-bridge'/><sound model='ich6'/>`,
			1, 1},
		// A chipset's slot that an address takes is not free.
		{none + `<video/><rng model='virtio'><address type='pci' bus='0' slot='1'/></rng>`, 1, 1},
		{none +
			`<sound model='ich9'/><controller type='pci' index='1' model='pcie-root-port'>` +
			`<address type='pci' slot='0x1b'/></controller>`, 1, 1},
	} {
		test.check(t)
	}
}

// TestManyDrives: a drive with a high number has no more controllers than a domain has indexes.
func TestManyDrives(t *testing.T) {
	const drive = `<disk><target dev='sdzzzzzzzzzzzzzzzzzzz' bus='scsi'/></disk>`
	if got := len(devices(t, "q35", none+drive)); got != libvirt.MaxIndex {
		t.Errorf("%d controllers, want %d", got, libvirt.MaxIndex)
	}
}

// TestBridge: libvirt adds a bridge for conventional devices, unless there is one.
func TestBridge(t *testing.T) {
	for xml, want := range map[string]bool{
		`<watchdog model='i6300esb'/><sound model='ac97'/>`:                             true,
		`<rng model='virtio'/><interface type='user'><model type='e1000'/></interface>`: true,
		`<controller type='pci' index='3' model='pcie-to-pci-bridge'/>` +
			`<controller type='pci' index='2' model='pcie-root-port'/><watchdog model='i6300esb'/>`: false,
		// the chipset's slots
		`<sound model='ich9'/><video><model type='vga'/></video>`: false,
		`<disk device='disk'><target dev='vda'/></disk>` +
			`<controller type='scsi' index='0' model='lsilogic'/><watchdog model='itco'/>`: true,
	} {
		if _, got := plugged(t, "q35", none+xml, false); got != want {
			t.Errorf("a bridge is added: %v, want %v: %s", got, want, xml)
		}
	}
}

func ich9(index string, parts ...string) string {
	var all string
	for _, part := range parts {
		all += "<controller type='usb' index='" + index + "' model='ich9-" + part + "'/>"
	}
	return all
}

// TestDevices: which devices are listed, with their addresses; "+" marks those
// that libvirt gives an address.
func TestDevices(t *testing.T) {
	const source = `<source><address domain='0x0000' bus='0x17' slot='0x00' function='0x0'/>` +
		`</source>`
	for _, test := range []struct {
		name, xml string
		want      []string
	}{
		{
			"in document order, those that libvirt adds last",
			`<rng model='virtio'/><disk><target dev='vda' bus='virtio'/><alias name='ua-d'/></disk>` +
				`<interface type='ethernet'><model type='virtio'/></interface><graphics/>` +
				`<input type='tablet' bus='virtio' model='virtio'/>`,
			[]string{"rng +", "disk ua-d +", "interface +", "input +", "video +"},
		},
		{
			"an address makes any device a PCI device",
			`<tpm><address type='pci' bus='2' multifunction='on'/></tpm><tpm>` +
				`<address type='pci'/></tpm>`,
			[]string{"tpm 2:0.0", "tpm"},
		},
		{
			"an address of another type makes it none",
			`<rng model='virtio'><address type='ccw' cssid='0xfe'/></rng><disk>` +
				`<target bus='virtio'/><address type='virtio-mmio'/></disk>`, nil,
		},
		{
			"an address without type",
			`<rng model='virtio'><address bus='3'/></rng><disk><target bus='sata'/>` +
				`<address bus='3'/></disk>`,
			[]string{"rng 3:0.0"},
		},
		// All zero is libvirt's way to say: choose one.
		{
			"an address of zeros",
			`<rng model='virtio'>` +
				`<address type='pci' domain='0' bus='0' slot='0' function='0'/></rng>`,
			[]string{"rng +"},
		},
		{"an address inside a source",
			`<disk type='nvme'><source><address type='pci' bus='9'/></source>` +
				`<target bus='scsi'/></disk><controller type='scsi' model='ncr53c90'/>`, nil},
		{"two lists of devices", `</devices><devices><rng model='virtio'/>`, []string{"rng +"}},
		{"a hostdev that is placed", `<hostdev type='pci'>` + source + `</hostdev>`, nil},
		{"hostdev vfio-ap",
			`<hostdev type='mdev' model='vfio-ap'><source>` +
				`<address uuid='4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01'/></source></hostdev>`, nil},
		{"hostdev usb",
			`<hostdev type='usb'><source><address bus='3' device='7'/></source>` +
				`<address type='usb' bus='0' port='1'/></hostdev>`, nil},
		{"hostdev capabilities",
			`<hostdev mode='capabilities' type='misc'><source><char>/dev/x</char></source>` +
				`</hostdev>`, nil},
		{"hostdev without source",
			`<hostdev type='pci'><alias name='ua-x'/><address type='pci' bus='4'/></hostdev>`,
			[]string{
				"hostdev ua-x 4:0.0",
			}},
		{"hostdev with an empty source", `<hostdev type='pci'><source/></hostdev>`, []string{
			"hostdev +",
		}},
		{"hostdev with a source of type alone",
			`<hostdev type='pci'><source><address type='pci'/></source></hostdev>`, []string{
				"hostdev +",
			}},
		{
			"hostdev with an unreadable uuid",
			`<hostdev type='mdev' model='vfio-pci'><source><address uuid='x'/></source>` +
				`<address type='pci' bus='5'/></hostdev>`,
			[]string{"hostdev 5:0.0"},
		},
		{"hostdev without source, unassigned",
			`<hostdev type='pci'><address type='unassigned'/></hostdev>`, nil},
		{"hostdev in another namespace", `<h:hostdev xmlns:h='urn:h' type='pci'>` + source +
			`</h:hostdev>`, nil},
		{"hostdev with a source in another namespace",
			`<hostdev type='pci' xmlns:h='urn:h'><h:source><address bus='1'/></h:source></hostdev>`, []string{
				"hostdev +",
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, d := range devices(t, "q35", none+test.xml) {
				words := []string{d.Element}
				if d.Alias != "" {
					words = append(words, d.Alias)
				}

				if a := d.Address; a != nil {
					words = append(words, fmt.Sprintf("%d:%d.%d", a.Bus, a.Slot, a.Function))
				}

				if d.Address == nil && d.Connect != libvirt.NotPCI {
					words = append(words, "+")
				}

				got = append(got, strings.Join(words, " "))
			}

			expect.Same(t, test.want, got, "devices (-want +got)")
		})
	}
}

// TestSCSIWithoutModel: libvirt makes it lsilogic, where QEMU has that, which takes a bridge with a
// port above it, or virtio-scsi, which takes a port.
func TestSCSIWithoutModel(t *testing.T) {
	const bridge = `<controller type='pci' index='3' model='pcie-to-pci-bridge'>` +
		`<address type='pci' bus='2'/></controller>` +
		`<controller type='pci' index='2' model='pcie-root-port'/>`
	for _, test := range []struct {
		xml          string
		ports        int  // with virtio-scsi
		isBridged    bool // with lsilogic
		withLSILogic int  // ports
	}{
		{`<disk><target dev='sda' bus='scsi'/></disk>`, 1, true, 1},
		{`<controller type='scsi' index='0'/>`, 1, true, 1},
		{`<controller type='scsi' index='0' model='auto'/>`, 1, true, 1},
		{`<controller type='scsi' index='0'/>` + bridge, 1, false, 0},
		{`<controller type='scsi' index='0' model='virtio-scsi'/>`, 1, false, 1},
		{`<controller type='scsi' index='0' model='lsilogic'/>`, 1, true, 1},
		{`<controller type='scsi' index='0'/><interface><model type='e1000'/></interface>`, 2,
			true, 1},
	} {
		ports, _ := plugged(t, "q35", none+test.xml, false)
		with, isBridged := plugged(t, "q35", none+test.xml, true)
		if ports != test.ports || isBridged != test.isBridged || with != test.withLSILogic {
			t.Errorf("%d ports, with lsilogic %d and a bridge %v; want %d, %d, %v: %s", ports, with,
				isBridged, test.ports, test.withLSILogic, test.isBridged, test.xml)
		}
	}
}
