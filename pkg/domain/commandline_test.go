package domain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/pkg/topology"
)

// withArguments returns a domain with a root port of index 2, and these arguments of QEMU.
func withArguments(t *testing.T, args ...string) *domain.Domain {
	t.Helper()
	var text strings.Builder
	for _, arg := range args {
		fmt.Fprintf(&text, `<qemu:arg value="%s"/>`, xmledit.Escape(arg))
	}

	return parse(t, `<domain xmlns:qemu='`+namespace+`'><devices>`+
		`<controller type='pci' index='2' model='pcie-root-port'><alias name='ua-port'/></controller>`+
		`</devices><qemu:commandline>`+text.String()+`</qemu:commandline></domain>`)
}

// TestCommandLine: slot, chassis, bus number, id and bus of devices are read in both forms.
func TestCommandLine(t *testing.T) {
	const none, chosen = domain.NoParent, topology.NoSlot
	port := func(id string, chassis, slot int) domain.ArgumentDevice {
		return domain.ArgumentDevice{
			Driver: "pcie-root-port", ID: id, IsBridge: true, Chassis: &chassis, Parent: none,
			Slot: slot,
		}
	}

	device := func(driver string, slot int) domain.ArgumentDevice {
		return domain.ArgumentDevice{Driver: driver, Parent: none, Slot: slot}
	}

	onPort := func(driver string) domain.ArgumentDevice {
		return domain.ArgumentDevice{Driver: driver, Parent: none, Bus: 2, Slot: 0}
	}

	expander := domain.ArgumentDevice{
		Driver: "pxb-pcie", ID: "px1", BusNr: new(0xe0), Parent: none, Slot: 0x10,
	}
	under := port("r", 9, 0)
	under.Parent = 0

	for name, test := range map[string]struct {
		args []string
		want []domain.ArgumentDevice
	}{
		"slot and function": {
			[]string{"-device", "pcie-root-port,bus=pcie.0,addr=1c.0,multifunction=on,chassis=90,id=r"},
			[]domain.ArgumentDevice{port("r", 90, 0x1c)},
		},
		"two dashes, driver=, hex, octal and a comma": {
			[]string{"--device", "x=a,,b,driver=pcie-root-port,addr=0x1c.0x3,chassis=010,id=r"},
			[]domain.ArgumentDevice{port("r", 8, 0x1c)},
		},
		"slot alone, without a bus": {
			[]string{"-device", "edu,addr=5"}, []domain.ArgumentDevice{device("edu", 5)},
		},
		"JSON": {
			[]string{
				"-device", `{"driver":"pcie-root-port","id":"r","bus":"pcie.0","chassis":90,` +
					`"addr":"1c.0"}`,
			},
			[]domain.ArgumentDevice{port("r", 90, 0x1c)},
		},
		"a number in JSON is slot and function": {
			[]string{"-device", `{"driver":"edu","bus":"pcie.0","addr":136}`},
			[]domain.ArgumentDevice{device("edu", 0x11)},
		},
		"QEMU chooses, in JSON after all others": {
			[]string{
				"-device", `{"driver":"edu","bus":"pcie.0"}`, "-device", "edu,addr=1",
				"-device", "ivshmem-plain",
			},
			[]domain.ArgumentDevice{
				device("edu", 1), device("ivshmem-plain", 2), device("edu", chosen),
			},
		},
		"an expander bus and what is on it": {
			[]string{
				"-device", "pxb-pcie,id=px1,bus=pcie.0,addr=0x10,bus_nr=0xe0",
				"-device", "pcie-root-port,bus=px1,id=r,chassis=9,addr=0",
			},
			[]domain.ArgumentDevice{expander, under},
		},
		"without a bus QEMU takes its own expander bus": {
			[]string{
				"-device", "pxb-pcie,id=px1,addr=0x10,bus_nr=224",
				"-device", "pcie-root-port,id=r,chassis=9,addr=0",
			},
			[]domain.ArgumentDevice{expander, under},
		},
		"a port of the domain, by name and by alias": {
			[]string{"-device", "edu,bus=pci.2,addr=0", "-device", "e1000e,bus=ua-port,addr=0"},
			[]domain.ArgumentDevice{onPort("edu"), onPort("e1000e")},
		},
		"-net nic": {
			[]string{"-net", "nic,model=e1000e,addr=7", "-nic", "user,addr=8", "-net", "user"},
			[]domain.ArgumentDevice{device("nic", 7), device("user", 8)},
		},
		"no PCI device": {[]string{
			"-device", "usb-host,hostbus=1,hostaddr=2", "-device", "scsi-hd,bus=scsi0.0,drive=d",
			"-device", "isa-debugcon,iobase=0x402", "-device", `{"driver":"intel-iommu"}`,
			"-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off",
			"-set", "device.a.x-vga=on", "-netdev", "user,id=n", "-cpu", "host", "-nic", "none",
			"-spice", "addr=127.0.0.1,port=5900", "-append", "addr=1c.0", "-device",
		}, nil},
	} {
		d := withArguments(t, test.args...)
		if diff := cmp.Diff(test.want, d.CommandLine.Devices); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}

		if len(d.CommandLine.Unclear) > 0 {
			t.Errorf("%s: not understood: %q", name, d.CommandLine.Unclear)
		}
	}
}

// TestUnclearArguments: an argument that names a place in a form that is not understood is quoted,
// by what names the place: no other property, short, and without control characters.
func TestUnclearArguments(t *testing.T) {
	for value, want := range map[string]string{
		"-device pcie-root-port,addr=1c.9,password=secret": `-device "pcie-root-port,addr=1c.9": ` +
			`addr is not SLOT.FUNCTION in hex`,
		"-device edu,addr=20": `-device "edu,addr=20": addr is not SLOT.FUNCTION in hex`,
		"-device pcie-root-port,chassis=\u202eone,id=r": `-device "pcie-root-port,id=r,` +
			`chassis=\u202eone": chassis is not a number from 0 to 255`,
		"-device pxb-pcie,bus_nr=256": `-device "pxb-pcie,bus_nr=256": bus_nr is not a number ` +
			`from 0 to 255`,
		"-device edu,bus=/main/pcie.0,addr=5": `-device "edu,bus=/main/pcie.0,addr=5": ` +
			`the bus is not known`,
		"-device edu,bus=pci.0": `-device "edu,bus=pci.0": the bus is not known`,
		"-device edu,bus=pcie.0,addr=" + strings.Repeat("7", 100): `-device "edu,bus=pcie.0,addr=` +
			strings.Repeat("7", 40) + `…": addr is not SLOT.FUNCTION in hex`,
		`-device {"driver":"edu"}`: `-device "edu": it has no bus, and in JSON QEMU would put it ` +
			`on the last expander bus: add bus, such as pcie.0`,
		`-device {'driver':'edu','password':'secret','addr':'1c.0'}`: `-device "edu,addr=1c.0": ` +
			`it is not the JSON of one device`,
		`-device {"driver":"edu","bus":"pcie.0","addr":-8}`: `-device "edu,bus=pcie.0,addr=-8": ` +
			`addr is not SLOT.FUNCTION in hex`,
		"-set device.ua-nic.addr=1c.0": `-set "device.ua-nic.addr=1c.0": it gives a device ` +
			`another place`,
		"-global pcie-root-port.chassis=7": `-global "pcie-root-port.chassis=7": it gives a ` +
			`device another place`,
		"-readconfig /etc/vfio.cfg": `-readconfig "/etc/vfio.cfg": the file can have devices, ` +
			`which are not shown`,
	} {
		option, argument, _ := strings.Cut(value, " ")
		d := withArguments(t, option, argument)
		if diff := cmp.Diff([]string{want}, d.CommandLine.Unclear); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", value, diff)
		}
	}
}

// TestChassis: a chassis is read of a port, written and verified, in an existing target or a new
// one. One that is right already keeps its spelling.
func TestChassis(t *testing.T) {
	const before = `<domain><devices>` +
		`<controller type='pci' index='1' model='pcie-root-port'/>` +
		`<controller type='pci' index='2' model='pcie-root-port'><target port='0x8'/></controller>` +
		`<controller type='pci' index='3' model='pcie-root-port'><target chassis='0x5'/></controller>` +
		`</devices></domain>`
	const want = `<domain><devices>` +
		`<controller type='pci' index='1' model='pcie-root-port'>` +
		`<target chassis="255" hotplug="off"></target></controller>` +
		`<controller type='pci' index='2' model='pcie-root-port'>` +
		`<target port='0x8' chassis='254'/></controller>` +
		`<controller type='pci' index='3' model='pcie-root-port'>` +
		`<target chassis='0x5' hotplug='off'/></controller>` +
		`</devices></domain>`

	d := parse(t, before)
	changes := domain.Changes{HotplugOff: []int{1, 3}, Chassis: map[int]int{1: 255, 2: 254}}
	got := apply(t, d, changes)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	if err := parse(t, got).Verify(d.After(changes)); err != nil {
		t.Error(err)
	}

	if err := d.Verify(d.After(changes)); err == nil {
		t.Error("the domain without the chassis is taken for the result")
	}

	if c := parse(t, before).Controllers[2].Chassis; c == nil || *c != 5 {
		t.Errorf("chassis %v, want 5", c)
	}
}
