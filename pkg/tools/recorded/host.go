package recorded

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Host is the host of a record.
type Host struct {
	topology.Host

	// Assumed says in sentences what the record does not say, and what was taken in its place.
	Assumed []string
	// Was has the addresses of the record, by those that functions got in their place.
	Was map[topology.Address]topology.Address
}

// New returns the host of a record. In the place of what the record does not say it takes this:
//
//   - PCIe roots, root ports and downstream ports without an address get one in a PCI domain that
//     the record does not use, and each tree without a PCIe root gets a root of its own. So do
//     functions whose bus would be under two ports, as in files that were written by hand.
//   - A link that is not known is taken as 32 GT/s x16, so that it limits nothing.
//   - Ids that are not known are those of an H100, of an MI300X where GPUs have XGMI, and of a
//     ConnectX-7.
//   - GPUs and NICs are bound to vfio-pci, as on a host that passes them to VMs.
//
// A record without GPUs is an error.
func New(record *paste.Machine) (Host, error) {
	if len(record.GPUs()) == 0 {
		text := strings.Join(append([]string{"no GPU is recognised in it"}, record.Notes...), "; ")
		return Host{}, errors.New(text)
	}

	m := newMaker(record)
	if err := m.takeFunctions(); err != nil {
		return Host{}, err
	}

	if err := m.nameStandIns(); err != nil {
		return Host{}, err
	}

	// Addresses and nodes are first, since bridges and CPUs are found by them. A bridge may take
	// its link from a device under it, so bridges are last.
	m.nameNodes()
	m.completeNodes()
	m.completeIDs()
	m.completeLinks()
	m.addBridges()
	return Host{m.host(), m.assumed, m.was}, nil
}

// maker completes the functions of a record, one property after the other.
type maker struct {
	record  *paste.Machine
	nodes   []topology.NUMANode
	devices []topology.Function // without bridges
	bridges map[topology.Address]topology.Function
	buses   buses

	assumed []string                              // see Host
	was     map[topology.Address]topology.Address // see Host
}

func newMaker(record *paste.Machine) *maker {
	m := &maker{
		record:  record,
		bridges: map[topology.Address]topology.Function{},
		was:     map[topology.Address]topology.Address{},
		buses:   buses{used: map[uint32]bool{}},
	}

	for _, d := range record.Functions {
		m.buses.used[d.Address.Domain] = true
		for _, bridge := range d.Bridges {
			m.buses.used[bridge.Domain] = true
		}
	}

	return m
}

// assume notes what a record does not say, in a sentence.
func (m *maker) assume(format string, values ...any) {
	m.assumed = append(m.assumed, fmt.Sprintf(format, values...))
}

// takeFunctions takes the functions that have a path. GPUs and NICs have to have one.
func (m *maker) takeFunctions() error {
	m.nodes = slices.Clone(m.record.NUMA)
	passed := map[topology.Address]bool{}
	for _, d := range append(m.record.GPUs(), m.record.NICs()...) {
		passed[d.Address] = true
	}

	for _, d := range m.record.Functions {
		if d.IsBridge {
			m.bridges[d.Address] = d
			continue
		}

		if passed[d.Address] {
			d.Driver = "vfio-pci"
		}

		if d.Root != "" {
			m.devices = append(m.devices, d)
		} else if passed[d.Address] {
			return fmt.Errorf("no path to %s in it: %s", m.record.Label(d.Address), havePaths)
		}
	}

	return nil
}

// havePaths says what to record.
const havePaths = "lstopo --of xml, nvidia-smi topo -mp, the file of NCCL_TOPO_DUMP_FILE and " +
	"hook-sidecar snapshot have paths"

// completeNodes gives the host the NUMA nodes of its functions. On a host with one node all are
// on it.
func (m *maker) completeNodes() {
	for _, d := range m.devices {
		id, isKnown := d.Node.Node()
		isListed := slices.ContainsFunc(m.nodes, func(n topology.NUMANode) bool {
			return n.ID == id
		})

		if isKnown && !isListed {
			m.nodes = append(m.nodes, topology.NUMANode{ID: id})
		}
	}

	if len(m.nodes) == 0 {
		m.assume("NUMA nodes are not known: the host has one.")
		m.nodes = []topology.NUMANode{{}}
	}

	slices.SortFunc(m.nodes, func(a, b topology.NUMANode) int { return cmp.Compare(a.ID, b.ID) })

	if len(m.nodes) == 1 {
		for i := range m.devices {
			m.devices[i].Node = topology.OnNode(m.nodes[0].ID)
		}
	}

	m.completeCPUs()
}

// completeCPUs gives nodes whose CPUs are not known eight each, after those that are. Nodes without
// CPUs in lstopo's file are memory alone.
func (m *maker) completeCPUs() {
	hasCPUs := func(n topology.NUMANode) bool { return !n.CPUs.IsEmpty() }
	if m.record.Has(paste.Lstopo) && slices.ContainsFunc(m.nodes, hasCPUs) {
		return
	}

	free := 0
	for _, n := range m.nodes {
		for _, last := range n.CPUs.Ranges() {
			free = max(free, last+1)
		}
	}

	const count = 8
	unknown := 0
	for i := range m.nodes {
		if !hasCPUs(m.nodes[i]) {
			m.nodes[i].CPUs, _ = topology.ParseIDs(fmt.Sprintf("%d-%d", free, free+count-1))
			free += count
			unknown++
		}
	}

	if unknown > 0 {
		m.assume("The CPUs of %s are not known: %d each.", words.Counted(unknown, "NUMA node"),
			count)
	}
}

// model is a device that stands for one whose ids are not known.
type model struct {
	vendor, device uint16
	name           string
}

// The models.
var (
	boardGPU = model{
		topology.VendorNVIDIA, topology.DeviceH100SXM, "the H100 SXM5, which has NVLink",
	}
	cardGPU = model{
		topology.VendorNVIDIA, topology.DeviceH100PCIe, "the H100 PCIe, without NVLink",
	}
	xgmiGPU = model{topology.VendorAMDGPU, topology.DeviceMI300X, "the MI300X, which has XGMI"}
	aNIC    = model{topology.VendorMellanox, topology.DeviceConnectX7, "the ConnectX-7"}
)

// completeIDs gives GPUs and NICs without ids those of a model.
func (m *maker) completeIDs() {
	counts := map[model]int{}
	for i := range m.devices {
		d := &m.devices[i]
		if d.Device != 0 || d.Driver == "" {
			continue
		}

		if as, isKnown := m.modelOf(d); isKnown {
			d.Vendor, d.Device = as.vendor, as.device
			counts[as]++
		}
	}

	for _, as := range []model{boardGPU, cardGPU, xgmiGPU, aNIC} {
		if counts[as] > 0 {
			m.assume("The ids of %s are not known: they are those of %s (%04x:%04x).",
				words.Counted(counts[as], "device"), as.name, as.vendor, as.device)
		}
	}
}

// modelOf returns the model for a device without ids; false for one whose vendor has none.
func (m *maker) modelOf(d *topology.Function) (as model, ok bool) {
	switch {
	case d.IsGPU() && d.Vendor == xgmiGPU.vendor:
		return xgmiGPU, m.isLinked(d)
	case d.IsGPU() && m.saysCards():
		as = cardGPU
	case d.IsGPU():
		as = boardGPU
	default:
		as = aNIC
	}

	return as, d.Vendor == 0 || d.IsGPU() && d.Vendor == as.vendor
}

// isLinked reports whether the record says that a GPU reaches others over NVLink or XGMI.
func (m *maker) isLinked(d *topology.Function) bool {
	was, isRenamed := m.was[d.Address]
	return m.record.Linked[d.Address] || isRenamed && m.record.Linked[was]
}

// saysCards reports whether the record is of a program that shows NVLink, and shows none.
func (m *maker) saysCards() bool {
	return m.record.Has(paste.NVIDIASMI) && len(m.record.Linked) == 0
}

// fastLink is a link that limits nothing.
var fastLink = topology.Link{Speed: 32, Width: 16}

// completeLinks gives functions whose link is not known a fast one.
func (m *maker) completeLinks() {
	unknown := 0
	for i := range m.devices {
		if d := &m.devices[i]; !isKnown(d.MaxLink) {
			unknown++
			d.MaxLink = &fastLink
		}
	}

	if unknown > 0 {
		m.assume("The links of %s are not known: they are %s.", words.Counted(unknown, "device"),
			fastLink)
	}
}

func isKnown(link *topology.Link) bool { return link != nil && link.Speed > 0 && link.Width > 0 }

// addBridges completes the bridges above the functions. A bridge without a link has that of what is
// under it.
func (m *maker) addBridges() {
	known := m.bridges
	m.bridges = map[topology.Address]topology.Function{}
	for _, d := range m.devices {
		link := d.MaxLink
		for k := len(d.Bridges) - 1; k >= 0; k-- {
			at := d.Bridges[k]
			bridge := known[at]
			if isKnown(bridge.MaxLink) {
				link = bridge.MaxLink
			}

			if _, isAdded := m.bridges[at]; isAdded {
				continue
			}

			m.bridges[at] = topology.Function{
				Address: at, Class: topology.ClassBridge, IsBridge: true,
				Vendor: bridge.Vendor, Device: bridge.Device,
				Driver: "pcieport", Node: d.Node, Root: d.Root, Bridges: d.Bridges[:k],
				IOMMUGroup: bridge.IOMMUGroup, MaxLink: link, Details: bridge.Details,
			}
		}
	}
}

// host returns what was made.
func (m *maker) host() topology.Host {
	all := m.devices
	for _, bridge := range m.bridges {
		all = append(all, bridge)
	}

	slices.SortFunc(all, func(a, b topology.Function) int { return a.Address.Compare(b.Address) })
	return topology.Host{Nodes: m.nodes, Functions: all}
}
