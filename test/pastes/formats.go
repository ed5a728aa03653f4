package pastes

import (
	"slices"

	"hook-sidecar/pkg/topology"
)

// Format is what a program prints.
type Format struct {
	Name  string
	Print func(*Machine) string
	Shows

	// Of is the vendor of the GPUs for which the program is; 0 for all.
	Of uint16
}

// Shows says what of a machine a program shows.
type Shows struct {
	GPUs, NICs               bool
	Addresses, IDs, MaxLinks bool
	GPUNodes, NICNodes       bool              // NUMA nodes
	ByName                   bool              // what a device is, by the name of its product alone
	XGMI                     bool              // that links are XGMI, which AMD's GPUs have
	C2C                      bool              // GPUs that reach the CPU over NVLink-C2C
	NoVendors                bool              // so that emulated NICs look like others
	Linked                   bool              // GPUs that reach others over NVLink or XGMI
	Farthest                 topology.PathType // whose farther ones it does not tell apart; Self for none
}

// What programs show.
var (
	table = Shows{GPUs: true, NICs: true, GPUNodes: true, Farthest: topology.SYS}
	list  = Shows{GPUs: true, NICs: true, Addresses: true, IDs: true}
	tree  = Shows{GPUs: true, NICs: true, Addresses: true, Farthest: topology.NODE}
	file  = Shows{GPUs: true, NICs: true, Addresses: true, GPUNodes: true, NICNodes: true,
		Linked: true, XGMI: true, C2C: true, MaxLinks: true, Farthest: topology.PHB}
	gpus = Shows{GPUs: true, Addresses: true}
	nics = Shows{NICs: true, Addresses: true}
)

// with returns what is shown with changes.
func (s Shows) with(change func(*Shows)) Shows {
	change(&s)
	return s
}

func withIDs(s *Shows)    { s.IDs = true }
func withNodes(s *Shows)  { s.GPUNodes, s.NICNodes = true, true }
func withNames(s *Shows)  { s.ByName = true }
func withLinked(s *Shows) { s.Linked = true }

const (
	nvidia = 0x10de
	amd    = 0x1002
)

// Formats are what programs print. Names are those of the commands.
var Formats = []Format{
	{"nvidia-smi topo -m", TopoM.Print, table.with(func(s *Shows) {
		s.Linked, s.C2C = true, true
	}), nvidia},
	{"nvidia-smi topo -mp", TopoMP.Print, table.with(func(s *Shows) { s.C2C = true }), nvidia},
	{"nvidia-smi topo -m, 450", Topo450.Print, table.with(withLinked), nvidia},
	{"nvidia-smi topo -m, 390", Topo390.Print, table.with(func(s *Shows) {
		s.GPUNodes, s.Linked = false, true
	}), nvidia},
	{"nvidia-smi topo -m, 375", Topo375.Print, table.with(func(s *Shows) {
		s.GPUNodes, s.Linked = false, true
	}), nvidia},
	{"mx-smi topo -m", MetaX.Print, table.with(withLinked), 0},
	{"npu-smi info -t topo", Huawei.Print, table.with(func(s *Shows) {
		s.GPUNodes, s.Linked = false, true
	}), 0},
	{"gpustack", GPUStack.Print, table.with(withLinked), 0},

	{"lspci", LspciList(WithNames), list.with(func(s *Shows) { s.IDs = false }), 0},
	{"lspci -n", LspciList(WithNumbers), list, 0},
	{"lspci -nn", LspciList(WithBoth), list, 0},
	{"lspci -Dvmm", LspciRecords(WithNames), list.with(func(s *Shows) {
		withNodes(s)
		s.IDs = false
	}), 0},
	{"lspci -Dvmmn", LspciRecords(WithNumbers), list.with(withNodes), 0},
	{"lspci -Dvmmnn", LspciRecords(WithBoth), list.with(withNodes), 0},
	{"lspci -vv", LspciVerbose, tree.with(func(s *Shows) {
		withNodes(s)
		s.MaxLinks = true
	}), 0},
	{"lspci -tv", LspciTree(NamesIn(WithNames)), tree.with(withNames), 0},
	{"lspci -tvnn", LspciTree(NamesIn(WithBoth)), tree.with(func(s *Shows) {
		withIDs(s)
		withNames(s)
	}), 0},

	{"lstopo --of xml", LstopoXML(2), tree.with(func(s *Shows) { withNodes(s); withIDs(s) }), 0},
	{"lstopo --of xml, 1", LstopoXML(1), tree.with(func(s *Shows) { withNodes(s); withIDs(s) }), 0},
	{"lstopo --of xml, 3", LstopoXML(3), tree.with(func(s *Shows) { withNodes(s); withIDs(s) }), 0},
	{"lstopo", LstopoText(2, false), tree.with(func(s *Shows) {
		withNodes(s)
		s.NoVendors = true
	}), 0},
	{"lstopo, 3", LstopoText(3, false), tree.with(func(s *Shows) {
		withNodes(s)
		s.NoVendors = true
	}), 0},
	{"lstopo -v", LstopoText(2, true), tree.with(func(s *Shows) { withNodes(s); withIDs(s) }), 0},

	{"hook-sidecar snapshot", SnapshotText, tree.with(func(s *Shows) {
		withNodes(s)
		withIDs(s)
		s.MaxLinks = true
	}), 0},

	{"rdma_topo dump", RDMATopo, tree.with(func(s *Shows) {
		withNodes(s)
		withIDs(s)
		s.MaxLinks = true
	}), 0},

	{"virsh nodedev-dumpxml", NodeDevices, tree.with(func(s *Shows) {
		withNodes(s)
		withIDs(s)
		s.MaxLinks = true
	}), 0},

	{"NCCL_TOPO_DUMP_FILE", NCCLFile, file.with(withIDs), 0},
	{"NCCL_DEBUG_SUBSYS=GRAPH, tree", NCCLLog, file, 0},
	{"NCCL_DEBUG_SUBSYS=GRAPH, paths", NCCLPaths("0-"), Shows{
		GPUs: true, NICs: true, Linked: true, Farthest: topology.PHB,
	}, 0},
	{"NCCL_DEBUG_SUBSYS=GRAPH, paths before 2.20", NCCLPaths(""), Shows{
		GPUs: true, NICs: true, Linked: true, Farthest: topology.PHB,
	}, 0},
	{"NCCL_DEBUG_SUBSYS=INIT", NCCLInit, Shows{GPUs: true, NICs: true}, nvidia},

	{"nvidia-smi -q", NVIDIAQuery, gpus.with(func(s *Shows) { s.IDs, s.MaxLinks = true, true }), nvidia},
	{"nvidia-smi", NVIDIATable, gpus, nvidia},
	{"nvidia-smi --query-gpu", NVIDIAList, gpus, nvidia},
	{"rocm-smi --showtopo", ROCmTopology, Shows{GPUs: true, GPUNodes: true, Linked: true}, amd},
	{"rocm-smi --showtoponuma", ROCmNodes, Shows{GPUs: true, GPUNodes: true}, amd},
	{"rocm-smi --showbus", ROCmBus, gpus, amd},
	{"amd-smi topology", AMDTopology, gpus.with(withLinked), amd},
	{"amd-smi list", AMDList, gpus.with(func(s *Shows) { s.GPUNodes = true }), amd},
	{"ibdev2netdev", IBDevNames, Shows{NICs: true}, 0},
	{"ibdev2netdev -v", IBDev, nics, 0},
	{"mst status -v", MST, nics.with(func(s *Shows) { s.NICNodes = true }), 0},
	{"ls -l /sys/class/infiniband", IBLinks, nics.with(func(s *Shows) {
		s.Farthest = topology.NODE
	}), 0},
}

// Suits reports whether a program prints something of a machine.
func (f Format) Suits(m *Machine) bool {
	return (f.GPUs && len(m.GPUs()) > 0 || f.NICs && len(m.NICs()) > 0) &&
		(f.Of == 0 || m.HasGPUs(f.Of)) && (!f.ByName || m.hasNames()) &&
		(!f.NoVendors || !m.hasEmulated()) && (!f.GPUs || len(m.GPUs()) > 0 || f.Addresses)
}

// hasNames reports whether the names of all devices are known.
func (m *Machine) hasNames() bool {
	return !slices.ContainsFunc(m.devices(), func(d device) bool {
		return products[uint32(d.Vendor)<<16|uint32(d.Device)] == "" && d.Vendor != nvidia
	})
}

// hasEmulated reports whether the machine has NICs that are not for VMs.
func (m *Machine) hasEmulated() bool {
	return slices.ContainsFunc(m.Functions, func(d topology.Function) bool {
		return d.IsNIC() && d.Driver != "vfio-pci"
	})
}

// Named returns a format by its name.
func Named(name string) Format {
	return Formats[slices.IndexFunc(Formats, func(f Format) bool { return f.Name == name })]
}
