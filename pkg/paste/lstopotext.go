package paste

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
)

// The lines of lstopo's text (hwloc utils/lstopo/lstopo-text.c; hwloc_obj_type_snprintf and
// hwloc_obj_attr_snprintf).
var (
	topoObject = regexp.MustCompile(`^( *)(Machine|NUMANode|HostBridge|PCIBridge|PCI|Package|` +
		`Socket|Group[0-9]*|OpenFabrics|Bridge)\b(.*)$`)
	topoNode  = regexp.MustCompile(`P#([0-9]+)`)
	topoBusID = regexp.MustCompile(`(?:busid=| )(` + busID + `)`)
	topoIDs   = regexp.MustCompile(`(?:id=| )([0-9a-f]{4}:[0-9a-f]{4})\b`)
	topoClass = regexp.MustCompile(`\(([A-Z0-9][A-Za-z0-9 ]{1,30})\)`)
	topoName  = regexp.MustCompile(`"([^"]{1,40})"`)
)

func isLstopoText(t text) bool {
	return anyLine(t, func(line string) bool {
		isBridge := strings.Contains(line, "HostBridge") || strings.Contains(line, "PCIBridge")
		return isBridge && topoObject.MatchString(line) || strings.Contains(line, "NUMANode L#")
	})
}

// topoPlace is an object of the text, with what is known of those further in.
type topoPlace struct {
	indent int
	at     topology.Function
	nodes  []topology.NodeID // directly inside it
}

// lstopoTextReader collects the devices of lstopo's text.
type lstopoTextReader struct {
	m     Machine
	open  []topoPlace
	nodes int
	count int // of stand-ins
}

// readLstopoText reads lstopo's text. Objects are inside those above them that are indented less.
// Before version 2 it has ids in the place of addresses.
func readLstopoText(t text) (Machine, error) {
	r := &lstopoTextReader{m: Machine{Sources: []Source{Lstopo}, Farthest: topology.NODE}}
	for _, line := range t.lines {
		object := topoObject.FindStringSubmatch(line)
		if object == nil {
			continue
		}

		indent := len(object[1])
		for len(r.open) > 0 && r.open[len(r.open)-1].indent >= indent {
			r.open = r.open[:len(r.open)-1]
		}

		if len(r.open) > maxNesting || r.count > 4*maxDevices {
			return Machine{}, errTooMany
		}

		r.object(object[2], object[3], indent)
	}

	for i := range r.m.Functions {
		if r.nodes < 2 {
			r.m.Functions[i].Node = topology.Affinity{}
			r.m.lacksNode(r.m.Functions[i].Address)
		}
	}

	m, err := r.m.sorted()
	return m.withTree(), err
}

// object reads an object: its type, and the rest of the line.
func (r *lstopoTextReader) object(kind, rest string, indent int) {
	in := topoPlace{indent: indent}
	var around *topoPlace
	if len(r.open) > 0 {
		around = &r.open[len(r.open)-1]
		in.at = around.at
	}

	r.count++

	switch kind {
	case "NUMANode":
		if number := topoNode.FindStringSubmatch(rest); number != nil {
			id, _ := strconv.Atoi(number[1])
			in.nodes = []topology.NodeID{topology.NodeID(id)}
			if around != nil {
				around.nodes = append(around.nodes, topology.NodeID(id))
			}

			r.m.addNode(topology.NodeID(id), topology.IDs{})
			r.nodes++
		}

	case "HostBridge":
		in.at.Root, in.at.Bridges = ofLstopo.root(r.count), nil
	case "PCIBridge", "Bridge":
		in.at.Bridges = append(slices.Clip(in.at.Bridges), ofLstopo.address(r.count))
	case "PCI":
		in.at = r.function(in.at, rest)
	case "OpenFabrics":
		if name := topoName.FindStringSubmatch(rest); name != nil && in.at.Class != 0 {
			r.m.name(in.at.Address, name[1])
		}
	}

	r.open = append(r.open, in)
}

// function reads a PCI function.
func (r *lstopoTextReader) function(d topology.Function, rest string) topology.Function {
	d.Address = ofLstopo.address(r.count)
	if id := topoBusID.FindStringSubmatch(rest); id != nil {
		if a, err := lspciAddress(id[1]); err == nil {
			d.Address = a
		}
	} else if ids := topoIDs.FindStringSubmatch(rest); ids != nil {
		d.Vendor, d.Device = lspciID(ids[1][:4]), lspciID(ids[1][5:])
		d.Class = classOfID(d.Vendor)
	}

	if class := topoClass.FindStringSubmatch(rest); class != nil {
		d.Class = cmp.Or(topoClasses[class[1]], otherClass)
		if strings.HasPrefix(class[1], "Proc") {
			d.Class = 0x120000
		}
	}

	for i := len(r.open) - 1; i >= 0 && d.Node == (topology.Affinity{}); i-- {
		if nodes := r.open[i].nodes; len(nodes) == 1 {
			d.Node = topology.OnNode(nodes[0])
		} else if len(nodes) > 1 {
			break
		}
	}

	r.m.Functions = append(r.m.Functions, d)
	return d
}

// topoClasses are the words of lstopo's text for classes (hwloc_pci_class_string).
var topoClasses = map[string]uint32{
	"VGA": 0x030000, "3D": 0x030200, "Display": 0x038000,
	"Ethernet": 0x020000, "InfiniBand": 0x020700, "Infiniband": 0x020700, "Network": 0x028000,
	"Fabric": 0x020800,
}

// otherClass is that of what is neither a GPU nor a NIC (pci.ids, "Unassigned class").
const otherClass = 0xff0000

// classOfID guesses the class of a device from its vendor, where a text has nothing else.
func classOfID(vendor uint16) uint32 {
	switch vendor {
	case 0x10de:
		return 0x030200
	case 0x15b3:
		return 0x020000
	}

	return 0
}
