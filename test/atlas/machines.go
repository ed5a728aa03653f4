// Package atlas has public machines, each as a host with its source, and the guests that KubeVirt
// and the hook make of a VM with all GPUs and NICs. docs/atlas.md is made of it, and each machine
// is a test host.
package atlas

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/paste"
	"hook-sidecar/pkg/recorded"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
)

// Machine is a machine whose record was published.
type Machine struct {
	Title  string
	File   string // under testdata
	Source string // where it was published
	Note   string // what the record is not

	// GPU has the ids of the GPUs where the record lacks them, or 0.
	GPU uint32
	// Added are attributes for elements of the file that lack them, by the address.
	Added map[string]string

	// What NCCL's code asks of CUDA, CPUID and the network: vendor, family and model of the CPU,
	// the compute capability, the NVLinks of each GPU, and the speed of each NIC.
	CPU     string
	SM      int
	NVLinks int // with RCCL, XGMI links to each other GPU
	Mbps    int
	RCCL    bool // its GPUs are AMD's
}

// The CPUs of the machines, as CPUID has them.
const (
	skylake  = "GenuineIntel 6 85"
	sapphire = "GenuineIntel 6 143"
	rome     = "AuthenticAMD 23 49"
	genoa    = "AuthenticAMD 25 17"
)

// gpuIDs is the note of a file that lacks ids.
const gpuIDs = "ids of the GPUs added"

// Ids of GPUs: vendor and device.
const (
	v100SXM2 = 0x10de1db1
	a100SXM4 = 0x10de20b0
	h100SXM5 = 0x10de2330
)

// Machines are the machines of the atlas.
var Machines = []Machine{
	{Title: "HGX H100", File: "corpus/topo/sglang-h100-54622457224.txt",
		Source: sglang,
		Note:   "made-up addresses and links", CPU: sapphire, SM: 90, NVLinks: 18, Mbps: 400_000},
	{Title: "OCI BM.GPU.H100.8", File: "corpus/nccl/oci-H100-topology.xml",
		Source: ociHPC, CPU: sapphire, SM: 90, NVLinks: 18, Mbps: 400_000},
	{Title: "DGX H100", File: "hosts/x86-2n8g-hgx-h100.txtar",
		Source: "synthetic", CPU: sapphire, SM: 90, NVLinks: 18, Mbps: 400_000},
	{Title: "DGX A100", File: "hosts/x86-8n8g-dgx-a100.txtar",
		Source: "synthetic, with the switches of the dump in " + nccl1505,
		CPU:    rome, SM: 80, NVLinks: 12, Mbps: 200_000},
	{Title: "DGX-2", File: "corpus/lstopo/nvidiaDGX2.xml",
		Source: hwloc,
		Note:   "no NIC and no links in it", CPU: skylake, SM: 70, NVLinks: 6, Mbps: 100_000},
	{Title: "MI300X", File: "corpus/nccl/ROCm-rccl-topo_8p_940.xml",
		Source: rccl, CPU: sapphire, SM: 94, NVLinks: 1, Mbps: 400_000, RCCL: true},
	{Title: "Azure ND v2", File: "corpus/nccl/Azure-azhpc-images-ndv2-topo.xml",
		Source: azure, Note: gpuIDs, GPU: v100SXM2, CPU: skylake, SM: 70, NVLinks: 6,
		Mbps: 100_000},
	{Title: "Azure ND v4", File: "corpus/nccl/Azure-azhpc-images-ndv4-topo.xml",
		Source: azure, Note: gpuIDs, GPU: a100SXM4, CPU: rome, SM: 80, NVLinks: 12, Mbps: 200_000},
	{Title: "Azure ND v5", File: "corpus/nccl/Azure-azhpc-images-ndv5-topo.xml",
		Source: azure, Note: gpuIDs, GPU: h100SXM5, CPU: sapphire, SM: 90, NVLinks: 18,
		Mbps: 400_000},
	{Title: "AWS p4de", File: "corpus/nccl/aws-aws-ofi-nccl-p4de-24xl-topo.xml",
		Source: aws, CPU: skylake, SM: 80, NVLinks: 12, Mbps: 100_000},
	{Title: "AWS g5.48xlarge", File: "corpus/nccl/aws-aws-ofi-nccl-g5.48xl-topo.xml",
		Source: aws, Note: "classes and ids added, no links in it", Added: g5Classes,
		CPU: rome, SM: 86, NVLinks: 0, Mbps: 100_000},
}

// The sources of records.
const (
	nccl1505 = "[NVIDIA/nccl 1505](https://github.com/NVIDIA/nccl/issues/1505)"
	sglang   = "[sgl-project/sglang](https://github.com/sgl-project/sglang/issues), `nvidia-smi " +
		"topo -m` in an issue"

	github = "(https://github.com/"
	hwloc  = "[open-mpi/hwloc tests/hwloc/xml]" + github +
		"open-mpi/hwloc/tree/HEAD/tests/hwloc/xml)"
	rccl = "[ROCm/rccl tools/topo_expl/models]" + github +
		"ROCm/rccl/tree/HEAD/tools/topo_expl/models)"
	azure  = "[Azure/azhpc-images topology]" + github + "Azure/azhpc-images/tree/HEAD/topology)"
	aws    = "[aws/aws-ofi-nccl topology]" + github + "aws/aws-ofi-nccl/tree/HEAD/topology)"
	ociHPC = "[oci-hpc samples/gpu]" + github + "oracle-quickstart/oci-hpc/tree/HEAD/samples/gpu)"
)

// g5Classes are the classes and ids that the file of g5.48xlarge lacks: eight A10G and an EFA.
var g5Classes = map[string]string{
	"0000:00:15.0": efa,
	"0000:00:16.0": a10g, "0000:00:17.0": a10g, "0000:00:18.0": a10g, "0000:00:19.0": a10g,
	"0000:00:1a.0": a10g, "0000:00:1b.0": a10g, "0000:00:1c.0": a10g, "0000:00:1d.0": a10g,
}

const (
	efa  = ` class="0x020000" vendor="0x1d0f" device="0xefa1"`
	a10g = ` class="0x030200" vendor="0x10de" device="0x2237"`
)

// VM is a VM on a machine, with all its GPUs and NICs.
type VM struct {
	Machine
	Sysfs   fs.FS
	Devices []string
	NUMA    matrix.GuestNUMA // a cell per NUMA node with a CPU
}

const testdata = "../../testdata" // from a package under test

// VM returns the VM on a machine.
func (m Machine) VM(tb testing.TB) VM {
	tb.Helper()
	vm := VM{Machine: m, Sysfs: m.sysfs(tb)}
	shown, problems := host.Read(vm.Sysfs, nil, host.All)
	if len(problems) > 0 {
		tb.Fatalf("%s: %v", m.Title, problems)
	}

	for _, d := range shown.Functions {
		if d.Driver == "vfio-pci" && d.IsGPUOrNIC() {
			vm.Devices = append(vm.Devices, d.Address.String())
		}
	}

	for _, n := range shown.Nodes {
		vm.NUMA = append(vm.NUMA, []int{int(n.ID)})
	}

	return vm
}

// sysfs returns the machine's sysfs: a snapshot, or the host of a record.
func (m Machine) sysfs(tb testing.TB) fs.FS {
	tb.Helper()
	data := expect.File(tb, filepath.Join(testdata, m.File))
	if filepath.Ext(m.File) == ".txtar" {
		sysfs, err := host.ParseSnapshot(data)
		expect.NoError(tb, err)
		return sysfs
	}

	for address, attributes := range m.Added {
		busid := []byte(`busid="` + address + `"`)
		data = bytes.ReplaceAll(data, busid, append(slices.Clone(busid), attributes...))
	}

	record, _, err := paste.Read(data)
	expect.NoError(tb, err)

	for i := range record.Functions {
		if d := &record.Functions[i]; d.IsGPU() && m.GPU != 0 {
			d.Vendor, d.Device = uint16(m.GPU>>16), uint16(m.GPU)
		}
	}

	h, err := recorded.New(&record)
	expect.NoError(tb, err)
	sysfs, err := host.Sysfs(&h.Host)
	expect.NoError(tb, err)
	return sysfs
}

// Spots returns the host for package matrix.
func (vm VM) Spots() matrix.Sysfs { return matrix.Sysfs{FS: vm.Sysfs} }
