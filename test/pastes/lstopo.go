package pastes

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
)

// object is an object of hwloc's tree.
type object struct {
	kind     string
	function *topology.Function // of a bridge with an address and of a device
	node     *topology.NUMANode // of a package and of its node
	root     topology.PCIeRoot
	last     uint8 // bus under a host bridge
	inside   []*object
}

// objects returns the objects of a machine: a package per NUMA node, in which are the node and the
// host bridges that are near it, and under these the bridges, GPUs and NICs.
func (m *Machine) objects() *object {
	machine := &object{kind: "Machine"}
	packages := map[string]*object{"none": machine}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		in := &object{kind: "Package", node: n}
		in.inside = []*object{{kind: "NUMANode", node: n}}
		packages[topology.OnNode(n.ID).String()] = in
		machine.inside = append(machine.inside, in)
	}

	at := map[string]*object{}
	for i := range m.Functions {
		d := &m.Functions[i]
		if d.IsBridge || !d.IsGPUOrNIC() {
			continue
		}

		key := d.Root.String() + " " + d.Node.String()
		around := at[key]
		if around == nil {
			around = &object{kind: "HostBridge", root: d.Root}
			at[key] = around
			in := packages[d.Node.String()]
			in.inside = append(in.inside, around)
		}

		around.last = max(around.last, d.Address.Bus)
		for _, a := range d.Bridges {
			if at[a.String()] == nil {
				at[a.String()] = &object{kind: "PCIBridge", function: m.FunctionAt(a)}
				around.inside = append(around.inside, at[a.String()])
			}
			around = at[a.String()]
		}

		around.inside = append(around.inside, &object{kind: "PCI", function: d})
	}

	return machine
}

// mask writes numbers as hwloc writes a set, in words of 32 bits.
func mask(ids topology.IDs) string {
	set := new(big.Int)
	for id := range ids.All() {
		set.SetBit(set, id, 1)
	}

	digits := fmt.Sprintf("%08x", set)
	digits = strings.Repeat("0", (8-len(digits)%8)%8) + digits
	var words []string
	for word := range slices.Chunk([]byte(digits), 8) {
		words = append(words, "0x"+string(word))
	}

	return strings.Join(words, ",")
}

// sets returns the attributes of what is near NUMA nodes.
func sets(nodes []topology.NUMANode) string {
	var cpus, ids []string
	for _, n := range nodes {
		cpus, ids = append(cpus, n.CPUs.String()), append(ids, fmt.Sprint(n.ID))
	}

	cpuset, _ := topology.ParseIDs(strings.Join(cpus, ","))
	nodeset, _ := topology.ParseIDs(strings.Join(ids, ","))
	return fmt.Sprintf(` cpuset="%s" complete_cpuset="%[1]s" nodeset="%s" complete_nodeset="%[2]s"`,
		mask(cpuset), mask(nodeset))
}

// LstopoXML returns a printer of lstopo --of xml of a version of hwloc. In version 1 a NUMA node is
// around what is near it; in version 3 what is known of the system is at the end.
func LstopoXML(version int) func(*Machine) string {
	return func(m *Machine) string {
		head := map[int]string{
			1: "<topology>\n", 2: "<topology version=\"2.0\">\n", 3: "<topology version=\"3.0\">\n",
		}[version]
		const info = "<info name=\"OSName\" value=\"Linux\"/>\n"
		machine := m.objects()
		x := xmlWriter{Machine: m, version: version}
		text := x.open(`type="Machine" os_index="0"` + sets(m.Nodes))
		if version < 3 {
			text += info
		}

		text += x.objects(machine.inside) + "</object>\n"
		if version == 3 {
			text += info
		}

		return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc" +
			map[int]string{1: "", 2: "2", 3: "2"}[version] + ".dtd\">\n" + head + text +
			"</topology>\n"
	}
}

// xmlWriter writes lstopo's XML. Since version 2 each object has a number of its own.
type xmlWriter struct {
	*Machine
	version, last int
}

// open begins an object.
func (x *xmlWriter) open(attributes string) string {
	if x.last++; x.version == 1 {
		return "<object " + attributes + ">\n"
	}
	return fmt.Sprintf("<object %s gp_index=\"%d\">\n", attributes, x.last)
}

// objects writes objects.
func (x *xmlWriter) objects(objects []*object) string {
	return lines(objects, func(_ int, o *object) string {
		tag := ""
		switch o.kind {
		case "Package":
			tag = fmt.Sprintf(`type="Package" os_index="%d"`, o.node.ID) +
				sets([]topology.NUMANode{*o.node})
			if x.version == 1 {
				tag = strings.Replace(tag, "Package", "NUMANode", 1)
			}

		case "NUMANode":
			if x.version == 1 {
				return ""
			}
			tag = fmt.Sprintf(`type="NUMANode" os_index="%d"`, o.node.ID) +
				sets([]topology.NUMANode{*o.node})

		case "HostBridge":
			bus := strings.TrimPrefix(o.root.String(), "pci")
			tag = fmt.Sprintf(`type="Bridge" bridge_type="0-1" depth="0" bridge_pci="%s:[%s-%02x]"`,
				bus[:len(bus)-3], bus[len(bus)-2:], o.last)

		case "PCIBridge":
			low, high := x.buses(*o.function)
			tag = fmt.Sprintf(`type="Bridge" bridge_type="1-1" depth="1" `+
				`bridge_pci="%04x:[%02x-%02x]"`, o.function.Address.Domain, low, high) + pciTag(o)

		default:
			tag = `type="PCIDev"` + pciTag(o)
		}

		return x.open(tag) + x.objects(o.inside) + x.software(o) + "</object>\n"
	})
}

func pciTag(o *object) string {
	d := o.function
	return fmt.Sprintf(` pci_busid="%s" pci_type="%04x [%04x:%04x] [0000:0000] 00 00" `+
		`pci_link_speed="0.000000"`, d.Address, d.Class>>8, d.Vendor, d.Device)
}

// software writes what the drivers of a NIC have: a network device and one of RDMA. Their types are
// numbers, up to hwloc 2 one and in hwloc 3 bits (include/hwloc.h, hwloc_obj_osdev_type_e).
func (x *xmlWriter) software(o *object) string {
	i := slices.IndexFunc(x.NICs(), func(d topology.Function) bool {
		return o.function != nil && d.Address == o.function.Address
	})
	if i < 0 {
		return ""
	}

	types := [2]int{2, 3}
	if x.version == 3 {
		types = [2]int{16, 48}
	}

	const device = `type="OSDev" name="%s" osdev_type="%d"`
	return x.open(fmt.Sprintf(device, fmt.Sprintf("ib%d", i), types[0])) + "</object>\n" +
		x.open(fmt.Sprintf(device, nicName(i), types[1])) + "</object>\n"
}

// lstopoClasses are hwloc's short names of classes (hwloc_pci_class_string).
var lstopoClasses = map[uint32]string{
	0x0300: "VGA", 0x0302: "3D", 0x0380: "Display", 0x1200: "ProcessingAccelerator",
	0x0200: "Ethernet", 0x0207: "InfiniBand",
}

// LstopoText returns a printer of lstopo's text: of a version of hwloc, and with -v if it is
// verbose. Version 1 has ids in the place of addresses.
func LstopoText(version int, isVerbose bool) func(*Machine) string {
	return func(m *Machine) string {
		counts := map[string]int{}
		var write func(objects []*object, depth int) string
		write = func(objects []*object, depth int) string {
			return lines(objects, func(_ int, o *object) string {
				text := strings.Repeat("  ", depth) + o.kind
				if isVerbose || o.node != nil {
					text += fmt.Sprintf(" L#%d", counts[o.kind])
					counts[o.kind]++
				}

				switch d := o.function; {
				case o.kind == "NUMANode":
					text += fmt.Sprintf(" (P#%d 64GB)", o.node.ID)
				case isVerbose && d != nil:
					text += fmt.Sprintf(" (busid=%s id=%04x:%04x class=%04x(%s) link=63.02GB/s)",
						d.Address, d.Vendor, d.Device, d.Class>>8, lstopoClasses[d.Class>>8])
				case o.kind == "PCI" && version == 1:
					text += fmt.Sprintf(" %04x:%04x", d.Vendor, d.Device)
				case o.kind == "PCI":
					text += " " + m.slot(d.Address) + " (" + lstopoClasses[d.Class>>8] + ")"
				}

				return text + "\n" + write(o.inside, depth+1) + m.named(o, version, depth+1)
			})
		}

		return "Machine (128GB total)\n" + write(m.objects().inside, 1)
	}
}

// named writes what drivers and software call a device.
func (m *Machine) named(o *object, version, depth int) string {
	if o.kind != "PCI" {
		return ""
	}

	isSame := func(d topology.Function) bool { return d.Address == o.function.Address }
	in := strings.Repeat("  ", depth)
	gpu, nic := slices.IndexFunc(m.GPUs(), isSame), slices.IndexFunc(m.NICs(), isSame)
	switch {
	case gpu >= 0 && version == 3:
		return fmt.Sprintf("%sOSDev[GPU] \"nvml%d\"\n", in, gpu)
	case gpu >= 0:
		return fmt.Sprintf("%sGPU(NVML) \"nvml%d\"\n", in, gpu)
	case nic >= 0 && version == 3:
		return in + "OSDev[OpenFabrics,Network] \"" + nicName(nic) + "\"\n"
	case nic >= 0:
		return fmt.Sprintf("%sNet \"ib%d\"\n%sOpenFabrics \"%s\"\n", in, nic, in, nicName(nic))
	}

	return ""
}
