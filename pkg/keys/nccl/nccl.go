// Package nccl makes the topology file that shows NCCL or RCCL in the guest the host's switches and
// link speeds, with the guest's addresses and NUMA nodes (src/graph/xml.cc and topo.cc of
// NVIDIA/nccl and ROCm/rccl).
package nccl

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Library is a program that reads the topology file: NCCL or RCCL.
type Library string

// Each refuses the file of the other with "XML Topology has wrong version" (src/graph/xml.cc,
// ncclTopoXmlLoadSystem). Both look for it where the guest's script puts it (topo.cc,
// ncclTopoGetSystem).
const (
	NCCL Library = "NCCL"
	RCCL Library = "RCCL" // for GPUs of AMD
)

// version returns the version of the format that the library demands (src/graph/xml.h,
// NCCL_TOPO_XML_VERSION; RCCL's since August 2020).
func (l Library) version() int {
	if l == RCCL {
		return 2
	}
	return 1
}

// libraryOf returns the library for the GPUs of a plan: RCCL if all are AMD's.
func libraryOf(plan *placement.Plan) Library {
	library := NCCL
	for _, d := range plan.Devices {
		switch {
		case !d.Function.IsGPU():
		case d.Function.Vendor != topology.VendorAMDGPU:
			return NCCL
		default:
			library = RCCL
		}
	}

	return library
}

// File is a topology file.
type File struct {
	Library  Library           // that reads it
	Warnings []reasons.Finding // about GPUs and NICs that are left out

	cpus []*element // in NCCL's order
}

// New makes the file of a plan, with link speeds if the plan's host has Details. NCCL reads missing
// attributes, such as the CPU's vendor and model, from the guest's sysfs, NVML and CPUID (xml.cc,
// ncclTopoGetXmlFromSys and ncclTopoGetXmlFromCpu).
func New(plan *placement.Plan) File {
	b := builder{
		plan: plan, switches: map[*topology.Node]*element{}, addresses: guestAddresses(plan),
	}

	b.file.Library = libraryOf(plan)
	for _, cell := range plan.Domain().CPUCells() {
		b.cpu(int(cell.ID))
	}

	for _, d := range plan.Devices {
		if d.Function.IsGPUOrNIC() {
			b.add(d)
		}
	}

	b.file.sort()
	return b.file
}

// IsEmpty reports whether the file has no GPU and no NIC.
func (f File) IsEmpty() bool {
	return !slices.ContainsFunc(f.cpus, func(c *element) bool { return len(c.children) > 0 })
}

// String returns the text of the file. NCCL's reader supports no tabs, no XML declaration and no
// references (xml.cc, xmlGetNode), which numbers and fixed words do not need.
func (f File) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "<system version=\"%d\">\n", f.Library.version())
	for _, c := range f.cpus {
		c.write(&text, "  ")
	}

	text.WriteString("</system>\n")
	return text.String()
}

type builder struct {
	plan      *placement.Plan
	file      File
	switches  map[*topology.Node]*element         // by the switch on the host
	addresses map[*topology.Node]topology.Address // of such switches, in the guest
	// addresses of switches that the guest does not have
	invented int
}

// add adds a device under the switches that it is under on the host.
func (b *builder) add(d placement.Decision) {
	if d.Predicted == nil {
		b.file.Warnings = append(b.file.Warnings,
			reasons.NewFinding(reasons.CodeNCCLIncomplete, &d.ID,
				fmt.Sprintf("%s is left out of NCCL's topology file: its guest address is not "+
					"known "+
					"until libvirt assigns one", d.ID)))
		return
	}

	parent := b.cpu(b.nodeOf(d))
	for _, s := range b.switchesAbove(d) {
		parent = b.pciSwitch(s, parent)
	}

	// A mediated device has ids of its own, which the host does not show.
	device := b.pci(*d.Predicted, d.Function.Class, d.Function, d.ID.Kind() == topology.KindPCI)
	device.isGPU = d.Function.IsGPU()
	parent.children = append(parent.children, device)
}

func (b *builder) switchesAbove(d placement.Decision) []*topology.Node {
	return b.plan.HostTree.Node(d.ID).Switches()
}

// nodeOf returns the NUMA node of a device in the guest, or -1. Devices under one switch have the
// node of the first of them that has one.
func (b *builder) nodeOf(d placement.Decision) int {
	cell := d.Cell

	// In the file a switch is under one CPU, that of its first device, which may have no cell
	// itself.
	if above := b.switchesAbove(d); len(above) > 0 {
		for _, other := range b.plan.Devices {
			if cell == nil && slices.Contains(b.switchesAbove(other), above[0]) {
				cell = other.Cell
			}
		}
	}

	if cell == nil {
		return -1 // as the kernel writes it
	}

	return int(*cell)
}

// cpu returns the CPU of a NUMA node of the guest.
func (b *builder) cpu(node int) *element {
	for _, c := range b.file.cpus {
		if c.node == node {
			return c
		}
	}

	c := &element{name: "cpu", node: node}
	c.set("numaid", strconv.Itoa(node))
	cells := b.plan.Domain().Cells
	if i := slices.IndexFunc(cells, func(c domain.Cell) bool { return int(c.ID) == node }); i >= 0 {
		c.set("affinity", cpuMask(cells[i].CPUs))
	}

	switch arch := b.plan.Domain().Arch; arch { // topo.cc, kvDictCpuArch
	case "x86_64":
		c.set("arch", arch)
	case "aarch64":
		c.set("arch", "arm64")
	}

	b.file.cpus = append(b.file.cpus, c)
	return c
}

// pciSwitch returns the element of a switch of the host, and adds it under a parent when it is not
// in the file yet.
func (b *builder) pciSwitch(n *topology.Node, parent *element) *element {
	if known := b.switches[n]; known != nil {
		return known
	}

	address, isInGuest := b.addresses[n]
	if !isInGuest {
		address = inventedAddress(b.invented)
		b.invented++
	}

	// NCCL's PCI_BRIDGE_DEVICE_CLASS (topo.cc).
	s := b.pci(address, topology.ClassBridge, b.plan.Host.FunctionAt(n.ID.(topology.Address)), true)
	b.switches[n] = s
	parent.children = append(parent.children, s)
	return s
}

// guestAddresses returns the addresses in the guest of the host's switches that it has: a switch of
// the guest stands for the innermost one that all devices under it share on the host.
func guestAddresses(plan *placement.Plan) map[*topology.Node]topology.Address {
	addresses := map[*topology.Node]topology.Address{}
	for _, c := range plan.Controllers {
		if c.Model != domain.UpstreamPort || c.Predicted == nil {
			continue
		}

		var paths [][]*topology.Node
		for e := range plan.GuestTree.Node(topology.Index(c.Index)).Endpoints() {
			if device := plan.HostTree.Node(e.ID); device != nil { // a passthrough device
				paths = append(paths, device.Switches())
			}
		}

		// A switch of the host has one place in the file, so the first switch of the guest that
		// stands for it gives the address.
		shared := topology.Shared(paths...)
		if n := len(shared); n > 0 && addresses[shared[n-1]] == (topology.Address{}) {
			addresses[shared[n-1]] = *c.Predicted
		}
	}

	return addresses
}

// pci returns a PCI element with the link of a function of the host, and with its ids. The function
// is nil where the host does not show it.
func (b *builder) pci(
	address topology.Address, class uint32, f *topology.Function, hasIDs bool,
) *element {
	e := &element{name: "pci", address: address}
	e.set("busid", address.String())
	e.set("class", fmt.Sprintf("0x%06x", class))
	if f == nil {
		return e
	}

	if hasIDs {
		e.setID("vendor", f.Vendor)
		e.setID("device", f.Device)
	}

	if hasIDs && f.Details != nil {
		e.setID("subsystem_vendor", f.Details.SubsystemVendor)
		e.setID("subsystem_device", f.Details.SubsystemDevice)
	}

	e.setLink(b.plan.Host.BestLink(f)) // as NCCL computes it from sysfs
	return e
}

// inventedAddress returns address n that no device of a guest has: its PCI domain is 0.
func inventedAddress(n int) topology.Address {
	return topology.Address{Domain: 0xffff, Bus: uint8(0xff - n/32), Device: uint8(n % 32)}
}

// cpuMask formats a list of vCPUs as the kernel's masks: words of 32 bits, the highest first. It is
// "" without a CPU, for an invalid list, and where it is longer than NCCL's attributes may be
// (xml.h, MAX_STR_LEN); NCCL then reads the kernel's.
func cpuMask(cpus string) string {
	const longest = 253
	set, err := topology.ParseIDs(cpus)
	if err != nil {
		return ""
	}

	var words []uint32
	for cpu := range set.All() {
		for len(words) <= cpu/32 {
			words = append(words, 0)
		}
		words[cpu/32] |= 1 << (cpu % 32)
	}

	// The kernel writes the word with the highest CPUs first.
	texts := make([]string, len(words))
	for i, word := range words {
		texts[len(words)-1-i] = fmt.Sprintf("%08x", word)
	}

	mask := strings.Join(texts, ",")
	if len(mask) > longest {
		return ""
	}

	return mask
}

// element is an element of the file: a CPU, which is a NUMA node of the guest, or under it a PCI
// switch, a GPU or a NIC.
type element struct {
	name       string
	node       int              // of a CPU; -1 for none
	address    topology.Address // of all but a CPU
	isGPU      bool
	attributes string
	children   []*element
}

// set adds an attribute, unless its value is unknown.
func (e *element) set(name, value string) {
	if value != "" {
		e.attributes += fmt.Sprintf(` %s="%s"`, name, value)
	}
}

// setLink adds a link, unless it is unknown.
func (e *element) setLink(link *topology.Link) {
	if link != nil {
		e.set("link_speed", fmt.Sprintf("%.1f GT/s PCIe", link.Speed))
		e.set("link_width", strconv.Itoa(link.Width))
	}
}

// setID adds an id in the kernel's form, unless it is 0, for unknown.
func (e *element) setID(name string, id uint16) {
	if id != 0 {
		e.set(name, fmt.Sprintf("0x%04x", id))
	}
}

// sort orders CPUs and what is under them as NCCL finds them without a file: it fills in the GPUs
// by their addresses, then the NICs (topo.cc, ncclTopoGetSystem), each with its CPU. Where several
// rings are equally good, its search takes the first that it finds, so the order decides. CPUs
// without devices are last.
func (f *File) sort() {
	for _, c := range f.cpus {
		c.sort()
	}

	slices.SortFunc(f.cpus, func(x, y *element) int {
		return cmp.Or(
			x.lowest((*element).isAGPU).Compare(y.lowest((*element).isAGPU)),
			x.lowest((*element).isDevice).Compare(y.lowest((*element).isDevice)),
			cmp.Compare(uint(x.node), uint(y.node)),
		)
	})
}

// sort orders children by the guest's addresses, as NCCL does without a file (xml.cc,
// ncclTopoGetXmlFromSys). A switch counts as the first device under it.
func (e *element) sort() {
	for _, c := range e.children {
		c.sort()
	}
	slices.SortFunc(e.children, func(x, y *element) int {
		return x.lowest((*element).isDevice).Compare(y.lowest((*element).isDevice))
	})
}

// isDevice reports whether an element is a GPU or a NIC, not a CPU or a switch.
func (e *element) isDevice() bool { return e.name == "pci" && len(e.children) == 0 }

// isAGPU reports whether an element is a GPU.
func (e *element) isAGPU() bool { return e.isGPU }

// lowest returns the lowest address of a device of a kind in a tree, or one above all addresses.
func (e *element) lowest(isKind func(*element) bool) topology.Address {
	if isKind(e) {
		return e.address
	}

	lowest := topology.Address{Domain: math.MaxUint32}
	for _, c := range e.children {
		if a := c.lowest(isKind); a.Compare(lowest) < 0 {
			lowest = a
		}
	}

	return lowest
}

func (e *element) write(text *strings.Builder, indent string) {
	text.WriteString(indent + "<" + e.name + e.attributes)
	if len(e.children) == 0 {
		text.WriteString("/>\n")
		return
	}

	text.WriteString(">\n")
	for _, c := range e.children {
		c.write(text, indent+"  ")
	}

	text.WriteString(indent + "</" + e.name + ">\n")
}
