package host

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
)

// xmlReader reads the two trees of devices that are written as XML.
type xmlReader struct {
	guest   Guest
	nodes   int  // NUMA nodes of lstopo's machine
	isLinux bool // elsewhere lstopo does not know the node of a device (hwloc's documentation, "I/O Devices")
}

// place is what the elements around a device say about it.
type place struct {
	root    topology.PCIeRoot
	bridges []topology.Address
	node    topology.Affinity
}

// parseGuestXML reads the XML of lstopo, versions 1 and 2 (hwloc.dtd, hwloc2.dtd), or NCCL's
// topology file, which NCCL_TOPO_DUMP_FILE names.
func parseGuestXML(data []byte) (Guest, error) {
	const maxDepth = 64 // of lstopo's objects above CPUs, and a bridge per bus; real trees have about ten
	decoder := xml.NewDecoder(bytes.NewReader(data))
	reader := &xmlReader{guest: Guest{IDs: true, Nodes: true, Paths: true}}
	places := []place{{}}
	for {
		line, column := decoder.InputPos()
		token, err := decoder.Token()
		if err == io.EOF {
			return reader.result()
		}
		switch token := token.(type) {
		case xml.StartElement:
			at := places[len(places)-1]
			err = reader.element(token, &at)
			if places = append(places, at); len(places) > maxDepth {
				err = fmt.Errorf("more than %d elements are nested", maxDepth)
			}
		case xml.EndElement:
			places = places[:len(places)-1]
		}
		var syntax *xml.SyntaxError
		if errors.As(err, &syntax) {
			err = errors.New(syntax.Msg)
		}
		if err != nil {
			return Guest{}, fmt.Errorf("line %d, column %d: %w", line, column, err)
		}
	}
}

// element reads the start of an element. What it says about those inside it is added to at.
func (r *xmlReader) element(e xml.StartElement, at *place) error {
	attributes := map[string]string{}
	for _, a := range e.Attr {
		attributes[a.Name.Local] = a.Value
	}
	switch r.guest.Source + "/" + e.Name.Local {
	case "/topology":
		r.guest.Source = FromLstopo
	case "/system":
		r.guest.Source = FromNCCL
	case FromLstopo + "/info":
		r.isLinux = r.isLinux || attributes["name"] == "OSName" && attributes["value"] == "Linux"
	case FromLstopo + "/object":
		return r.object(attributes, at)
	case FromNCCL + "/cpu":
		at.root = topology.PCIeRoot("cpu " + attributes["host_hash"] + attributes["numaid"])
		if attributes["numaid"] == "-1" { // no node
			break
		}
		node, err := parseNode(attributes["numaid"])
		if err != nil {
			return err
		}
		at.node = topology.OnNode(node)
	case FromNCCL + "/pci":
		return r.pci(attributes, at)
	default:
		if r.guest.Source == "" {
			return fmt.Errorf("<%s> is neither lstopo's <topology> nor NCCL's <system>", topology.Abridge(e.Name.Local))
		}
	}
	return nil
}

// object reads an object of lstopo. Devices and the bridges above them are inside the object whose
// CPUs they are near.
func (r *xmlReader) object(attributes map[string]string, at *place) (err error) {
	if nodeset := attributes["nodeset"]; nodeset != "" {
		at.node = onlyNode(nodeset)
	}
	var d topology.Device
	busID, hasAddress := attributes["pci_busid"]
	if hasAddress {
		if d.Address, err = topology.ParseAddress(busID); err != nil {
			return err
		}
	}
	switch kind := attributes["type"]; {
	case kind == "NUMANode":
		r.nodes++
	case kind == "Bridge" && hasAddress:
		at.bridges = append(slices.Clip(at.bridges), d.Address)
	case kind == "Bridge": // a host bridge with its buses, "0000:[e0-e4]"
		first, _, _ := strings.Cut(strings.Replace(attributes["bridge_pci"], "[", "", 1), "-")
		bus, err := topology.ParseAddress(first + ":00.0")
		at.root = topology.PCIeRoot(fmt.Sprintf("pci%04x:%02x", bus.Domain, bus.Bus))
		return err
	case kind == "PCIDev":
		if _, err := fmt.Sscanf(attributes["pci_type"], "%4x [%4x:%4x]", &d.Class, &d.Vendor, &d.Device); err != nil {
			return fmt.Errorf("invalid pci_type %q: want class and ids, such as 0302 [10de:2330]", topology.Abridge(attributes["pci_type"]))
		}
		d.Class <<= 8
		return r.add(d, at)
	}
	return nil
}

// pci reads a switch or a device of NCCL's file. Of a switch it has the upstream port; stand-ins for
// the ports above and below make the path one of sysfs. Older versions write no IDs.
func (r *xmlReader) pci(attributes map[string]string, at *place) error {
	var numbers [3]uint64
	for i, name := range []string{"class", "vendor", "device"} {
		n, err := strconv.ParseUint(attributes[name], 0, 24)
		if attributes[name] != "" && err != nil {
			return fmt.Errorf("invalid %s %q: want a number such as 0x030200", name, topology.Abridge(attributes[name]))
		}
		numbers[i] = n
	}
	address, err := topology.ParseAddress(attributes["busid"])
	if err != nil {
		return err
	}
	port := address
	port.Domain = ^port.Domain
	at.bridges = append(slices.Clip(at.bridges), port)
	const bridge = 0x0604
	if numbers[0]>>8 == bridge {
		at.bridges = append(at.bridges, address)
		return nil
	}
	r.guest.IDs = r.guest.IDs && numbers[1] != 0
	return r.add(topology.Device{Address: address, Class: uint32(numbers[0]), Vendor: uint16(numbers[1]), Device: uint16(numbers[2])}, at)
}

func (r *xmlReader) add(d topology.Device, at *place) error {
	d.Root, d.Bridges, d.Node = at.root, at.bridges, at.node
	r.guest.Devices = append(r.guest.Devices, d)
	if len(r.guest.Devices) > maxGuestDevices {
		return fmt.Errorf("more than %d devices", maxGuestDevices)
	}
	return nil
}

func (r *xmlReader) result() (Guest, error) {
	if len(r.guest.Devices) == 0 {
		return Guest{}, errors.New("no PCI devices in it; lstopo on Windows reads none")
	}
	// With one node lstopo shows a device without a node at the same place as one on it.
	r.guest.Nodes = r.guest.Source == FromNCCL || r.isLinux && r.nodes > 1
	for i := range r.guest.Devices {
		if !r.guest.Nodes {
			r.guest.Devices[i].Node = topology.Affinity{}
		}
	}
	return r.guest, nil
}

// onlyNode returns the node of a set with one, else none. hwloc writes words of 32 bits, the
// highest first, and leaves out those that are 0: "0x00000001,,0x0" (hwloc_bitmap_snprintf).
func onlyNode(nodeset string) topology.Affinity {
	var found []int
	words := strings.Split(nodeset, ",")
	for i, word := range words {
		value, err := strconv.ParseUint(strings.TrimPrefix(word, "0x"), 16, 32)
		if word != "" && err != nil || bits.OnesCount64(value) > 1 {
			return topology.Affinity{}
		}
		if value != 0 {
			found = append(found, 32*(len(words)-1-i)+bits.TrailingZeros64(value))
		}
	}
	if len(found) != 1 {
		return topology.Affinity{}
	}
	return topology.OnNode(topology.NodeID(found[0]))
}
