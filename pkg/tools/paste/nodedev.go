package paste

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
	"hook-sidecar/pkg/words/lazyregexp"
)

// nodeDevice matches the beginning of a device in what virsh nodedev-dumpxml prints.
var nodeDevice = lazyregexp.New(`<device>\s*<name>`)

func isNodeDevices(t text) bool {
	return strings.Contains(t.all, "<device>") && nodeDevice.MatchString(t.all)
}

// libvirtDevice is a device of libvirt's node device driver (libvirt docs/formatnode.rst).
type libvirtDevice struct {
	Path       string `xml:"path"`
	Driver     string `xml:"driver>name"`
	Capability []struct {
		Type    string `xml:"type,attr"`
		Class   string `xml:"class"`
		Product struct {
			ID string `xml:"id,attr"`
		} `xml:"product"`
		Vendor struct {
			ID string `xml:"id,attr"`
		} `xml:"vendor"`
		Group *struct {
			Number int `xml:"number,attr"`
		} `xml:"iommuGroup"`
		NUMA *struct {
			Node string `xml:"node,attr"`
		} `xml:"numa"`
		Links []struct {
			Validity string `xml:"validity,attr"`
			Speed    string `xml:"speed,attr"`
			Width    string `xml:"width,attr"`
		} `xml:"pci-express>link"`
	} `xml:"capability"`
}

// readNodeDevices reads what virsh nodedev-dumpxml prints of PCI devices, one after the other. libvirt
// leaves out the NUMA node of a device that has none.
func readNodeDevices(t text) (Machine, error) {
	m := Machine{Sources: []Source{NodeDevices}, Farthest: topology.NODE}
	for _, at := range nodeDevice.FindAllStringIndex(t.all, 2*maxDevices) {
		line := strings.Count(t.all[:at[0]], "\n") + 1
		var is libvirtDevice
		err := xml.NewDecoder(strings.NewReader(t.all[at[0]:])).Decode(&is)
		if errors.Is(err, io.EOF) || err != nil && strings.Contains(err.Error(), "unexpected EOF") {
			m.note("the device of line %d is cut: it is left out", line)
			continue
		}

		if err == nil {
			err = m.addNodeDevice(is)
		}
		if err != nil {
			return Machine{}, fmt.Errorf("device of line %d: %w", line, err)
		}
	}

	m.lacksDrivers(func(*topology.Function) bool { return true })
	m, err := m.sorted()
	return m.withTree(), err
}

// addNodeDevice adds a device, if it is a PCI function.
func (m *Machine) addNodeDevice(is libvirtDevice) error {
	for _, pci := range is.Capability {
		if pci.Type != "pci" {
			continue
		}

		d, err := placeOf(is.Path)
		if err != nil {
			return err
		}

		d.Driver = is.Driver
		d.Vendor, d.Device = nodeDeviceID(pci.Vendor.ID), nodeDeviceID(pci.Product.ID)
		if _, err := fmt.Sscanf(pci.Class, "0x%06x", &d.Class); err != nil {
			return fmt.Errorf("%s: invalid class %q", d.Address, words.Abridge(pci.Class))
		}

		d.IsBridge = topology.IsBridgeClass(d.Class)
		if pci.Group != nil {
			d.IOMMUGroup = &pci.Group.Number
		}

		if pci.NUMA != nil {
			if d.Node, err = onNode(pci.NUMA.Node); err != nil {
				return fmt.Errorf("%s: %w", d.Address, err)
			}
		}

		for _, link := range pci.Links {
			if link.Validity == "cap" {
				d.MaxLink = linkOf(link.Speed+" GT/s", "x"+link.Width)
			}
		}

		m.Functions = append(m.Functions, d)
	}

	return nil
}

// nodeDeviceID reads "0x10de"; 0 for none.
func nodeDeviceID(value string) (id uint16) {
	if _, err := fmt.Sscanf(value, "0x%04x", &id); err != nil {
		return 0
	}
	return id
}
