package pastes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
)

// vendors, products and classes are the names that pci.ids has for what the machines have.
var (
	vendors = map[uint16]string{
		0x10de: "NVIDIA Corporation", 0x15b3: "Mellanox Technologies",
		0x1002: "Advanced Micro Devices, Inc. [AMD/ATI]", 0x8086: "Intel Corporation",
		0x1d0f: "Amazon.com, Inc.", 0x1000: "Broadcom / LSI", 0x1af4: "Red Hat, Inc.",
		0x1a03: "ASPEED Technology, Inc.",
	}
	products = map[uint32]string{
		0x10de2330: "GH100 [H100 SXM5 80GB]", 0x10de2335: "GH100 [H200 SXM 141GB]",
		0x10de2329: "GH100 [H20]", 0x10de26b9: "AD102GL [L40S]",
		0x10de2237: "GA102GL [A10G]", 0x10de20b0: "GA100 [A100 SXM4 40GB]",
		0x10de20b2: "GA100 [A100 SXM4 80GB]", 0x10de1db1: "GV100GL [Tesla V100 SXM2 16GB]",
		0x10de1ac2: "GV100GL [Tesla V100 NVSwitch]", 0x10de228b: "GA104 High Definition Audio",
		0x15b31021: "MT2910 Family [ConnectX-7]", 0x15b3101b: "MT28908 Family [ConnectX-6]",
		0x15b3101c: "MT28908 Family [ConnectX-6 Virtual Function]",
		0x15b3101e: "ConnectX Family mlx5Gen Virtual Function",
		0x100274a1: "Aqua Vanjaram [Instinct MI300X]", 0x100274a0: "Aqua Vanjaram [Instinct MI300A]",
		0x100274b5: "Aqua Vanjaram [Instinct MI300X VF]", 0x10027408: "Aldebaran/MI200 [Instinct MI250X]",
		0x1002740c: "Aldebaran/MI200 [Instinct MI250X/MI250]",
		0x1002738c: "Arcturus GL-XL [Instinct MI100]", 0x100266a1: "Vega 20 [Radeon Instinct MI50]",
		0x100267df: "Ellesmere [Radeon RX 480]", 0x80861537: "I210 Gigabit Ethernet Connection",
		0x1d0fefa0: "Elastic Fabric Adapter (EFA)", 0x1d0fefa1: "Elastic Fabric Adapter (EFA)",
		0x1d0fec20: "Elastic Network Adapter (ENA)", 0x1af41041: "Virtio 1.0 network device",
		0x1000c010: "PEX880xx PCIe Gen 4 Switch", 0x1000c030: "PEX890xx PCIe Gen 5 Switch",
		0x1a032000: "ASPEED Graphics Family",
	}
	classes = map[uint32]string{
		0x0300: "VGA compatible controller", 0x0302: "3D controller", 0x0380: "Display controller",
		0x1200: "Processing accelerators", 0x0200: "Ethernet controller",
		0x0207: "Infiniband controller", 0x0604: "PCI bridge", 0x0680: "Bridge",
		0x0403: "Audio device", 0x0108: "Non-Volatile memory controller", 0x0880: "System peripheral",
	}
)

// PCIIDs returns the names as a file that lspci -i reads (pci.ids, "Syntax").
func PCIIDs() string {
	var b strings.Builder
	for vendor, name := range vendors {
		fmt.Fprintf(&b, "%04x  %s\n", vendor, name)
		for id, product := range products {
			if uint16(id>>16) == vendor {
				fmt.Fprintf(&b, "\t%04x  %s\n", id&0xffff, product)
			}
		}
	}

	for base := range uint32(0x13) {
		fmt.Fprintf(&b, "C %02x  Class\n", base)
		for class, name := range classes {
			if class>>8 == base {
				fmt.Fprintf(&b, "\t%02x  %s\n", class&0xff, name)
			}
		}
	}

	return b.String()
}

// Form is how lspci writes ids: as names, as numbers (-n), or as both (-nn).
type Form int

// The forms of names.
const (
	WithNames Form = iota
	WithNumbers
	WithBoth
)

// write returns a name and its number in one of the forms. Without a name lspci writes an unknown
// word and the number.
func (n Form) write(name, unknown string, number uint16) string {
	switch {
	case n == WithNumbers:
		return fmt.Sprintf("%04x", number)
	case n == WithBoth:
		return fmt.Sprintf("%s [%04x]", cmp.Or(name, unknown), number)
	}
	return cmp.Or(name, fmt.Sprintf("%s %04x", unknown, number))
}

// product returns vendor and device in one of the forms, with one pair of numbers.
func (n Form) product(d topology.Function) string {
	vendor, name := vendors[d.Vendor], products[uint32(d.Vendor)<<16|uint32(d.Device)]
	numbers := fmt.Sprintf("%04x:%04x", d.Vendor, d.Device)
	switch {
	case n == WithNumbers:
		return numbers
	case vendor == "":
		name = "Device"
		if n == WithNames {
			name += " " + numbers
		}
	case name == "" && n == WithNames:
		name = fmt.Sprintf("%s Device %04x", vendor, d.Device)
	default:
		name = vendor + " " + cmp.Or(name, "Device")
	}

	if n == WithBoth {
		return name + " [" + numbers + "]"
	}
	return name
}

// slot returns an address; with a PCI domain where a function is in another one than 0.
func (m *Machine) slot(a topology.Address) string {
	if m.hasDomains() {
		return a.String()
	}
	return short(a)
}

func (m *Machine) hasDomains() bool {
	return slices.ContainsFunc(m.Functions, func(d topology.Function) bool {
		return d.Address.Domain != 0
	})
}

// LspciList returns a printer of lspci: a line per function.
func LspciList(n Form) func(*Machine) string {
	return func(m *Machine) string {
		return lines(m.Functions, func(_ int, d topology.Function) string {
			class := n.write(classes[d.Class>>8], "Class", uint16(d.Class>>8))
			return m.slot(d.Address) + " " + class + ": " + n.product(d) + "\n"
		})
	}
}

// LspciRecords returns a printer of lspci -Dvmm: a record per function.
func LspciRecords(n Form) func(*Machine) string {
	return func(m *Machine) string {
		return lines(m.Functions, func(_ int, d topology.Function) string {
			id := uint32(d.Vendor)<<16 | uint32(d.Device)
			text := "Slot:\t" + d.Address.String() +
				"\nClass:\t" + n.write(classes[d.Class>>8], "Class", uint16(d.Class>>8)) +
				"\nVendor:\t" + n.write(vendors[d.Vendor], "Vendor", d.Vendor) +
				"\nDevice:\t" + n.write(products[id], "Device", d.Device) +
				fmt.Sprintf("\nProgIf:\t%02x\n", d.Class&0xff)
			if number := node(d, ""); number != "" {
				text += "NUMANode:\t" + number + "\n"
			}
			return text + "\n"
		})
	}
}

// LspciVerbose prints lspci -vv of root, as far as it tells of places: buses, links, nodes, groups;
// and of registers, where the description has them.
func LspciVerbose(m *Machine) string {
	return lines(m.Functions, func(_ int, d topology.Function) string {
		text := m.slot(d.Address) + " " + classes[d.Class>>8] + ": " + WithNames.product(d) +
			"\n\tControl: I/O- Mem+ BusMaster+\n\tStatus: Cap+ 66MHz-\n"
		if number := node(d, ""); number != "" {
			text += "\tNUMA node: " + number + "\n"
		}

		if d.IOMMUGroup != nil {
			text += fmt.Sprintf("\tIOMMU group: %d\n", *d.IOMMUGroup)
		}

		if d.IsBridge {
			low, high := m.buses(d)
			text += fmt.Sprintf("\tBus: primary=%02x, secondary=%02x, subordinate=%02x, "+
				"sec-latency=0\n", d.Address.Bus, low, high)
		}

		text += "\tCapabilities: [40] Express (v2) Endpoint, MSI 00\n"
		if d.MaxLink != nil {
			text += fmt.Sprintf("\t\tLnkCap:\tPort #0, Speed %gGT/s, Width x%d, ASPM not supported\n",
				d.MaxLink.Speed, d.MaxLink.Width)
		}

		if d.Details.ExtendedConfig {
			text += registers(d)
		}

		if d.Driver != "" {
			text += "\tKernel driver in use: " + d.Driver + "\n"
		}
		return text + "\n"
	})
}

// registers prints what root sees of AtomicOps, and the extended capabilities: that with a serial
// number, ACS and ATS.
func registers(d topology.Function) string {
	text := "\t\tDevCap2: Completion Timeout: Not Supported, TimeoutDis-\n\t\t\t AtomicOpsCap:"
	bits, names := atomics(d)>>6, []string{"Routing", "32bit", "64bit", "128bitCAS"}
	if !d.IsBridge {
		bits, names = bits>>1, names[1:]
	}

	text += flags(uint16(bits), names...) + "\n\t\t\t AtomicOpsCtl:"
	if !d.IsBridge {
		text += flags(0, "ReqEn")
	} else {
		text += flags(map[bool]uint16{true: 1}[blocksAtomics(d)], "EgressBlck")
	}

	text += "\n" +
		"\tCapabilities: [100 v1] Device Serial Number 12-34-56-78-9a-bc-de-f0\n"
	if acs := d.Details.ACS; acs != nil {
		names := []string{"SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd",
			"EgressCtrl", "DirectTrans"}
		text += "\tCapabilities: [110 v1] Access Control Services\n" +
			"\t\tACSCap:" + flags(uint16(acs.Capable), names...) + "\n" +
			"\t\tACSCtl:" + flags(uint16(acs.Control), names...) + "\n"
	}

	if d.Details.ATS {
		text += "\tCapabilities: [120 v1] Address Translation Service (ATS)\n" +
			"\t\tATSCap:\tInvalidate Queue Depth: 00\n" +
			"\t\tATSCtl:\tEnable-, Smallest Translation Unit: 00\n"
	}

	return text
}

// atomics returns the bits of AtomicOps in Device Capabilities 2, 0 where the description has none.
func atomics(d topology.Function) topology.AtomicOps {
	if d.Details.AtomicOps == nil {
		return 0
	}
	return *d.Details.AtomicOps
}

func blocksAtomics(d topology.Function) bool {
	return d.Details.BlocksAtomics != nil && *d.Details.BlocksAtomics
}

// flags prints bits by their names, the lowest bit first.
func flags(bits uint16, names ...string) (text string) {
	for bit, name := range names {
		text += " " + name + map[bool]string{true: "+", false: "-"}[bits>>bit&1 == 1]
	}
	return text
}

// buses returns the first and the last bus under a bridge.
func (m *Machine) buses(bridge topology.Function) (low, high uint8) {
	low = 0xff
	for _, d := range m.Functions {
		if slices.Contains(d.Bridges, bridge.Address) && d.Address.Domain == bridge.Address.Domain {
			low, high = min(low, d.Address.Bus), max(high, d.Address.Bus)
		}
	}

	return min(low, high), high
}

// LspciTree returns a printer of lspci -t; with -v if it names devices. The lines are drawn as
// pciutils' ls-tree.c does: a bus goes on to the right, and its further functions are under its
// first.
func LspciTree(name func(topology.Function) string) func(*Machine) string {
	return func(m *Machine) string {
		type root struct {
			domain uint32
			bus    uint8
		}

		on := map[root][]topology.Function{} // functions directly on a root
		roots := []root{{}}                  // which lspci draws, too, without any function
		for _, d := range m.Functions {
			if len(d.Bridges) > 0 && d.Bridges[0].Domain == d.Address.Domain {
				continue
			}

			at := root{d.Address.Domain, d.Address.Bus}
			if on[at] == nil && at != (root{}) {
				roots = append(roots, at)
			}
			on[at] = append(on[at], d)
		}

		slices.SortFunc(roots, func(a, b root) int {
			return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.bus, b.bus))
		})

		var all []string
		for _, at := range roots {
			head := fmt.Sprintf("[%04x:%02x]-", at.domain, at.bus)
			all = append(all, m.draw(head, on[at], name))
		}

		if len(all) == 1 {
			return "-" + strings.ReplaceAll(strings.TrimSuffix(all[0], "\n"), "\n", "\n ") + "\n"
		}
		return fork("-", all)
	}
}

// draw draws a bus after its head: the functions on it, and what is under them.
func (m *Machine) draw(
	head string, on []topology.Function, name func(topology.Function) string,
) string {
	items := topology.Map(on, func(d topology.Function) string {
		label := fmt.Sprintf("%02x.%d", d.Address.Device, d.Address.Function)
		if !d.IsBridge {
			return label + name(d) + "\n"
		}

		var inside []topology.Function
		for _, in := range m.Functions {
			if n := len(in.Bridges); n > 0 && in.Bridges[n-1] == d.Address &&
				in.Address.Domain == d.Address.Domain {
				inside = append(inside, in)
			}
		}

		low, high := m.buses(d)
		label += fmt.Sprintf("-[%02x", low)
		if high > low {
			label += fmt.Sprintf("-%02x", high)
		}

		if len(inside) == 0 {
			return label + "]--\n"
		}
		return m.draw(label+"]--", inside, name)
	})

	return fork(head, items)
}

// fork puts items after a head: one on its line, several one under the other with lines between.
func fork(head string, items []string) string {
	if len(items) == 0 {
		return head + "\n"
	}

	indent := strings.Repeat(" ", len(head))
	var b strings.Builder
	for i, item := range items {
		mark, down := "+-", "| "
		switch {
		case len(items) == 1:
			mark, down = "--", "  "
		case i == len(items)-1:
			mark, down = "\\-", "  "
		}

		if i == 0 {
			mark = head + mark
		} else {
			mark = indent + mark
		}

		item = strings.TrimSuffix(item, "\n")
		b.WriteString(mark + strings.ReplaceAll(item, "\n", "\n"+indent+down) + "\n")
	}

	return b.String()
}

// WithoutNames and the names of the other forms of lspci's tree.
func WithoutNames(topology.Function) string { return "" }

// NamesIn returns names of devices for LspciTree, in a form.
func NamesIn(n Form) func(topology.Function) string {
	return func(d topology.Function) string { return "  " + n.product(d) }
}
