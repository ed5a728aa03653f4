package host

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
)

// element is the start of an element of lstopo's XML, versions 1 and 2 (hwloc.dtd, hwloc2.dtd), or
// of NCCL's topology file (src/graph/xml.cc).
type element xml.StartElement

func (e element) attribute(name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// xmlReader collects the devices of a file.
type xmlReader struct {
	devices []topology.Device
	// NUMA nodes of lstopo's machine, by the nodesets of what is near them
	nodes map[string]topology.Affinity
	count int // of these nodes, without those of memory alone
	// elsewhere lstopo does not know the node of a device (hwloc's documentation, "I/O Devices")
	isLinux bool
}

// xmlPlace is an open XML element, with the root, bridges and NUMA node of the devices inside it.
type xmlPlace struct {
	at      topology.Device // what is known of a device there
	nodeset string
	all     int                 // NUMA nodes directly inside it, so far
	main    []topology.Affinity // of these, those that are more than memory
}

// parseGuestXML reads the XML of lstopo, or the file that NCCL_TOPO_DUMP_FILE names. It holds no
// more of the file than its devices. An error names the line.
func parseGuestXML(text string) (Guest, error) {
	r := &xmlReader{nodes: map[string]topology.Affinity{}}
	source, err := r.read(xml.NewDecoder(strings.NewReader(text)))
	if err != nil {
		return Guest{}, err
	}

	guest := Guest{Host: topology.Host{Devices: r.devices}, Source: source}

	// With one node lstopo shows a device without a node at the same place as one on it.
	guest.HasNodes = source == FromNCCL || r.isLinux && r.count > 1

	for i := range guest.Devices {
		if !guest.HasNodes {
			guest.Devices[i].Node = topology.Affinity{}
		}
	}

	if err := guest.sort(); err != nil {
		return Guest{}, err
	}

	return guest.withTree(), nil
}

// read reads the devices of a file, and returns which program wrote it.
func (r *xmlReader) read(decoder *xml.Decoder) (source string, err error) {
	open := []xmlPlace{{}} // of the elements around, the outermost first
	for {
		token, err := decoder.Token()
		if err != nil {
			return "", err // a syntax error has its line
		}

		switch t := token.(type) {
		case xml.StartElement:
			if source == "" {
				if source, err = sourceOf(t.Name.Local); err != nil {
					return "", err
				}
			}

			inside, err := r.enter(element(t), &open[len(open)-1])
			if err != nil {
				line, _ := decoder.InputPos()
				return "", fmt.Errorf("line %d: %w", line, err)
			}

			open = append(open, inside)
		case xml.EndElement:
			if open = open[:len(open)-1]; len(open) == 1 {
				return source, nil
			}
		}
	}
}

// sourceOf returns the program that writes files with this outermost element.
func sourceOf(name string) (string, error) {
	switch name {
	case "topology":
		return FromLstopo, nil
	case "system":
		return FromNCCL, nil
	}

	return "", fmt.Errorf("<%s> is neither lstopo's <topology> nor NCCL's <system>",
		topology.Abridge(name))
}

// enter reads an element that is inside another, and returns what it says of those inside it.
func (r *xmlReader) enter(e element, around *xmlPlace) (xmlPlace, error) {
	in := xmlPlace{at: around.at, nodeset: cmp.Or(e.attribute("nodeset"), around.nodeset)}
	var err error
	switch e.Name.Local {
	case "info":
		r.isLinux = r.isLinux || e.attribute("name") == "OSName" && e.attribute("value") == "Linux"
	case "object":
		err = r.object(e, &in.at, in.nodeset)
		if err == nil && e.attribute("type") == "NUMANode" {
			r.addNear(e, around, r.nodes[in.nodeset])
		}

	case "cpu":
		node := e.attribute("numaid")

		// no more is known of it
		in.at.Root = topology.PCIeRoot("cpu " + e.attribute("host_hash") + node)
		if node != "-1" {
			in.at.Node, err = onNode(node)
		}

	case "pci":
		err = r.pci(e, &in.at)
	}

	switch {
	case err != nil:
		return in, err
	case len(in.at.Bridges) > maxPathDepth:
		return in, fmt.Errorf("more than %d bridges above %s", maxPathDepth, in.at.Address)
	case len(r.devices) > maxDevices:
		return in, errTooMany
	}

	return in, nil
}

// addNear notes a NUMA node that is directly inside an element. Where several are and all but one
// are memory alone, as HBM is beside a package's DRAM, what is near them all is on that one: the
// kernel counts no device in the others.
func (r *xmlReader) addNear(e element, around *xmlPlace, node topology.Affinity) {
	around.all++
	if !isMemoryAlone(e) {
		around.main = append(around.main, node)
	}

	if around.all > 1 && around.all == size(around.nodeset) && len(around.main) == 1 {
		r.nodes[around.nodeset] = around.main[0]
	}
}

// isMemoryAlone reports whether a NUMA node is memory beside another node's (hwloc's documentation,
// "Heterogeneous Memory").
func isMemoryAlone(e element) bool {
	return slices.Contains([]string{
		"HBM", "MCDRAM", "NVM", "SPM", "GPUMemory", "CXL-DRAM", "CXL-NVM",
	}, e.attribute("subtype"))
}

// size returns how many nodes a nodeset has, a mask such as 0x00000001,,0x00000003.
func size(nodeset string) int {
	count := 0
	for part := range strings.SplitSeq(nodeset, ",") {
		mask, _ := strconv.ParseUint(strings.TrimPrefix(part, "0x"), 16, 64)
		count += bits.OnesCount64(mask)
	}

	return count
}

// object reads an object of lstopo. Devices and the bridges above them are inside the object
// whose CPUs they are near, after its NUMA nodes (hwloc topology-xml.c,
// hwloc__xml_export_object_contents).
func (r *xmlReader) object(e element, at *topology.Device, nodeset string) (err error) {
	address := e.attribute("pci_busid")
	if address != "" {
		if at.Address, err = topology.ParseAddress(address); err != nil {
			return err
		}
	}

	switch kind := e.attribute("type"); {
	case kind == "NUMANode":
		r.nodes[nodeset], err = onNode(e.attribute("os_index"))
		if !isMemoryAlone(e) {
			r.count++
		}

	case kind == "Bridge" && address != "":
		at.Bridges = append(slices.Clip(at.Bridges), at.Address)
	case kind == "Bridge": // a host bridge with its buses, "0000:[e0-e4]"
		buses := e.attribute("bridge_pci")
		first, _, _ := strings.Cut(strings.Replace(buses, "[", "", 1), "-")
		if at.Root = topology.PCIeRoot("pci" + first); !isRoot(at.Root.String()) {
			return fmt.Errorf("invalid bridge_pci %q: want buses such as 0000:[e0-e4]",
				topology.Abridge(buses))
		}

	case kind == "PCIDev":
		ids := e.attribute("pci_type")
		if _, err := fmt.Sscanf(ids, "%4x [%4x:%4x]", &at.Class, &at.Vendor,
			&at.Device); err != nil {
			return fmt.Errorf("invalid pci_type %q: want class and ids, such as 0302 [10de:2330]",
				topology.Abridge(ids))
		}

		at.Class <<= 8
		at.Node = r.nodes[nodeset] // none for a set of several
		r.devices = append(r.devices, *at)
	}

	return err
}

// pci reads a switch or a device of NCCL's file. Of a switch it has the upstream port; stand-ins
// for the ports above and below make the path one of sysfs. Older versions write no IDs.
func (r *xmlReader) pci(e element, at *topology.Device) (err error) {
	if at.Address, err = topology.ParseAddress(e.attribute("busid")); err != nil {
		return err
	}

	var numbers [3]uint64
	for i, name := range []string{"class", "vendor", "device"} {
		if numbers[i], err = parseHex(cmp.Or(e.attribute(name), "0"), 24); err != nil {
			return fmt.Errorf("%s: %s: %w", at.Address, name, err)
		}
	}

	port := at.Address
	port.Domain = ^port.Domain
	at.Bridges = append(slices.Clip(at.Bridges), port)
	if numbers[0]>>8 == classBridgePCI {
		at.Bridges = append(at.Bridges, at.Address)
		return nil
	}

	at.Class, at.Vendor, at.Device = uint32(numbers[0]), uint16(numbers[1]), uint16(numbers[2])
	r.devices = append(r.devices, *at)
	return nil
}
