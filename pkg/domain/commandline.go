package domain

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// commandLine reads what qemu:commandline has of PCI buses. indexOf finds a controller by QEMU's
// name for it.
func (r *reader) commandLine(root *xmledit.Element, indexOf func(name string) (int, bool)) {
	l := lineReader{indexOf: indexOf}
	pairs, _ := pairArgs(root)
	var inJSON []string
	for _, pair := range pairs {
		option, value := pair[0].Value("value"), pair[1].Value("value")
		option = "-" + strings.TrimLeft(option, "-") // softmmu/vl.c, lookup_opt
		isNIC := option == "-nic" && value != "none" || option == "-net" && isNIC(value)
		switch {
		case option == "-device" && strings.HasPrefix(value, "{"):
			inJSON = append(inJSON, value)
		case option == "-device", isNIC:
			l.add(optionProperties(value), false)
		default:
			l.other(option, value)
		}
	}

	for _, value := range inJSON {
		l.addJSON(value)
	}

	r.domain.CommandLine = l.CommandLine
}

func isNIC(value string) bool { return value == "nic" || strings.HasPrefix(value, "nic,") }

// optionProperties reads DRIVER,KEY=VALUE,…
func optionProperties(value string) properties {
	p := properties{}
	if first, _, _ := strings.Cut(value, ","); !strings.Contains(first, "=") {
		p["driver"] = first
	}

	for name, set := range (Option{Value: value}).keys() {
		if slices.Contains(deviceProperties, name) {
			p[name] = set
		}
	}

	return p
}

// lineReader reads arguments in the order in which QEMU makes their devices.
type lineReader struct {
	CommandLine
	indexOf func(name string) (int, bool)
}

// unclear notes an argument that is not understood.
func (l *lineReader) unclear(argument, why string) {
	l.Unclear = append(l.Unclear, argument+": "+why)
}

// other notes an option that moves a device without adding it, or adds some that are not shown.
func (l *lineReader) other(option, value string) {
	name, set, _ := strings.Cut(value, "=")
	property := name[strings.LastIndex(name, ".")+1:]
	if o := (Option{option, value}); option == OptionGlobal {
		name, property, set = o.global()
		name += "." + property
	}

	switch isPlace := slices.Contains(placeProperties, property); {
	case option == "-readconfig":
		l.unclear(fmt.Sprintf("-readconfig %q", words.Abridge(value)),
			"the file can have devices, which are not shown")
	case isPlace && (option == OptionGlobal || option == "-set"):
		l.unclear(fmt.Sprintf("%s %q", option, words.Abridge(name)+"="+words.Abridge(set)),
			"it gives a device another place")
	}
}

// addJSON adds a device in JSON.
func (l *lineReader) addJSON(value string) {
	p, err := jsonProperties(value)
	if err == nil {
		l.add(p, true)
		return
	}

	if p.namePlace() {
		l.unclear(quoteDevice(p), err.Error())
	}
}

// add adds a device, if it is a PCI device.
func (l *lineReader) add(p properties, isJSON bool) {
	d := ArgumentDevice{
		Driver: p["driver"], ID: p["id"], IsBridge: p.isBridge(), Parent: NoParent, Slot: topology.NoSlot,
	}

	isPCI, err := l.plug(&d, p, isJSON)
	if err == nil && isPCI {
		err = d.readNumbers(p)
	}

	switch {
	case err != nil:
		l.unclear(quoteDevice(p), err.Error())
	case isPCI:
		if d.Slot == topology.NoSlot && d.IsOnRootBus() && !isJSON {
			d.Slot = l.lowestSlot()
		}
		l.Devices = append(l.Devices, d)
	}
}

// plug finds the bus that a device is on. isPCI is false for a device of another kind.
func (l *lineReader) plug(d *ArgumentDevice, p properties, isJSON bool) (isPCI bool, err error) {
	name, isPlaced := p["bus"], p.namePlace()
	index, isController := l.indexOf(name)
	parent := slices.IndexFunc(l.Devices, func(a ArgumentDevice) bool {
		return a.ID == name && (a.IsBridge || a.isExpander())
	})
	switch {
	case name == "" && !isPlaced && isOtherKind(d.Driver):
		return false, nil
	case name == "" && isJSON:
		// The last expander bus comes first in qbus_find_recursive (softmmu/qdev-monitor.c).
		return false, fmt.Errorf("it has no bus, and in JSON QEMU would put it on the last " +
			"expander bus: add bus, such as pcie.0")
	case name == "":
		d.Parent = l.lastExpander()
	case name == rootBusName:
	case parent >= 0:
		d.Parent = parent
	case isController && index > 0:
		d.Bus = index
	case isPlaced || strings.HasPrefix(name, "pci"):
		return false, fmt.Errorf("the bus is not known")
	default:
		return false, nil
	}

	return true, nil
}

// rootBusName is libvirt's name for the root bus of q35 and virt.
const rootBusName = "pcie.0"

// lastExpander returns the position of the last expander bus, which takes the devices without a
// bus that follow; NoParent where the root bus does.
func (l *lineReader) lastExpander() int {
	for i, d := range slices.Backward(l.Devices) {
		if d.isExpander() {
			return i
		}
	}

	return NoParent
}

// lowestSlot returns the slot of the root bus that QEMU gives a device with options and without an
// address: of libvirt's devices there is none yet (hw/pci/pci.c, do_pci_register_device).
func (l *lineReader) lowestSlot() int {
	slot := 1 // 0 is the chipset's
	for slices.ContainsFunc(l.Devices, func(a ArgumentDevice) bool {
		return a.IsOnRootBus() && a.Slot == slot
	}) {
		slot++
	}

	return slot
}
