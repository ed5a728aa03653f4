package tree

import (
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

func TestPathType(t *testing.T) {
	at := func(node int, path string) Spot { return PathSpot("devices/"+path, node) }
	device := at(0, "pci0000:00/port0/up/down0/a.0")
	for _, test := range []struct {
		other Spot
		want  string
	}{
		{at(0, "pci0000:00/port0/up/down1/b.0"), "PIX"},
		{at(0, "pci0000:00/port0/up/down0/a.1"), "PIX"}, // functions of one device
		{at(0, "pci0000:00/port0/up/management.0"), "PIX"},
		{at(0, "pci0000:00/port0/up/down1/up2/down2/b.0"), "PXB"},
		{at(0, "pci0000:00/port1/b.0"), "PHB"},
		{at(0, "pci0000:00/port1/up/down0/b.0"), "PHB"},
		{at(1, "pci0000:00/port1/b.0"), "PHB"},
		{at(0, "pci0000:80/port0/b.0"), "NODE"},
		{at(0, "pci0000:00/port0/vmd/pci10000:00/port0/b.0"), "NODE"},
		{at(1, "pci0000:c0/port0/b.0"), "SYS"},
		{at(Unknown, "pci0000:c0/port0/b.0"), "SYS"},
		{at(0, "virtual/mtty/b"), "NODE"},
	} {
		if got := PathType(device, test.other); got != test.want {
			t.Errorf("%v and %v: %s, want %s", device, test.other, got, test.want)
		}
		if got := PathType(test.other, device); got != test.want {
			t.Errorf("%v and %v: %s, want %s", test.other, device, got, test.want)
		}
	}

	if got := PathType(at(0, "pci0000:00/port0/a.0"), at(0, "pci0000:00/port0/b.0")); got != "PIX" {
		t.Errorf("two devices under one port: %s, want PIX", got)
	}

	if got := PathType(at(Unknown, "virtual/a"), at(Unknown, "virtual/b")); got != "SYS" {
		t.Errorf("two devices of no root and no node: %s, want SYS", got)
	}
}

const domain = `<domain><cpu><numa><cell id="0"/><cell id="1"/></numa></cpu><devices>
<controller type="pci" index="1" model="pcie-expander-bus"><target busNr="200"><node>1</node></target><address type="pci" bus="0" slot="0x1c"/></controller>
<controller type="pci" index="2" model="pcie-root-port"><target hotplug="off"/><address type="pci" bus="0x01" slot="0"/></controller>
<controller type="pci" index="3" model="pcie-switch-upstream-port"><address type="pci" bus="0x02" slot="0"/></controller>
<controller type="pci" index="4" model="pcie-switch-downstream-port"><address type="pci" bus="0x03" slot="0"/></controller>
<hostdev type="pci"><source><address domain="0" bus="0x3b" slot="0x01" function="2"/></source><address type="pci" bus="0x04" slot="0"/></hostdev>
<hostdev type="mdev"><source><address uuid="4A1F"/></source></hostdev>
<disk><address type="drive" bus="0"/></disk>
</devices></domain>`

func TestRead(t *testing.T) {
	got, err := Read([]byte(domain))
	expect.NoError(t, err)
	spot, placed := got.Spot("0000:3b:01.2")
	if !placed || spot.Root != "expander bus 1" || spot.Node != 1 || spot.Slot != "4/0" ||
		!slices.Equal(spot.Bridges, []string{"2", "3", "4"}) {
		t.Errorf("spot %+v, %v", spot, placed)
	}

	if _, placed := got.Spot("4a1f"); placed {
		t.Error("a device without an address is placed")
	}

	if expander, port := got.Controllers[1], got.Controllers[2]; expander.BusNr != 200 ||
		expander.Cell != 1 || port.BusNr != Unknown || port.Cell != Unknown ||
		port.Hotplug != "off" {
		t.Errorf("controllers %+v, %+v", expander, port)
	}

	if !slices.Equal(got.Cells, []int{0, 1}) || len(got.Devices) != 7 {
		t.Errorf("cells %v, %d devices", got.Cells, len(got.Devices))
	}

	for _, device := range got.Devices[5:] {
		if device.At != nil {
			t.Errorf("%s is at %s", device.Label, device.At)
		}
	}
}

func TestOutOfOrder(t *testing.T) {
	const domain = `<domain><devices>
<controller type="pci" index="1" model="pcie-expander-bus"><target busNr="200"/></controller>
<controller type="pci" index="2" model="pcie-root-port"><address type="pci" bus="1" slot="0"/></controller>
<controller type="pci" index="3" model="pcie-root-port"><address type="pci" bus="1" slot="1"/></controller>
<controller type="pci" index="4" model="pcie-expander-bus"><target busNr="100"/></controller>
<controller type="pci" index="5" model="pcie-root-port"><address type="pci" bus="4" slot="0"/></controller>
<hostdev type="mdev"><source><address uuid="a"/></source><address type="pci" bus="2" slot="0"/></hostdev>
<hostdev type="mdev"><source><address uuid="b"/></source><address type="pci" bus="3" slot="0"/></hostdev>
<hostdev type="mdev"><source><address uuid="c"/></source><address type="pci" bus="5" slot="0"/></hostdev>
<hostdev type="mdev"><source><address uuid="d"/></source></hostdev>
</devices></domain>`

	guest, err := Read([]byte(domain))
	expect.NoError(t, err)

	for order, want := range map[string]string{
		"c a b":   "",
		"c b":     "",
		"d a b":   "",
		"c b a":   "controller 2 with a comes before controller 3 with b",
		"a b c":   "expander bus 4 with c comes before expander bus 1 with a",
		"a b d c": "expander bus 4 with c comes before expander bus 1 with a",
	} {
		if got := strings.Join(guest.OutOfOrder(strings.Fields(order)), "; "); got != want {
			t.Errorf("%s: %q, want %q", order, got, want)
		}
	}
}
