package paste

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Machine is what one or more outputs say of one machine. The package's comment explains it.
type Machine struct {
	topology.Host // functions, and the bridges whose links are known

	Sources []Source
	NUMA    []topology.NUMANode         // nodes, with the CPUs that are known
	Names   map[topology.Address]string // of functions: "GPU0", or of a NIC that of its driver
	Notes   []string                    // what was cut, guessed or contradictory, in sentences

	// Farthest is the path type of which farther ones cannot be told apart, but by NUMA nodes; Self
	// where no path types are known.
	Farthest topology.PathType

	// CPUs are those near a GPU, where the text has them beside it.
	CPUs map[topology.Address]topology.IDs

	// LacksDevices is set where a table is cut at the right, so that GPUs or NICs may be missing.
	LacksDevices bool

	// Linked are the GPUs that reach others over NVLink or XGMI.
	Linked map[topology.Address]bool

	// OverC2C are the GPUs that reach the CPU over NVLink-C2C, as Grace's do.
	OverC2C map[topology.Address]bool

	// Faults say why a function cannot work in this machine, as the text shows it.
	Faults map[topology.Address]Fault

	// Contradiction says that the texts have different path types for the same pairs; "" for none.
	Contradiction string

	// Identities are numbers that a function has on the host and in a guest alike, with the name of
	// their kind: "UUID GPU-…", "serial number …", "module id 3", "node GUID …".
	Identities map[topology.Address][]string

	// Peers says what GPUs may do with each other's memory, in nvidia-smi's words: "OK", "CNS".
	Peers map[Pair]string

	nodeless map[topology.Address]bool // functions whose NUMA node is not known

	guessedNICs bool // which NIC has which address is a guess by order
	types       map[Pair]topology.PathType
	tree        *topology.Tree // nil until withTree
}

// Source names a format, as messages and JSON do.
type Source string

// The sources.
const (
	Snapshot   Source = "snapshot"
	Lspci      Source = "lspci"
	Lstopo     Source = "lstopo"
	NCCL       Source = "nccl" // the topology file of NCCL or RCCL
	NCCLLog    Source = "nccl-log"
	NVIDIASMI  Source = "nvidia-smi" // topo -m and -mp
	NVIDIAList Source = "nvidia-smi-list"
	ROCmSMI    Source = "rocm-smi"
	AMDSMI     Source = "amd-smi"
	NICNames   Source = "nic-names" // ibdev2netdev, mst status
	RDMATopo   Source = "rdma_topo" // rdma_topo dump of rdma-core

	NodeDevices Source = "libvirt" // virsh nodedev-dumpxml
)

// Pair is two functions, the lower address first.
type Pair [2]topology.Address

// PairOf returns the pair of two functions.
func PairOf(a, b topology.Address) Pair {
	if a.Compare(b) > 0 {
		a, b = b, a
	}
	return Pair{a, b}
}

// standIns is the first PCI domain of stand-ins: the kernel's domains end at 0x1ffff, and those
// that NCCL's files use for ports begin at 0xffe00000 (see portOf).
const standIns = 1 << 31

// standInKind keeps the stand-ins of formats apart.
type standInKind uint32

// The kinds of stand-in.
const (
	matrixStandIn standInKind = iota << 16
	lstopoStandIn
	rocmStandIn
	nameStandIn
	logStandIn
)

// address returns stand-in n for an address that a text lacks.
func (k standInKind) address(n int) topology.Address {
	return topology.Address{Domain: standIns + uint32(k) + uint32(n)}
}

// root returns stand-in n for a PCIe root without a name.
func (k standInKind) root(n int) topology.PCIeRoot {
	return topology.PCIeRoot(fmt.Sprintf("pci%08x:00", standIns+uint32(k)+uint32(n)))
}

// isSettled reports whether a PCIe root is one that settle has made.
func isSettled(root topology.PCIeRoot) bool { return strings.HasPrefix(string(root), "pci8000") }

// HasAddress reports whether an address is one of the machine and not a stand-in.
func HasAddress(a topology.Address) bool { return a.Domain < standIns }

// IsStandIn reports whether a PCIe root is one that the text shows without its name.
func IsStandIn(root topology.PCIeRoot) bool {
	return strings.HasPrefix(string(root), "pci8") && len(root) == len("pci80000000:00") ||
		strings.HasPrefix(string(root), "cpu ")
}

// Has reports whether a source is among those of the machine.
func (m *Machine) Has(s Source) bool { return slices.Contains(m.Sources, s) }

// SourceNames lists the sources: "nvidia-smi, lspci".
func (m *Machine) SourceNames() string {
	return strings.Join(topology.Map(m.Sources, func(s Source) string { return string(s) }), ", ")
}

// ShowsAll reports whether the machine has no other devices of the kind of d, which may be nil,
// than those shown: lstopo shows only classes that it finds important, and others what they use.
func (m *Machine) ShowsAll(d *topology.Function) bool {
	return m.Has(Lspci) || m.Has(Snapshot) || m.Has(RDMATopo) || m.Has(Lstopo) && d.IsGPUOrNIC()
}

// KnowsNode reports whether the NUMA node of a function is known, which may be none.
func (m *Machine) KnowsNode(d *topology.Function) bool { return !m.nodeless[d.Address] }

// HasNodes reports whether the NUMA node of any GPU or NIC is known.
func (m *Machine) HasNodes() bool {
	return slices.ContainsFunc(m.Functions, func(d topology.Function) bool {
		return !d.IsBridge && m.KnowsNode(&d)
	})
}

// lacksNode notes that the NUMA node of a function is not known.
func (m *Machine) lacksNode(a topology.Address) {
	if m.nodeless == nil {
		m.nodeless = map[topology.Address]bool{}
	}
	m.nodeless[a] = true
}

// name notes what a program calls a function.
func (m *Machine) name(a topology.Address, name string) {
	if m.Names == nil {
		m.Names = map[topology.Address]string{}
	}
	m.Names[a] = name
}

// nearCPUs notes the CPUs near a GPU.
func (m *Machine) nearCPUs(a topology.Address, cpus topology.IDs) {
	if m.CPUs == nil {
		m.CPUs = map[topology.Address]topology.IDs{}
	}
	m.CPUs[a] = cpus
}

// relate notes the path type between two functions.
func (m *Machine) relate(a, b topology.Address, t topology.PathType) {
	if m.types == nil {
		m.types = map[Pair]topology.PathType{}
	}
	m.types[PairOf(a, b)] = t
}

// link notes that a GPU reaches others over NVLink or XGMI.
func (m *Machine) link(a topology.Address) {
	if m.Linked == nil {
		m.Linked = map[topology.Address]bool{}
	}
	m.Linked[a] = true
}

// linkC2C notes that a GPU reaches the CPU over NVLink-C2C.
func (m *Machine) linkC2C(a topology.Address) {
	if m.OverC2C == nil {
		m.OverC2C = map[topology.Address]bool{}
	}
	m.OverC2C[a] = true
}

// linkXGMI notes that a GPU reaches others over XGMI, so that it is AMD's.
func (m *Machine) linkXGMI(a topology.Address) {
	m.link(a)
	for i := range m.Functions {
		if d := &m.Functions[i]; d.Address == a && d.Vendor == 0 {
			d.Vendor = topology.VendorAMDGPU
		}
	}
}

// Fault is why a function cannot work.
type Fault string

// The faults.
const (
	NoAnswer Fault = "no-answer" // all bits of its registers read as one
	NoBAR    Fault = "no-bar"    // a BAR of memory has no address
	NoDriver Fault = "no-driver" // it has none, where others have one
	BARsOff  Fault = "bars-off"  // no driver has turned its BARs of memory on
	NoRDMA   Fault = "no-rdma"   // a NIC without an RDMA device, beside others that have one
)

// fault notes why a function cannot work. The first reason counts.
func (m *Machine) fault(a topology.Address, f Fault) {
	if m.Faults == nil {
		m.Faults = map[topology.Address]Fault{}
	}
	if m.Faults[a] == "" {
		m.Faults[a] = f
	}
}

// lacksRDMA notes the NICs that have no name of an RDMA device, where another has one, or that have
// a network interface alone.
func (m *Machine) lacksRDMA(hasInterface map[topology.Address]bool) {
	isNamed := func(d *topology.Function) bool { return m.Names[d.Address] != "" }
	isShown := slices.ContainsFunc(m.NICs(), isNamed)
	for _, d := range m.NICs() {
		if !isNamed(d) && (isShown || hasInterface[d.Address]) {
			m.fault(d.Address, NoRDMA)
		}
	}
}

// lacksDrivers notes the GPUs and NICs without a driver, where the text has those of others.
// isWhole says of which the text is not cut.
func (m *Machine) lacksDrivers(isWhole func(*topology.Function) bool) {
	if !slices.ContainsFunc(m.Functions, func(d topology.Function) bool { return d.Driver != "" }) {
		return
	}

	for _, d := range append(m.GPUs(), m.NICs()...) {
		if d.Driver == "" && isWhole(d) {
			m.fault(d.Address, NoDriver)
		}
	}
}

// identify notes a number by which a function can be recognised elsewhere.
func (m *Machine) identify(a topology.Address, kind, value string) {
	value = strings.ToLower(strings.TrimSpace(value))
	if value == "" || value == "n/a" || strings.Trim(value, "0:") == "" && kind != moduleID {
		return
	}

	m.identified(a, kind+" "+value)
}

// identified notes one of Identities, once.
func (m *Machine) identified(a topology.Address, number string) {
	if m.Identities == nil {
		m.Identities = map[topology.Address][]string{}
	}

	if !slices.Contains(m.Identities[a], number) {
		m.Identities[a] = append(m.Identities[a], number)
	}
}

// The kinds of Identities. A module id is that of a place on the board, from 0 or 1 on.
const (
	gpuUUID      = "UUID"
	serialNumber = "serial number"
	moduleID     = "module id"
	nodeGUID     = "node GUID"
)

// note adds a sentence to the notes, once.
func (m *Machine) note(format string, values ...any) {
	if sentence := fmt.Sprintf(format, values...); !slices.Contains(m.Notes, sentence) {
		m.Notes = append(m.Notes, sentence)
	}
}

// PathType returns the path type between two functions, if it is known: what the text says of the
// pair, else what follows from their places in the tree.
func (m *Machine) PathType(a, b topology.Address) (between topology.PathType, known bool) {
	if a == b {
		return topology.Self, true
	}

	if between, known = m.types[PairOf(a, b)]; known {
		return between, known
	}
	return m.treeType(a, b)
}

// treeType returns the path type that follows from the places of two functions in the tree.
func (m *Machine) treeType(a, b topology.Address) (between topology.PathType, known bool) {
	if m.tree == nil {
		return between, false
	}

	x, y := m.FunctionAt(a), m.FunctionAt(b)
	switch {
	case x == nil || y == nil || isSettled(x.Root) || isSettled(y.Root):
		return between, false
	case x.Root == "" || y.Root == "": // far is all that nodes tell
		a, knowsA := x.Node.Node()
		b, knowsB := y.Node.Node()
		return topology.SYS, knowsA && knowsB && a != b
	}

	between = m.tree.PathType(topology.PCIDevice(a), topology.PCIDevice(b))
	knowsNodes := m.KnowsNode(x) && m.KnowsNode(y)
	if !knowsNodes && len(m.NUMA) == 1 { // both are on it
		return min(between, topology.NODE), true
	}

	return between, between < topology.NODE || knowsNodes // else it is NODE or SYS
}

// IsNodeOrSys reports whether the path between two functions leads over two PCIe roots, of which the
// text does not say whether they are on one NUMA node.
func (m *Machine) IsNodeOrSys(a, b topology.Address) bool {
	x, y := m.FunctionAt(a), m.FunctionAt(b)
	if m.tree == nil || x == nil || y == nil || x.Root == "" || y.Root == "" || x.Root == y.Root ||
		isSettled(x.Root) || isSettled(y.Root) {
		return false
	}

	_, isKnown := m.PathType(a, b)
	return !isKnown
}

// Label returns the short name of a function: that of a program, else its address.
func (m *Machine) Label(a topology.Address) string {
	if name := m.Names[a]; name != "" {
		return words.Printable(name)
	}
	return strings.TrimPrefix(a.String(), "0000:")
}

// GPUs returns the GPUs in the order of their addresses, which is that of CUDA with
// CUDA_DEVICE_ORDER=PCI_BUS_ID; without addresses in that of the text.
func (m *Machine) GPUs() []*topology.Function { return m.which((*topology.Function).IsGPU) }

// NICs returns the NICs in the order of their addresses, or of the text.
func (m *Machine) NICs() []*topology.Function { return m.which((*topology.Function).IsNIC) }

// which returns the passthrough functions that are of a kind.
func (m *Machine) which(isKind func(*topology.Function) bool) []*topology.Function {
	var those []*topology.Function
	for i := range m.Functions {
		if d := &m.Functions[i]; !d.IsBridge && isKind(d) && !isEmulated(d) {
			those = append(those, d)
		}
	}

	return those
}

// emulators are vendors of devices that a hypervisor emulates: virtio, QEMU, its VGA and that of a
// server's management controller, VMware, Hyper-V, Cirrus, Matrox.
var emulators = []uint16{
	topology.VendorVirtio, topology.VendorRedHat, topology.VendorQEMU, topology.VendorVMware,
	topology.VendorHyperV, topology.VendorCirrus, topology.VendorASPEED, topology.VendorMatrox,
}

// isEmulated reports whether a device is one that NCCL's users did not ask for: emulated, or a
// server's own display.
func isEmulated(d *topology.Function) bool {
	isOldNIC := d.Vendor == topology.VendorIntel &&
		(d.Device == topology.DeviceE1000 || d.Device == topology.DeviceE1000E) ||
		d.Vendor == topology.VendorRealtek && d.Device == topology.DeviceRTL8139
	// A device that is not known, see deviceOf, may be EFA.
	isENA := d.Vendor == topology.VendorAmazon && d.Device != 0 && !topology.IsEFA(d.Device)
	return slices.Contains(emulators, d.Vendor) || isOldNIC || isENA
}

// withTree adds the tree of the functions, whose Root and Bridges are known.
func (m Machine) withTree() Machine {
	var ids []topology.DeviceID
	for _, d := range m.Functions {
		if !d.IsBridge {
			ids = append(ids, topology.PCIDevice(d.Address))
		}
	}

	m.tree = m.Tree(ids)
	return m
}

// sorted returns the machine with its functions by address, by which a Host finds them. The
// addresses have to differ.
func (m Machine) sorted() (Machine, error) {
	isFunction := func(d topology.Function) bool { return !d.IsBridge }
	if topology.CountFunc(m.Functions, isFunction) > maxDevices {
		return m, errTooMany
	}
	if len(m.Functions) == 0 {
		return m, errors.New("no PCI devices in it; lstopo on Windows reads none")
	}

	slices.SortStableFunc(m.Functions, func(a, b topology.Function) int {
		return a.Address.Compare(b.Address)
	})

	for i := range m.Functions[1:] {
		a, b := &m.Functions[i], &m.Functions[i+1]
		if a.Address == b.Address {
			return m, fmt.Errorf("%s appears twice", a.Address)
		}
	}

	slices.SortFunc(m.NUMA, func(a, b topology.NUMANode) int { return cmp.Compare(a.ID, b.ID) })
	return m, nil
}

// hasNode reports whether the CPUs of a NUMA node are known.
func (m *Machine) hasNode(id topology.NodeID) bool {
	return slices.ContainsFunc(m.NUMA, func(n topology.NUMANode) bool {
		return n.ID == id && !n.CPUs.IsEmpty()
	})
}

// addNode notes the CPUs of a NUMA node, once.
func (m *Machine) addNode(id topology.NodeID, cpus topology.IDs) {
	i := slices.IndexFunc(m.NUMA, func(n topology.NUMANode) bool { return n.ID == id })
	switch {
	case i < 0:
		m.NUMA = append(m.NUMA, topology.NUMANode{ID: id, CPUs: cpus})
	case m.NUMA[i].CPUs.IsEmpty():
		m.NUMA[i].CPUs = cpus
	}
}

const (
	maxDevices = 1024 // far above the functions of a machine; limits the square of them
	maxDepth   = 64   // bridges above a device; 2 per switch
)

var errTooMany = fmt.Errorf("more than %d devices", maxDevices)
