package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// NCCL is a topology file for NCCL in the guest: the host's switches and link
// speeds with the guest's addresses and NUMA nodes. Its form is what NCCL reads
// (NVIDIA/nccl src/graph/xml.cc and topo.cc, version 1 of the format).
type NCCL struct {
	Warnings []reasons.Warning // of GPUs and NICs that it leaves out

	cpus []*ncclCPU // by NUMA node of the guest; the one without a node is last
}

// ncclCPU is a NUMA node of the guest.
type ncclCPU struct {
	node     int    // -1: no node, as the kernel writes it
	affinity string // a mask of CPUs in the kernel's form, "" when not known
	arch     string // NCCL's word for it, "" when it has none
	below    []*ncclPCI
}

// ncclPCI is a PCI switch, a GPU or a NIC.
type ncclPCI struct {
	busID                                            string
	class                                            uint32
	vendor, device, subsystemVendor, subsystemDevice uint16 // 0 when not known
	link                                             *topology.Link
	below                                            []*ncclPCI
}

// NewNCCL makes the topology of a plan. Link speeds are in it as far as the
// plan's host has Details.
//
// What it does not know it leaves to NCCL, which fills missing attributes in
// from the guest's sysfs, NVML and CPUID (xml.cc, ncclTopoGetXmlFromSys and
// ncclTopoGetXmlFromCpu): so the CPU's vendor and model, and whatever has no
// place in the file.
func NewNCCL(plan *placement.Plan) NCCL {
	b := &ncclBuilder{plan: plan, switches: map[topology.Address]*ncclPCI{}, names: guestSwitches(plan)}
	for _, cell := range plan.Domain().Cells {
		b.cpu(int(cell.ID)).affinity = cpuMask(cell.CPUs)
	}
	for _, d := range plan.Devices {
		if isNCCLDevice(d.Function) {
			b.add(d)
		}
	}
	for _, c := range b.cpus {
		sortPCI(c.below)
	}
	slices.SortFunc(b.cpus, func(x, y *ncclCPU) int { return cmp.Compare(uint(x.node), uint(y.node)) })
	return NCCL{Warnings: b.warnings, cpus: b.cpus}
}

// sortPCI orders by the guest's addresses, as NCCL orders what it finds itself
// (xml.cc, ncclTopoGetXmlFromSys); a switch comes with the first device below.
func sortPCI(list []*ncclPCI) {
	for _, p := range list {
		sortPCI(p.below)
	}
	slices.SortFunc(list, func(x, y *ncclPCI) int { return cmp.Compare(x.first(), y.first()) })
}

// first is the lowest address of a device in a sorted tree.
func (p *ncclPCI) first() string {
	for len(p.below) > 0 {
		p = p.below[0]
	}
	return p.busID
}

// isNCCLDevice reports whether NCCL looks at a device: at display controllers
// and network controllers, by the base class (topo.cc, kvDictPciClass).
func isNCCLDevice(f *topology.Device) bool {
	const network, display = 0x02, 0x03
	return f != nil && (f.Class>>16 == network || f.Class>>16 == display)
}

// IsEmpty reports whether there is no GPU and no NIC in it.
func (n NCCL) IsEmpty() bool {
	return !slices.ContainsFunc(n.cpus, func(c *ncclCPU) bool { return len(c.below) > 0 })
}

// ncclBuilder makes the tree.
type ncclBuilder struct {
	plan     *placement.Plan
	cpus     []*ncclCPU
	switches map[topology.Address]*ncclPCI // by the upstream port on the host
	names    map[topology.Address]string   // the guest's address of such a port
	invented int                           // switches that the guest does not have
	warnings []reasons.Warning
}

// cpu is the CPU of a NUMA node.
func (b *ncclBuilder) cpu(node int) *ncclCPU {
	for _, c := range b.cpus {
		if c.node == node {
			return c
		}
	}
	c := &ncclCPU{node: node, arch: ncclArch(b.plan.Domain().Arch)}
	b.cpus = append(b.cpus, c)
	return c
}

// ncclArch is NCCL's word for an architecture (topo.cc, kvDictCpuArch).
func ncclArch(arch string) string {
	switch arch {
	case "x86_64":
		return arch
	case "aarch64":
		return "arm64"
	}
	return ""
}

// add puts a device below the switches that it has on the host.
func (b *ncclBuilder) add(d placement.Decision) {
	if d.Predicted == nil {
		b.warnings = append(b.warnings, reasons.NewWarning(reasons.CodeNCCLIncomplete, &d.ID,
			fmt.Sprintf("%s is not in the topology file for NCCL: its guest address is not known before libvirt gives it", d.ID)))
		return
	}
	pci := &ncclPCI{busID: d.Predicted.String(), class: d.Function.Class, link: b.link(d.Function)}
	// A mediated device shows its own ids, which the host does not tell.
	if d.ID.Kind() == topology.KindPCI {
		pci.identify(d.Function)
	}
	at := &b.cpu(b.nodeOf(d)).below
	for _, upstream := range switchesAbove(d.HostPath) {
		at = &b.pciSwitch(upstream, at).below
	}
	*at = append(*at, pci)
}

// switchesAbove are the upstream ports of the switches above a device. Behind
// the root port upstream and downstream ports take turns. NCCL goes up in such
// steps of two (xml.cc, ncclTopoGetXmlFromSys).
func switchesAbove(path []topology.Address) []topology.Address {
	var upstream []topology.Address
	for i := 1; i < len(path); i += 2 {
		upstream = append(upstream, path[i])
	}
	return upstream
}

// nodeOf is the NUMA node of a device in the guest. Devices below one switch
// have that of the first that has one.
func (b *ncclBuilder) nodeOf(d placement.Decision) int {
	node := b.cellOf(d)
	for _, other := range b.plan.Devices {
		if node < 0 && len(d.HostPath) > 1 && len(other.HostPath) > 1 && other.HostPath[0] == d.HostPath[0] {
			node = b.cellOf(other)
		}
	}
	return node
}

// cellOf is the cell of the expander bus that a device stands below, or -1.
func (b *ncclBuilder) cellOf(d placement.Decision) int {
	if len(d.GuestPath) > 0 {
		for _, c := range b.plan.Controllers {
			if c.Index == d.GuestPath[0] && c.Cell != nil {
				return int(*c.Cell)
			}
		}
	}
	return -1
}

// pciSwitch is the switch with an upstream port on the host, made below at when
// it is not there yet.
func (b *ncclBuilder) pciSwitch(upstream topology.Address, at *[]*ncclPCI) *ncclPCI {
	if known := b.switches[upstream]; known != nil {
		return known
	}
	s := &ncclPCI{busID: b.names[upstream], class: classPCIBridge}
	if f := b.plan.Host.Device(upstream); f != nil {
		s.identify(f)
		s.link = b.link(f)
	}
	if s.busID == "" {
		// No device of a guest has these: its PCI domain is 0.
		s.busID = fmt.Sprintf("ffff:%02x:%02x.0", 0xff-b.invented/32, b.invented%32)
		b.invented++
	}
	b.switches[upstream] = s
	*at = append(*at, s)
	return s
}

// classPCIBridge is the class of a switch's port (topo.cc, PCI_BRIDGE_DEVICE_CLASS).
const classPCIBridge = 0x060400

func (p *ncclPCI) identify(f *topology.Device) {
	p.vendor, p.device = f.Vendor, f.Device
	if f.Details != nil {
		p.subsystemVendor, p.subsystemDevice = f.Details.SubsystemVendor, f.Details.SubsystemDevice
	}
}

// link is the fastest link that a function and the port above it can have
// together, as NCCL works it out from sysfs; nil when neither is known. A
// virtual function has its physical function's.
func (b *ncclBuilder) link(f *topology.Device) *topology.Link {
	own := maxLink(f)
	if own == nil && f.PhysFn != nil {
		own = maxLink(b.plan.Host.Device(*f.PhysFn))
	}
	var above *topology.Link
	if n := len(f.Bridges); n > 0 {
		above = maxLink(b.plan.Host.Device(f.Bridges[n-1]))
	}
	switch {
	case own == nil:
		return above
	case above == nil:
		return own
	}
	return &topology.Link{Speed: min(own.Speed, above.Speed), Width: min(own.Width, above.Width)}
}

func maxLink(f *topology.Device) *topology.Link {
	if f == nil || f.Details == nil {
		return nil
	}
	return f.Details.MaxLink
}

// guestSwitches are the guest's addresses of the host's switches that the guest
// has, by their upstream ports on the host: a switch of the guest stands for the
// innermost one that all devices below it share on the host.
func guestSwitches(plan *placement.Plan) map[topology.Address]string {
	names := map[topology.Address]string{}
	for _, c := range plan.Controllers {
		if c.Model != domain.UpstreamPort || c.Predicted == nil {
			continue
		}
		var shared []topology.Address
		first := true
		for _, d := range plan.Devices {
			if !slices.Contains(d.GuestPath, c.Index) {
				continue
			}
			above := switchesAbove(d.HostPath)
			if first {
				shared, first = above, false
			}
			for len(shared) > len(above) || !slices.Equal(shared, above[:len(shared)]) {
				shared = shared[:len(shared)-1]
			}
		}
		if n := len(shared); n > 0 && names[shared[n-1]] == "" {
			names[shared[n-1]] = c.Predicted.String()
		}
	}
	return names
}

// cpuMask is a list of vCPUs as the kernel writes masks: 32 bits a word, the
// highest first. It is "" for no CPU, for what is no list, and where it is
// longer than NCCL's attributes may be (xml.h, MAX_STR_LEN); NCCL then asks
// the kernel.
func cpuMask(cpus string) string {
	const longest = 253
	set, err := topology.ParseIDs(cpus)
	if err != nil || set.IsEmpty() {
		return ""
	}
	words := make([]uint32, set.List()[set.Size()-1]/32+1)
	for _, cpu := range set.UnsortedList() {
		words[cpu/32] |= 1 << (cpu % 32)
	}
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
