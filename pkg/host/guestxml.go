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

// element is an element of lstopo's XML, versions 1 and 2 (hwloc.dtd, hwloc2.dtd), or of NCCL's
// topology file (src/graph/xml.cc).
type element struct {
	XMLName    xml.Name
	Attributes []xml.Attr `xml:",any,attr"`
	Children   []element  `xml:",any"`
}

func (e element) attribute(name string) string {
	for _, a := range e.Attributes {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// xmlReader collects the devices of a file.
type xmlReader struct {
	devices []topology.Device
	nodes   map[string]topology.Affinity // NUMA nodes of lstopo's machine, by the nodesets of what is near them
	count   int                          // of these nodes, without those of memory alone
	isLinux bool                         // elsewhere lstopo does not know the node of a device (hwloc's documentation, "I/O Devices")
}

// parseGuestXML reads the XML of lstopo, or the file that NCCL_TOPO_DUMP_FILE names.
func parseGuestXML(text string) (Guest, error) {
	var file element
	if err := xml.Unmarshal([]byte(text), &file); err != nil {
		return Guest{}, err
	}
	source := map[string]string{"topology": FromLstopo, "system": FromNCCL}[file.XMLName.Local]
	if source == "" {
		return Guest{}, fmt.Errorf("<%s> is neither lstopo's <topology> nor NCCL's <system>", topology.Abridge(file.XMLName.Local))
	}
	r := &xmlReader{nodes: map[string]topology.Affinity{}}
	if err := r.add(file, topology.Device{}, ""); err != nil {
		return Guest{}, err
	}
	// With one node lstopo shows a device without a node at the same place as one on it.
	guest := Guest{Host: topology.Host{Devices: r.devices}, Source: source, HasNodes: source == FromNCCL || r.isLinux && r.count > 1}
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

// add adds the devices in an element. The enclosing elements give at and nodeset.
func (r *xmlReader) add(e element, at topology.Device, nodeset string) (err error) {
	nodeset = cmp.Or(e.attribute("nodeset"), nodeset)
	switch e.XMLName.Local {
	case "info":
		r.isLinux = r.isLinux || e.attribute("name") == "OSName" && e.attribute("value") == "Linux"
	case "object":
		err = r.object(e, &at, nodeset)
	case "cpu":
		node := e.attribute("numaid")
		at.Root = topology.PCIeRoot("cpu " + e.attribute("host_hash") + node) // no more is known of it
		if node != "-1" {
			at.Node, err = onNode(node)
		}
	case "pci":
		err = r.pci(e, &at)
	}
	if len(at.Bridges) > maxPathDepth {
		return fmt.Errorf("more than %d bridges above %s", maxPathDepth, at.Address)
	}
	err = cmp.Or(err, r.addNear(e, nodeset))
	for _, inner := range e.Children {
		err = cmp.Or(err, r.add(inner, at, nodeset))
	}
	return err
}

// addNear adds the NUMA node of what is near several, if all but one are memory alone, as HBM is
// beside a package's DRAM: the kernel counts no device in those.
func (r *xmlReader) addNear(e element, nodeset string) error {
	all, main := 0, []element{}
	for _, inner := range e.Children {
		if inner.attribute("type") != "NUMANode" {
			continue
		}
		all++
		if !isMemoryAlone(inner) {
			main = append(main, inner)
		}
	}
	if all < 2 || all != size(nodeset) || len(main) != 1 {
		return nil
	}
	node, err := onNode(main[0].attribute("os_index"))
	r.nodes[nodeset] = node
	return err
}

// isMemoryAlone reports whether a NUMA node is memory beside another node's (hwloc's documentation,
// "Heterogeneous Memory").
func isMemoryAlone(e element) bool {
	return slices.Contains([]string{"HBM", "MCDRAM", "NVM", "SPM", "GPUMemory", "CXL-DRAM", "CXL-NVM"}, e.attribute("subtype"))
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

// object reads an object of lstopo. Devices and the bridges above them are inside the object whose
// CPUs they are near, after its NUMA nodes (hwloc topology-xml.c, hwloc__xml_export_object_contents).
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
			return fmt.Errorf("invalid bridge_pci %q: want buses such as 0000:[e0-e4]", topology.Abridge(buses))
		}
	case kind == "PCIDev":
		ids := e.attribute("pci_type")
		if _, err := fmt.Sscanf(ids, "%4x [%4x:%4x]", &at.Class, &at.Vendor, &at.Device); err != nil {
			return fmt.Errorf("invalid pci_type %q: want class and ids, such as 0302 [10de:2330]", topology.Abridge(ids))
		}
		at.Class <<= 8
		at.Node = r.nodes[nodeset] // none for a set of several
		r.devices = append(r.devices, *at)
	}
	return err
}

// pci reads a switch or a device of NCCL's file. Of a switch it has the upstream port; stand-ins for
// the ports above and below make the path one of sysfs. Older versions write no IDs.
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
