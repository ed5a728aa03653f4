package domain_test

import (
	"strings"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// in puts pieces of <devices> into a domain that is written with tabs and
// carriage returns where the piece has them.
func in(pieces string) string {
	return "<domain>\n\t<devices>" + pieces + "\n\t</devices>\n</domain>\n"
}

const source = "\n\t\t\t<source>\n" +
	"\t\t\t\t<address type=\"pci\" domain=\"0x0000\" bus=\"0x17\" slot=\"0x00\" " +
	"function=\"0x0\"></address>\n\t\t\t</source>"

// gpu returns a hostdev as virt-launcher writes it, with more between source and end.
func gpu(more string) string {
	return "\n\t\t<hostdev type=\"pci\" managed=\"no\">" + source + more + "\n\t\t</hostdev>"
}

const (
	aliasLine = "\n\t\t\t<alias name=\"ua-gpu-1\"></alias>"
	usbLine   = "\n\t\t<controller type=\"usb\" index=\"0\" model=\"none\"></controller>"
	portLine  = "\n\t\t<controller type=\"pci\" index=\"1\" model=\"pcie-root-port\"></controller>"
	// The attributes are in the order of libvirt's own XML.
	added = "\n\t\t<hostdev mode=\"subsystem\" type=\"pci\" managed=\"no\">\n\t\t\t<source>\n" +
		"\t\t\t\t<address domain=\"0x10000\" bus=\"0x01\" slot=\"0x1f\" function=\"0x7\">" +
		"</address>\n\t\t\t</source>\n\t\t</hostdev>"
	addedPort = "\n\t\t<controller type=\"pci\" index=\"9\" model=\"pcie-root-port\">\n" +
		"\t\t\t<target hotplug=\"off\"></target>\n" +
		"\t\t\t<address type=\"pci\" domain=\"0x0000\" bus=\"0x08\" slot=\"0x1f\" " +
		"function=\"0x0\"></address>\n\t\t</controller>"
)

// given are the devices of the cases, which have one each.
var given = []topology.DeviceID{pci("0000:17:00.0"), pci("0000:01:00.0")}

// to places the device of a case at an address; nil: libvirt chooses one.
func to(a *domain.GuestAddress) map[topology.DeviceID]*domain.GuestAddress {
	all := map[topology.DeviceID]*domain.GuestAddress{}
	for _, id := range given {
		all[id] = a
	}
	return all
}

func at(bus int) map[topology.DeviceID]*domain.GuestAddress {
	return to(&domain.GuestAddress{Bus: bus})
}

// applyCase is a change of pieces of <devices>, before and after.
type applyCase struct {
	name      string
	changes   domain.Changes
	src, want string
}

func (c applyCase) run(t *testing.T) {
	d := parse(t, in(c.src))
	if got := apply(t, d, c.changes); got != in(c.want) {
		t.Errorf("got\n%s\nwant\n%s", got, in(c.want))
	}

	if got := apply(t, d, domain.Changes{}); got != in(c.src) {
		t.Errorf("Apply has changed the read model: %s", got)
	}
}

func place(a domain.GuestAddress) domain.Changes {
	return domain.Changes{Place: to(&a)}
}

const address = "\n\t\t\t<address type=\"pci\" domain=\"0x0000\" bus=\"0x02\" slot=\"0x00\" " +
	"function=\"0x0\"></address>"

func TestSetMode(t *testing.T) {
	for _, test := range []applyCase{
		{
			"mode", domain.Changes{SetMode: given}, gpu(""),
			strings.Replace(gpu(""), `managed="no"`, `managed="no" mode="subsystem"`, 1),
		},
		{
			"mode in single quotes", domain.Changes{SetMode: given},
			"<hostdev type='pci' ><source><address bus='1'/></source></hostdev>",
			"<hostdev type='pci' mode='subsystem' ><source><address bus='1'/></source></hostdev>",
		},
		{"mode that is there", domain.Changes{
			SetMode: given,
		}, "<hostdev type='pci' mode='subsystem'>" + source +
			"</hostdev>", "<hostdev type='pci' mode='subsystem'>" + source + "</hostdev>"},
	} {
		t.Run(test.name, test.run)
	}
}

func TestRenameSSIDSizes(t *testing.T) {
	driver := func(attributes string) string {
		return "<iommu model='smmuv3'><driver " + attributes + "/></iommu>"
	}
	for _, test := range []applyCase{
		{"all of them", domain.Changes{
			RenameSSIDSizes: true,
		}, driver("ssidSize = '20' oas='48'") + driver("ssidSize='8'"),
			driver("ssidsize = '20' oas='48'") + driver("ssidsize='8'")},
		{"one that has both", domain.Changes{
			RenameSSIDSizes: true,
		}, driver("ssidSize='20' ssidsize='8'"), driver("ssidSize='20' ssidsize='8'")},
	} {
		t.Run(test.name, test.run)
	}
}

func TestPlace(t *testing.T) {
	for _, test := range []applyCase{
		{"new address before the alias", domain.Changes{
			Place: at(2),
		}, gpu(aliasLine), gpu(address + aliasLine)},
		{"new address after boot", domain.Changes{
			Place: at(2),
		}, gpu("\n\t\t\t<boot order=\"1\"/>\n\t\t\t<rom bar='off'/>"),
			gpu("\n\t\t\t<boot order=\"1\"/>" + address + "\n\t\t\t<rom bar='off'/>")},
		{"new address after the source", domain.Changes{
			Place: at(2),
		}, gpu("\n\t\t\t<rom bar='off'/>"), gpu(address + "\n\t\t\t<rom bar='off'/>")},
		{
			"new address on one line", domain.Changes{Place: at(2)},
			"<hostdev type='pci'><source><address bus='1'/></source><alias name='a'/></hostdev>",
			"<hostdev type='pci'><source><address bus='1'/></source>" + strings.TrimSpace(address) +
				"<alias name='a'/></hostdev>",
		},
		{
			"address keeps what is equal",
			place(domain.GuestAddress{Bus: 10, Slot: 3, Function: 1}),
			gpu("\n\t\t\t<address type='pci' domain='0' bus='10' slot=\"03\" function='0'/>"),
			gpu("\n\t\t\t<address type='pci' domain='0' bus='10' slot=\"03\" function='0x1'/>"),
		},
		{
			"address keeps what it does not know", place(domain.GuestAddress{Bus: 0x1f, Slot: 2}),
			gpu("\n\t\t\t<address function='0x0' slot='0x01' uid='7' type='pci' bus='0x02' " +
				"domain='0x0000'><zpci uid='1'/></address>"),
			gpu("\n\t\t\t<address function='0x0' slot='0x02' uid='7' type='pci' bus='0x1f' " +
				"domain='0x0000'><zpci uid='1'/></address>"),
		},
		{
			"address that is partial", domain.Changes{Place: at(3)},
			gpu("\n\t\t\t<address bus=\"0x00\"/>"),
			gpu("\n\t\t\t<address bus=\"0x03\" type=\"pci\" domain=\"0x0000\" slot=\"0x00\" " +
				"function=\"0x0\"/>"),
		},
		{
			"address of type alone", domain.Changes{Place: at(3)},
			gpu("\n\t\t\t<address type='pci' />"),
			gpu("\n\t\t\t<address type='pci' domain='0x0000' bus='0x03' slot='0x00' " +
				"function='0x0' />"),
		},
		{"address that is right already", domain.Changes{
			Place: at(2),
		}, gpu("\n\t\t\t<address type='pci' bus='2'/>"),
			gpu("\n\t\t\t<address type='pci' bus='2'/>")},
	} {
		t.Run(test.name, test.run)
	}
}

func TestPlaceMultifunction(t *testing.T) {
	for _, test := range []applyCase{
		{
			"multifunction added", place(domain.GuestAddress{Bus: 2, Multifunction: true}),
			gpu("\n\t\t\t<address type='pci' domain='0' bus='2' slot='0' function='0'/>"),
			gpu("\n\t\t\t<address type='pci' domain='0' bus='2' slot='0' function='0' " +
				"multifunction='on'/>"),
		},
		{
			"multifunction set", place(domain.GuestAddress{Bus: 2, Multifunction: true}),
			gpu("\n\t\t\t<address type='pci' multifunction='off' domain='0' bus='2' slot='0' " +
				"function='0'/>"),
			gpu("\n\t\t\t<address type='pci' multifunction='on' domain='0' bus='2' slot='0' " +
				"function='0'/>"),
		},
		{
			"multifunction removed", domain.Changes{Place: at(2)},
			gpu("\n\t\t\t<address type='pci' domain='0' bus='2' slot='0' function='0' " +
				"multifunction='on'/>"),
			gpu("\n\t\t\t<address type='pci' domain='0' bus='2' slot='0' function='0'/>"),
		},
		{
			"multifunction off stays", domain.Changes{Place: at(3)},
			gpu("\n\t\t\t<address type='pci' domain='0' bus='2' slot='0' function='0' " +
				"multifunction='off'/>"),
			gpu("\n\t\t\t<address type='pci' domain='0' bus='0x03' slot='0' function='0' " +
				"multifunction='off'/>"),
		},
		{"address of another kind", domain.Changes{
			Place: at(2),
		}, gpu("\n\t\t\t<address type='unassigned'/>"), gpu(address)},
		{"address removed", domain.Changes{
			Place: to(nil),
		}, gpu(address + aliasLine), gpu(aliasLine)},
		{"no address removed", domain.Changes{
			Place: to(nil),
		}, gpu(aliasLine), gpu(aliasLine)},
	} {
		t.Run(test.name, test.run)
	}
}

func TestAddAndRemove(t *testing.T) {
	hostdev := []domain.Hostdev{{ID: pci("10000:01:1f.7")}}
	port := []domain.Controller{
		{Index: 9, Model: domain.RootPort, Address: &domain.GuestAddress{
			Bus: 8, Slot: 31,
		}, HotplugOff: true},
	}

	for _, test := range []applyCase{
		{"hostdev after the last", domain.Changes{
			AddHostdevs: hostdev,
		}, gpu("") + usbLine, gpu("") + added + usbLine},
		{"hostdev after one of usb", domain.Changes{
			AddHostdevs: hostdev,
		}, "\n\t\t<hostdev type='usb'/>" + usbLine, "\n\t\t<hostdev type='usb'/>" +
			added + usbLine},
		{"hostdev before controllers", domain.Changes{
			AddHostdevs: hostdev,
		}, "\n\t\t<disk/>" + usbLine + portLine, "\n\t\t<disk/>" + added + usbLine + portLine},
		{"hostdev before a controller that is removed", domain.Changes{
			AddHostdevs: hostdev, RemoveControllers: []int{1},
		}, "\n\t\t<disk/>" + portLine + "\n\t\t<rng/>", "\n\t\t<disk/>" + added + "\n\t\t<rng/>"},
		{"hostdev at the end", domain.Changes{
			AddHostdevs: hostdev,
		}, "\n\t\t<disk/>", "\n\t\t<disk/>" + added},
		{"controller after the last PCI controller", domain.Changes{
			AddControllers: port,
		}, portLine + usbLine, portLine + addedPort + usbLine},
		{"controller after one that is removed", domain.Changes{
			AddControllers: port, RemoveControllers: []int{1},
		}, portLine + usbLine, addedPort + usbLine},
		{"controller after the last", domain.Changes{
			AddControllers: port,
		}, usbLine + "\n\t\t<rng/>", usbLine + addedPort + "\n\t\t<rng/>"},
		{"controller at the end", domain.Changes{
			AddControllers: port,
		}, "\n\t\t<rng/>", "\n\t\t<rng/>" + addedPort},
		{"both into an empty list", domain.Changes{
			AddControllers: port, AddHostdevs: hostdev,
		}, "", added + addedPort},
		{"controllers removed", domain.Changes{
			RemoveControllers: []int{2, 1},
		}, portLine + usbLine + strings.Replace(portLine, `"1"`, `"2"`, 1), usbLine},
	} {
		t.Run(test.name, test.run)
	}
}

// An index that a removed controller had is free for an added one.
func TestApplyReplacesController(t *testing.T) {
	d := parse(t, in(portLine))
	got := parse(t, apply(t, d, domain.Changes{
		RemoveControllers: []int{1},
		AddControllers: []domain.Controller{
			{Index: 1, Model: domain.ExpanderBus, BusNr: ptr(224), Cell: ptr(topology.CellID(1))},
		},
	})).Controllers

	if len(got) != 1 || got[0].Model != domain.ExpanderBus || *got[0].BusNr != 224 ||
		*got[0].Cell != 1 {
		t.Errorf("controllers %+v", got)
	}
}

// TestComplete: what has no address gets one, in place; what it has stays as it is written.
func TestComplete(t *testing.T) {
	const numbers = `domain="0x0000" bus="0x05" slot="0x01" function="0x0"`
	const address = `<address type="pci" ` + numbers + `></address>`
	const expander = "\n\t\t<controller type='pci' index='1' model='pcie-expander-bus'>"
	const port = "\n\t\t<controller type='pci' index='6' model='pcie-switch-downstream-port'"
	const disk = "\n\t\t<disk type='file'><target dev='vda' bus='virtio'/>"
	const hostdev = "\n\t\t<hostdev type=\"pci\">" + source

	all := domain.Completion{Address: &domain.GuestAddress{Bus: 5, Slot: 1}, BusNr: new(252)}
	place := domain.Completion{Address: all.Address}
	for _, c := range []struct {
		name          string
		has           domain.Completion
		changes       domain.Changes
		before, after string
	}{
		{
			"expander bus", all, domain.Changes{},
			expander + "<target><node>0</node></target></controller>",
			expander + "<target busNr='252'><node>0</node></target>" + address + "</controller>",
		},
		{
			"address without a place", all, domain.Changes{},
			expander + "<target busNr='0xfc'/><address type='pci'/></controller>",
			expander + "<target busNr='0xfc'/><address type='pci' " +
				strings.ReplaceAll(numbers, `"`, "'") + "/></controller>",
		},
		{
			"port", place, domain.Changes{},
			port + "/>", port + ">\n\t\t\t" + address + "\n\t\t</controller>",
		},
		{
			"controller that goes", all, domain.Changes{RemoveControllers: []int{1}},
			expander + "</controller>" + usbLine, usbLine,
		},
		{
			"disk", place, domain.Changes{},
			disk + "<alias name='ua-a'/></disk>", disk + address + "<alias name='ua-a'/></disk>",
		},
		{
			"hostdev", place, domain.Changes{},
			hostdev + "</hostdev>", hostdev + "\n\t\t\t" + address + "</hostdev>",
		},
		{
			"hostdev that is placed", place, domain.Changes{Place: at(1)},
			hostdev + "</hostdev>",
			hostdev + "\n\t\t\t" + strings.NewReplacer(`slot="0x01"`, `slot="0x00"`, "0x05", "0x01").
				Replace(address) + "</hostdev>",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := parse(t, in(c.before))
			c.changes.Complete = map[domain.Entry]domain.Completion{}
			for _, x := range d.Controllers {
				c.changes.Complete[x.Entry()] = c.has
			}

			for _, x := range d.Hostdevs {
				c.changes.Complete[x.Entry()] = c.has
			}

			for _, x := range d.Others {
				if x.Element == "disk" {
					c.changes.Complete[x.Entry()] = c.has
				}
			}

			expect.Same(t, in(c.after), string(apply(t, d, c.changes)), "-want +got")
		})
	}
}

// No value that a caller gives reaches the document as markup.
func TestApplyEscapes(t *testing.T) {
	const name = `ua-"'<&>` + "\n\x00"
	d := parse(t, in(usbLine))
	got := parse(t, apply(t, d, domain.Changes{
		AddHostdevs:    []domain.Hostdev{{ID: mdev(uuid), Alias: name}},
		AddControllers: []domain.Controller{{Index: 1, Model: domain.Model(name), Alias: name}},
	}))

	// What XML cannot hold becomes U+FFFD.
	want := strings.ReplaceAll(name, "\x00", "\ufffd")
	if got.Hostdevs[0].Alias != want || got.Controllers[0].Alias != want ||
		string(got.Controllers[0].Model) != want {
		t.Errorf("hostdev %+v, controller %+v", got.Hostdevs[0], got.Controllers[0])
	}
}

// A domain may have no <devices>: libvirt accepts it.
func TestAddToNoDevices(t *testing.T) {
	want := strings.ReplaceAll(in(added), "\r", "")
	for _, src := range []string{"<domain>\n</domain>\n", "<domain/>\n"} {
		d := parse(t, src)
		id, err := topology.ParseAddress("10000:01:1f.7")
		expect.NoError(t, err)
		got := apply(t, d,
			domain.Changes{AddHostdevs: []domain.Hostdev{{ID: topology.PCIDevice(id)}}})

		// No line shows how the document indents, so it indents as libvirt does.
		if flat := strings.ReplaceAll(got, "  ", "\t"); flat != want {
			t.Errorf("%q with a device:\n%s\nwant\n%s", src, got, want)
		}
	}
}
