package paste

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
	"hook-sidecar/pkg/words/lazyregexp"
)

var lstopoTag = lazyregexp.New(`<topology[ >]`)

func isLstopoXML(t text) bool {
	return strings.Contains(t.all, "<topology") && lstopoTag.MatchString(t.all)
}

// lstopoReader collects the devices of a file of lstopo, versions 1 to 3 (hwloc.dtd, hwloc2.dtd).
type lstopoReader struct {
	m     Machine
	nodes map[string]topology.Affinity // NUMA nodes, by the nodesets of what is near them
	count int                          // of these nodes, without those of memory alone
	// another system than Linux, where lstopo does not know the node of a device (hwloc's
	// documentation, "I/O Devices")
	isOther bool

	hasInterface map[topology.Address]bool // functions with a software device that is not for RDMA
}

// lstopoPlace is an open XML element, with the root, bridges and NUMA node of the devices inside
// it.
type lstopoPlace struct {
	at      topology.Function // what is known of a device there
	nodeset string
	all     int                 // NUMA nodes directly inside it, so far
	main    []topology.Affinity // of these, those that are more than memory
}

// readLstopoXML reads lstopo --of xml. It holds no more of the file than its devices.
func readLstopoXML(t text) (Machine, error) {
	r := &lstopoReader{
		m:     Machine{Sources: []Source{Lstopo}, Farthest: topology.NODE},
		nodes: map[string]topology.Affinity{}, hasInterface: map[topology.Address]bool{},
	}
	if err := walkXML(t, lstopoTag, r.enter); err != nil {
		return Machine{}, err
	}

	if r.isOther || r.count < 2 {
		r.m.forgetNodes()
	}

	m, err := r.m.sorted()
	m.lacksRDMA(r.hasInterface)
	return m.withTree(), err
}

// forgetNodes drops the NUMA nodes of devices where lstopo does not tell them: with one node in the
// machine, it shows a device without a node at the same place as one on it.
func (m *Machine) forgetNodes() {
	for i := range m.Functions {
		d := &m.Functions[i]
		d.Node = topology.Affinity{}
		m.lacksNode(d.Address)
	}
}

// enter reads an element that is inside another, and returns what it says of those inside it.
func (r *lstopoReader) enter(e element, around *lstopoPlace) (lstopoPlace, error) {
	// PCI devices and bridges have no nodeset: they have that of the object which they are in.
	in := lstopoPlace{at: around.at, nodeset: cmp.Or(e.attribute("nodeset"), around.nodeset)}
	var err error
	switch e.Name.Local {
	case "info":
		r.isOther = r.isOther || e.attribute("name") == "OSName" && e.attribute("value") != "Linux"
		if kind := lstopoIdentities[e.attribute("name")]; kind != "" && around.at.Class != 0 {
			r.m.identify(around.at.Address, kind, e.attribute("value"))
		}
	case "object":
		err = r.object(e, &in)
		if err == nil && e.attribute("type") == "NUMANode" {
			r.addNear(e, around, r.nodes[in.nodeset])
		}
	}

	switch {
	case err != nil:
		return in, err
	case len(in.at.Bridges) > maxDepth:
		return in, fmt.Errorf("more than %d bridges above %s", maxDepth, in.at.Address)
	case len(r.m.Functions) > maxDevices || len(r.m.NUMA) > maxDevices:
		return in, errTooMany
	}

	return in, nil
}

// lstopoIdentities are the infos of devices that name them on the host and in a guest alike
// (hwloc's documentation, "OS devices").
var lstopoIdentities = map[string]string{
	"NVIDIAUUID": gpuUUID, "AMDUUID": gpuUUID, "NVIDIASerial": serialNumber,
	"AMDSerial": serialNumber, "NodeGUID": nodeGUID,
}

// addNear notes a NUMA node that is directly inside an element. Where several are and all but one
// are memory alone, as HBM is beside a package's DRAM, what is near them all is on that one: the
// kernel counts no device in the others.
func (r *lstopoReader) addNear(e element, around *lstopoPlace, node topology.Affinity) {
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

// object reads an object. Devices and the bridges above them are inside the object whose CPUs they
// are near, after its NUMA nodes (hwloc topology-xml.c, hwloc__xml_export_object_contents).
func (r *lstopoReader) object(e element, in *lstopoPlace) (err error) {
	at, address := &in.at, e.attribute("pci_busid")
	if address != "" {
		if at.Address, err = topology.ParseAddress(address); err != nil {
			return err
		}
	}

	switch kind := e.attribute("type"); {
	case kind == "NUMANode":
		return r.node(e, in.nodeset)
	case kind == "Bridge" && address != "":
		at.Bridges = append(slices.Clip(at.Bridges), at.Address)
	case kind == "Bridge": // a host bridge with its buses, "0000:[e0-e4]"
		buses := e.attribute("bridge_pci")
		first, _, _ := strings.Cut(strings.Replace(buses, "[", "", 1), "-")
		if _, err := topology.ParseAddress(first + ":00.0"); err != nil {
			return fmt.Errorf("invalid bridge_pci %q: want buses such as 0000:[e0-e4]",
				words.Abridge(buses))
		}
		at.Root = topology.PCIeRoot("pci" + first)

	case kind == "PCIDev":
		return r.function(e, in)
	case kind == "OSDev" && at.Class != 0: // inside the device that it is a part of
		if isOpenFabrics(e.attribute("osdev_type")) {
			r.m.name(at.Address, e.attribute("name"))
		} else {
			r.hasInterface[at.Address] = true
		}
	}

	return nil
}

// isOpenFabrics reports whether a type of software device is that of RDMA: 3 up to hwloc 2, and a
// bit in hwloc 3, where mlx5_0 has 48 (include/hwloc.h, HWLOC_OBJ_OSDEV_OPENFABRICS).
func isOpenFabrics(osdevType string) bool {
	const until2, since3 = 3, 1 << 5
	n, err := strconv.Atoi(osdevType)
	return err == nil && (n == until2 || n&since3 != 0) || osdevType == "OpenFabrics"
}

// node reads a NUMA node.
func (r *lstopoReader) node(e element, nodeset string) (err error) {
	if r.nodes[nodeset], err = onNode(e.attribute("os_index")); err != nil {
		return err
	}

	if !isMemoryAlone(e) {
		r.count++
	}

	if id, known := r.nodes[nodeset].Node(); known && !r.m.hasNode(id) {
		r.m.addNode(id, maskIDs(e.attribute("cpuset")))
	}

	return nil
}

// function reads a PCI function.
func (r *lstopoReader) function(e element, in *lstopoPlace) error {
	ids := e.attribute("pci_type")
	if _, err := fmt.Sscanf(ids, "%4x [%4x:%4x]", &in.at.Class, &in.at.Vendor,
		&in.at.Device); err != nil {
		return fmt.Errorf("invalid pci_type %q: want class and ids, such as 0302 [10de:2330]",
			words.Abridge(ids))
	}

	in.at.Class <<= 8
	in.at.Node = r.nodes[in.nodeset] // none for a set of several
	r.m.Functions = append(r.m.Functions, in.at)
	return nil
}

// maxMask limits the words of a mask of CPUs: 8,192 CPUs.
const maxMask = 256

// maskIDs reads a mask of CPUs as hwloc, the kernel and NCCL write it, in words of 32 bits:
// 0x00000001,,0x00000003. What is no mask has no CPUs.
func maskIDs(mask string) topology.IDs {
	words := strings.Split(mask, ",")
	if len(words) > maxMask {
		return topology.IDs{}
	}

	bits := 32
	if len(words) == 1 { // of 64 CPUs
		bits = 64
	}

	var list strings.Builder
	for i := len(words) - 1; i >= 0; i-- {
		word, err := strconv.ParseUint(cmp.Or(strings.TrimPrefix(words[i], "0x"), "0"), 16, bits)
		if err != nil {
			return topology.IDs{}
		}

		for bit := range bits {
			if word>>bit&1 == 1 {
				list.WriteString(strconv.Itoa(32*(len(words)-1-i)+bit) + ",")
			}
		}
	}

	ids, _ := topology.ParseIDs(strings.TrimSuffix(list.String(), ","))
	return ids
}
