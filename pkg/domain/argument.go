package domain

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/words"
	"hook-sidecar/pkg/words/lazyregexp"
)

// CommandLine lists the PCI devices that qemu:commandline adds to the guest. libvirt does not read
// it, so the addresses that libvirt chooses leave no room for these devices.
type CommandLine struct {
	// Devices are the PCI devices in the order in which QEMU makes them: first those with options,
	// before any of libvirt's, then those in JSON, after all of libvirt's (softmmu/vl.c,
	// qemu_create_cli_devices; asked of QEMU 7.2 and 10.0).
	Devices []ArgumentDevice

	// Unclear has a text for each argument that names a PCI device, a bus, a chassis or a bus
	// number in a form that is not understood. It quotes what names the place, and nothing else.
	Unclear []string
}

// ArgumentDevice is a PCI device that an argument of QEMU adds.
type ArgumentDevice struct {
	Driver   string
	ID       string // "" without one
	IsBridge bool   // takes a bus number after that of the bus that it is on
	BusNr    *int   // of an expander bus
	Chassis  *int   // of a port, nil for QEMU's default of 0, which libvirt gives to none

	Parent int // position of the device whose bus it is on, or NoParent
	Bus    int // without a parent: index of the controller whose bus it is on
	Slot   int // topology.NoSlot where QEMU takes one that libvirt has left
}

// NoParent is the Parent of a device on a bus of libvirt's.
const NoParent = -1

// String quotes what names the device and its place.
func (a ArgumentDevice) String() string {
	return quoteDevice(properties{"driver": a.Driver, "id": a.ID})
}

// IsOnRootBus reports whether the device is on the root bus itself.
func (a ArgumentDevice) IsOnRootBus() bool { return a.Parent == NoParent && a.Bus == 0 }

// BusNumbers returns how many bus numbers a device takes with all that is under it.
func (l CommandLine) BusNumbers(position int) (count int) {
	if d := l.Devices[position]; d.IsBridge || d.BusNr != nil {
		count++
	}

	for i := position + 1; i < len(l.Devices); i++ { // QEMU makes a bus before what is on it
		if l.Devices[i].Parent == position {
			count += l.BusNumbers(i)
		}
	}

	return count
}

// IDs returns the ids of the devices: QEMU refuses a second device of an id.
func (l CommandLine) IDs() (ids []string) {
	for _, d := range l.Devices {
		if d.ID != "" {
			ids = append(ids, d.ID)
		}
	}

	return ids
}

// properties are the properties of a device in qemu:commandline that its place depends on, as
// QEMU's options spell them. Others are not kept: one can be a secret.
type properties map[string]string

// deviceProperties are the names of properties, placeProperties those that only a PCI device has.
var (
	placeProperties  = []string{"addr", "chassis", "bus_nr"}
	deviceProperties = append([]string{"driver", "id", "bus"}, placeProperties...)
)

// The drivers of bridges, and of expander buses (QEMU hw/pci-bridge).
var (
	bridgeDrivers = []string{
		"pcie-root-port", "ioh3420", "x3130-upstream", "xio3130-downstream", "cxl-rp",
		"cxl-upstream", "cxl-downstream", "pci-bridge", "pci-bridge-seat", "pcie-pci-bridge",
		"i82801b11-bridge",
	}
	expanderDrivers = []string{"pxb", "pxb-pcie", "pxb-cxl"}
)

func (p properties) isBridge() bool { return slices.Contains(bridgeDrivers, p["driver"]) }

func (a ArgumentDevice) isExpander() bool { return slices.Contains(expanderDrivers, a.Driver) }

// namePlace reports whether the properties are those of a PCI device, whatever its bus.
func (p properties) namePlace() bool {
	return p.isBridge() || slices.Contains(expanderDrivers, p["driver"]) ||
		slices.ContainsFunc(placeProperties, func(name string) bool { return p[name] != "" })
}

// jsonProperties reads JSON. Of one that is no JSON it returns what looks like a property, too.
func jsonProperties(value string) (properties, error) {
	p, all := properties{}, map[string]any{}
	decoder := json.NewDecoder(strings.NewReader(value))
	decoder.UseNumber()
	if err := decoder.Decode(&all); err != nil {
		for _, found := range propertyInText.FindAllStringSubmatch(value, -1) {
			p[found[1]] = found[2]
		}
		return p, errors.New("it is not the JSON of one device")
	}

	for _, name := range deviceProperties {
		switch set := all[name].(type) {
		case nil:
		case string:
			p[name] = set
		case json.Number:
			p[name] = numberText(name, set)
		default:
			p[name] = fmt.Sprint(set)
		}
	}

	return p, nil
}

var propertyInText = lazyregexp.New(
	`\b(driver|id|bus|addr|chassis|bus_nr)["']?\s*[:=]\s*["']?([^"',}\s]*)`)

// numberText returns a number in JSON as options spell it. Of an address it is slot and function
// (hw/core/qdev-properties-system.c, set_pci_devfn).
func numberText(name string, n json.Number) string {
	if v, err := strconv.ParseUint(n.String(), 10, 8); name == "addr" && err == nil {
		return fmt.Sprintf("%x.%x", v>>3, v&7)
	}
	return n.String()
}

// readNumbers reads slot, chassis and bus number of a device.
func (a *ArgumentDevice) readNumbers(p properties) error {
	if addr := p["addr"]; addr != "" {
		slot, function, isLong := strings.Cut(addr, ".")
		if !isLong {
			function = "0"
		}

		number, isSlot := hex(slot, 31)
		if _, isFunction := hex(function, 7); !isSlot || !isFunction {
			return errors.New("addr is not SLOT.FUNCTION in hex")
		}

		a.Slot = number
	}

	var err error
	if a.Chassis, err = p.byteNumber("chassis"); err == nil {
		a.BusNr, err = p.byteNumber("bus_nr")
	}

	return err
}

// byteNumber reads a property of 8 bits, nil where it is absent.
func (p properties) byteNumber(name string) (*int, error) {
	if p[name] == "" {
		return nil, nil
	}

	n, isNumber := number(p[name], 0)
	if !isNumber || n > 255 {
		return nil, fmt.Errorf("%s is not a number from 0 to 255", name)
	}

	return new(int(n)), nil
}

// hex reads a number as scanf's %x does.
func hex(s string, most int) (n int, ok bool) {
	v, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X"), 16, 8)
	return int(v), err == nil && int(v) <= most
}

// quoteDevice quotes a device by the properties that name it and its place, shortened and with
// control characters escaped.
func quoteDevice(p properties) string {
	var named []string
	for _, name := range deviceProperties {
		if value := words.Abridge(p[name]); name == "driver" {
			named = append(named, value)
		} else if value != "" {
			named = append(named, name+"="+value)
		}
	}

	return fmt.Sprintf("-device %q", strings.Join(named, ","))
}

// isOtherKind reports whether a driver is not a PCI device's, by its name.
func isOtherKind(driver string) bool {
	hasPrefix := func(p string) bool { return strings.HasPrefix(driver, p) }
	hasSuffix := func(s string) bool { return strings.HasSuffix(driver, s) }
	return slices.ContainsFunc(otherPrefixes, hasPrefix) ||
		slices.ContainsFunc(otherSuffixes, hasSuffix)
}

// The names of devices on other buses than PCI ("-device help"), and of those of the machine.
// usb-ehci and pci-ohci are PCI devices, ich9-usb-* too.
var (
	otherPrefixes = []string{
		"isa-", "scsi-", "ide-", "hda-", "tpm-", "virtserialport", "virtconsole", "usb-host",
		"usb-redir", "usb-tablet", "usb-mouse", "usb-kbd", "usb-storage", "usb-hub", "usb-net",
		"usb-audio", "usb-serial", "usb-ccid", "usb-mtp", "usb-bot", "usb-uas", "usb-wacom",
		"usb-braille", "u2f-", "ccid-card", "vmgenid", "vmcoreinfo", "pvpanic", "loader",
		"guest-loader", "ib700", "sga", "fw_cfg",
	}
	otherSuffixes = []string{"-device", "-iommu", "-dimm", "nvdimm", "-hdd", "-hd", "-cd", "smmuv3"}
)
