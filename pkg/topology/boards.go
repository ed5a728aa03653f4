package topology

// Board is the kind of baseboard that a GPU is made for, by its ids. A card with an NVLink or
// XGMI bridge has none, since its ids do not say whether the bridge is there.
type Board uint8

// The boards.
const (
	NoBoard       Board = iota
	MeshBoard           // joins its GPUs over NVLink or XGMI, and has no partitions
	MixedBoard          // joins eight over NVLink with NVSwitches, or four without
	SwitchedBoard       // joins eight with NVSwitches
)

// Joins reports whether a board joins each of its GPUs with others over NVLink or XGMI.
func (b Board) Joins() bool { return b != NoBoard }

// MaySwitch reports whether a board may have NVSwitches, whose partitions Fabric Manager sets.
func (b Board) MaySwitch() bool { return b >= MixedBoard }

// GPUModel is a model of GPU, by its ids; the zero value for all of which nothing special is known.
type GPUModel struct {
	Board    Board
	Virtual  bool // a virtual function: a guest sees no physfn of one
	APU      bool // CPU and GPU in one
	Coherent bool // its memory is a NUMA node of the host
}

// GPUModel returns the model of GPU that a function is by its ids; the zero value for others and nil.
func (f *Function) GPUModel() GPUModel {
	switch {
	case f == nil:
		return GPUModel{}
	case f.Vendor == VendorNVIDIA:
		return nvidiaModels[f.Device]
	case f.Vendor == VendorAMDGPU:
		return amdModels[f.Device]
	}

	return GPUModel{}
}

// nvidiaModels has NVIDIA's GPUs for baseboards, SXM modules and the HGX and DGX boards' own
// (README.md of NVIDIA/open-gpu-kernel-modules, "Compatible GPUs"; pci.ids), and those with
// coherent memory (Linux drivers/vfio/pci/nvgrace-gpu/main.c; 3041 is KubeVirt's).
var nvidiaModels = map[uint16]GPUModel{
	0x15f9: {Board: MeshBoard},     // P100 SXM2
	0x1db1: {Board: MeshBoard},     // V100 SXM2
	0x1db5: {Board: MeshBoard},     // V100 SXM2 32 GB
	0x1db8: {Board: MeshBoard},     // V100 SXM3 32 GB
	0x1df5: {Board: MeshBoard},     // V100 SXM2 16 GB
	0x20b0: {Board: MixedBoard},    // A100 SXM4 40 GB
	0x20b2: {Board: MixedBoard},    // A100 SXM4 80 GB
	0x20b3: {Board: MixedBoard},    // A100 SXM 64 GB
	0x20bd: {Board: MixedBoard},    // A800 SXM4 40 GB
	0x20f3: {Board: MixedBoard},    // A800 SXM4 80 GB
	0x2324: {Board: MixedBoard},    // H800
	0x2329: {Board: MixedBoard},    // H20
	0x232c: {Board: MixedBoard},    // H20-3e
	0x2330: {Board: MixedBoard},    // H100 SXM5
	0x2335: {Board: MixedBoard},    // H200
	0x2336: {Board: MixedBoard},    // H100 SXM5
	0x2339: {Board: MixedBoard},    // H100 SXM5
	0x2901: {Board: SwitchedBoard}, // B200
	0x3182: {Board: SwitchedBoard}, // B300
	0x2342: {Coherent: true},       // GH200 120 GB
	0x2345: {Coherent: true},       // GH200 480 GB
	0x2348: {Coherent: true},       // GH200 144 GB HBM3e
	0x2941: {Coherent: true},       // GB200
	0x3041: {Coherent: true},
	0x31c2: {Coherent: true}, // GB300
}

// amdModels has AMD's GPUs for boards that join each with each other: MI300 and MI350. MI200 is
// missing, since not all of its board's GPUs are neighbours. And it has virtual functions (pci.ids;
// GIM, amdgv_marketing_name.c; ROCm/gpu-operator, gpu-nfd-default-rule.yaml).
var amdModels = map[uint16]GPUModel{
	0x73ae: {Virtual: true},                   // V620
	0x7410: {Virtual: true},                   // MI210
	0x7461: {Virtual: true},                   // V710
	0x74a0: {Board: MeshBoard, APU: true},     // MI300A
	0x74a1: {Board: MeshBoard},                // MI300X
	0x74a2: {Board: MeshBoard},                // MI308X
	0x74a5: {Board: MeshBoard},                // MI325X
	0x74a8: {Board: MeshBoard},                // MI308X HF
	0x74a9: {Board: MeshBoard},                // MI300X HF
	0x74b5: {Board: MeshBoard, Virtual: true}, // MI300X
	0x74b6: {Virtual: true},                   // MI308X
	0x74b9: {Board: MeshBoard, Virtual: true}, // MI325X
	0x74bc: {Virtual: true},                   // MI308X HF
	0x74bd: {Board: MeshBoard, Virtual: true}, // MI300X HF
	0x75a0: {Board: MeshBoard},                // MI350X
	0x75a3: {Board: MeshBoard},                // MI355X
	0x75b0: {Board: MeshBoard, Virtual: true}, // MI350X
	0x75b3: {Board: MeshBoard, Virtual: true}, // MI355X
	0x75b8: {Virtual: true},                   // MI350P
}
