// Package atlas has public machines, each as a host with its source, and the guests that KubeVirt
// and the hook make of a VM with all GPUs and NICs. docs/comparison.md has them, and each machine
// is a test host.
package atlas

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/pastes"
)

// Machine is a machine of which facts were published.
type Machine struct {
	Title  string
	File   string // under testdata
	Source string // what the facts are from
	Note   string // what the source does not say

	// What NCCL's code asks of CUDA, CPUID and the network: vendor, family and model of the CPU,
	// the compute capability, the NVLinks of each GPU, and the speed of each NIC.
	CPU     string
	SM      int
	NVLinks int // as many XGMI links have GPUs of AMD to each other one
	Mbps    int
}

// The CPUs of the machines, as CPUID has them.
const (
	skylake  = "GenuineIntel 6 85"
	sapphire = "GenuineIntel 6 143"
	rome     = "AuthenticAMD 23 49"
	genoa    = "AuthenticAMD 25 17"
)

// Machines are the machines of the atlas.
var Machines = []Machine{
	{Title: "HGX H100 (sglang)", File: "machines/sglang-h100.txt",
		Source: sglang,
		Note:   "it shows no links", CPU: sapphire, SM: 90, NVLinks: 18, Mbps: 400_000},
	{Title: "OCI BM.GPU.H100.8", File: "machines/oci-h100.txt",
		Source: ociHPC, CPU: sapphire, SM: 90, NVLinks: 18, Mbps: 400_000},
	{Title: "HGX H100", File: "hosts/x86-2n8g-hgx-h100.txtar",
		Source: "synthetic", CPU: sapphire, SM: 90, NVLinks: 18, Mbps: 400_000},
	{Title: "DGX A100", File: "hosts/x86-8n8g-dgx-a100.txtar",
		Source: "synthetic, with the switches of the dump in " + nccl1505,
		CPU:    rome, SM: 80, NVLinks: 12, Mbps: 200_000},
	{Title: "DGX-2", File: "machines/hwloc-dgx-2.txt",
		Source: hwloc,
		Note:   "it shows no NIC and no links", CPU: skylake, SM: 70, NVLinks: 6, Mbps: 100_000},
	{Title: "MI300X", File: "machines/rccl-8p-940.txt",
		Source: rccl, CPU: sapphire, SM: 94, NVLinks: 1, Mbps: 400_000},
	{Title: "Azure ND v2", File: "machines/azure-nd-v2.txt",
		Source: azure, CPU: skylake, SM: 70, NVLinks: 6,
		Mbps: 100_000},
	{Title: "Azure ND v4", File: "machines/azure-nd-v4.txt",
		Source: azure, CPU: rome, SM: 80, NVLinks: 12, Mbps: 200_000},
	{Title: "Azure ND v5", File: "machines/azure-nd-v5.txt",
		Source: azure, CPU: sapphire, SM: 90, NVLinks: 18,
		Mbps: 400_000},
	{Title: "AWS p4de", File: "machines/aws-p4de.txt",
		Source: aws, CPU: skylake, SM: 80, NVLinks: 12, Mbps: 100_000},
	{Title: "AWS g5.48xlarge", File: "machines/aws-g5.48xlarge.txt",
		Source: aws, Note: "it has no classes, ids and links",
		CPU: rome, SM: 86, NVLinks: 0, Mbps: 100_000},
}

// The sources of facts.
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

	vm.NUMA = matrix.CellPerNode(shown.Nodes)
	return vm
}

// sysfs returns the machine's sysfs: of a snapshot, or of a description.
func (m Machine) sysfs(tb testing.TB) fs.FS {
	tb.Helper()
	name, isDescribed := strings.CutPrefix(m.File, "machines/")
	if isDescribed {
		return pastes.Load(tb, strings.TrimSuffix(name, ".txt")).Sysfs
	}

	sysfs, err := host.ParseSnapshot(expect.File(tb, filepath.Join(testdata, m.File)))
	expect.NoError(tb, err)
	return sysfs
}

// Spots returns the host for package matrix.
func (vm VM) Spots() matrix.Sysfs { return matrix.Sysfs{FS: vm.Sysfs} }
