package host_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

const allACS = topology.DirectTranslated<<1 - 1

// controls returns the details of a port that can do all of ACS.
func controls(on topology.ACSBits) topology.Details {
	return topology.Details{
		ExtendedConfig: true, ACS: &topology.ACS{Capable: allACS, Control: on},
	}
}

// The whole registers of ACS are read.
func TestReadDetails(t *testing.T) {
	tests := map[string]struct {
		settings string
		want     topology.Details
	}{
		"nothing shown": {"", topology.Details{}},
		"link": {"link=8.0x4 maxlink=16.0x16", topology.Details{
			Link: &topology.Link{Speed: 8, Width: 4},
		}},
		"oldest link": {"link=2.5x1", topology.Details{
			Link: &topology.Link{Speed: 2.5, Width: 1},
		}},
		"no lanes": {"link=16.0x0", topology.Details{}},
		"reset methods": {"reset=flr,bus", topology.Details{
			ResetKnown: true, ResetMethods: []string{"flr", "bus"},
		}},
		"no reset method":  {"reset=", topology.Details{ResetKnown: true}},
		"no capability":    {"acs=none ats=none", topology.Details{ExtendedConfig: true}},
		"ACS off":          {"acs=off", controls(0)},
		"request redirect": {"acs=rr", controls(topology.RequestRedirect)},
		"Linux's own": {"acs=default", controls(topology.SourceValidation |
			topology.RequestRedirect | topology.CompletionRedirect | topology.UpstreamForwarding)},
		"all bits": {"acs=sv,tb,rr,cr,uf,ec,dt", controls(allACS)},
		"no peers": {"acs=nopeers", topology.Details{ExtendedConfig: true, ACS: &topology.ACS{
			Capable: topology.SourceValidation | topology.TranslationBlocking,
		}}},
		"ATS off": {"ats=off", topology.Details{ExtendedConfig: true, ATS: true}},
		"types of mediated device": {"mdevtype=nvidia-232:GRID_T4-8Q:1:2 " +
			"mdevtype=nvidia-234:GRID_T4-16Q:0:1", topology.Details{MDEVTypes: []topology.MDEVType{
			{ID: "nvidia-232", Name: "GRID T4-8Q", Max: 2, Available: new(1)},
			{ID: "nvidia-234", Name: "GRID T4-16Q", Max: 1, Available: new(0)},
		}}},
		"vGPU": {"vgpu=1428 creatable=1428:NVIDIA_H200X-141C,1414:NVIDIA_H200X-1-18C",
			topology.Details{VGPU: &topology.VGPU{
				Type: 1428,
				Creatable: []topology.VGPUType{
					{ID: 1428, Name: "NVIDIA H200X-141C"}, {ID: 1414, Name: "NVIDIA H200X-1-18C"},
				},
			}}},
		"no room for a vGPU": {"creatable=", topology.Details{VGPU: &topology.VGPU{}}},
		"a title above the types": {"creatable=ID:vGPU_Name,557:NVIDIA_A10-4Q", topology.Details{
			VGPU: &topology.VGPU{Creatable: []topology.VGPUType{{ID: 557, Name: "NVIDIA A10-4Q"}}},
		}},
		"both": {"acs=rr,cr ats=on", topology.Details{
			ExtendedConfig: true,
			ACS: &topology.ACS{
				Capable: allACS, Control: topology.RequestRedirect | topology.CompletionRedirect,
			}, ATS: true,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fsys := described(t, "pci0000:00/0000:00:01.0/0000:01:00.0 "+test.settings)
			got := detailsOf(t, fsys)
			if d := cmp.Diff(&test.want, got, emptyIsNil); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// emptyIsNil treats an empty list of reset methods like nil.
var emptyIsNil = cmp.FilterValues(func(a, b []string) bool {
	return len(a) == 0 && len(b) == 0
}, cmp.Ignore())

func described(t *testing.T, text string) fstest.MapFS {
	t.Helper()
	fsys := expect.Host(t, text)
	return fsys.MapFS
}

// detailsOf returns the details of function 0000:01:00.0, read without problems.
func detailsOf(t *testing.T, fsys fstest.MapFS) *topology.Details {
	t.Helper()
	whole, problems := readAll(fsys)
	expect.Problems(t, problems, nil)
	return whole.FunctionAt(topology.Address{Bus: 1}).Details
}

// Without privileges the kernel shows 64 bytes of the configuration space. A loop
// in the list of capabilities must not hang the reader.
func TestReadDetailsConfig(t *testing.T) {
	const config = "devices/pci0000:00/0000:00:01.0/0000:01:00.0/config"
	fsys := described(t, "pci0000:00/0000:00:01.0/0000:01:00.0 acs=rr")
	fsys[config].Data = fsys[config].Data[:64]
	if d := detailsOf(t, fsys); d.ExtendedConfig || d.ACS != nil {
		t.Errorf("64 bytes of configuration space: %+v; want no extended capabilities", d)
	}

	looped := make([]byte, 4096)
	copy(looped[0x100:], []byte{0x03, 0x00, 0x01, 0x10}) // ID 3, version 1, next 0x100
	fsys[config].Data = looped
	if d := detailsOf(t, fsys); !d.ExtendedConfig || d.ACS != nil || d.ATS {
		t.Errorf("a looped list of capabilities: %+v", d)
	}
}

// A snapshot has what the kernel and NVIDIA's driver show of vGPUs.
func TestSnapshotKeepsVGPUs(t *testing.T) {
	fsys := described(t,
		"pci0000:00/0000:00:01.0/0000:01:00.0 mdevtype=nvidia-232:GRID_T4-8Q:1:2 vgpu=1414 "+
			"creatable=1428:NVIDIA_H200X-141C")
	snapshot, problems, err := host.TakeSnapshot(fsys)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}

	data, err := snapshot.Format("")
	expect.NoError(t, err)
	whole, problems := readAll(parse(t, string(data)))
	expect.Problems(t, problems, nil)
	got := whole.FunctionAt(topology.Address{Bus: 1}).Details
	if d := cmp.Diff(detailsOf(t, fsys), got); d != "" || got.VGPU == nil ||
		len(got.MDEVTypes) != 1 {
		t.Errorf("(-host +snapshot):\n%s", d)
	}
}

// What is not a number is a problem and counts as unknown; another vendor's
// description has no maximum.
func TestReadVGPUProblems(t *testing.T) {
	const gpu = "devices/pci0000:00/0000:00:01.0/0000:01:00.0"
	fsys := described(t,
		"pci0000:00/0000:00:01.0/0000:01:00.0 mdevtype=nvidia-232:GRID_T4-8Q:many:2 "+
			"mdevtype=i915:GVTg:1:2 vgpu=some creatable=")
	fsys[gpu+"/mdev_supported_types/i915/description"].Data = []byte("low_gm_size: 128MB\n")
	whole, problems := readAll(fsys)
	var sources []string
	for _, p := range problems {
		source, _, _ := strings.Cut(p.Text, ": ")
		sources = append(sources, source)
	}

	want := []string{
		gpu + "/mdev_supported_types/nvidia-232/available_instances",
		gpu + "/nvidia/current_vgpu_type",
	}

	expect.Same(t, want, sources, "problems (-want +got)")
	types := []topology.MDEVType{
		{ID: "i915", Name: "GVTg", Available: new(1)},
		{ID: "nvidia-232", Name: "GRID T4-8Q", Max: 2},
	}

	if d := cmp.Diff(&topology.Details{
		MDEVTypes: types,
	}, whole.FunctionAt(topology.Address{Bus: 1}).Details, emptyIsNil); d != "" {
		t.Errorf("details (-want +got):\n%s", d)
	}
}

// Content that no kernel writes is a problem and counts as unknown.
func TestReadDetailsProblems(t *testing.T) {
	fsys := described(t, "pci0000:00/0000:00:01.0/0000:01:00.0 link=fastx16")
	whole, problems := readAll(fsys)
	if len(problems) != 1 ||
		!strings.HasPrefix(problems[0].Text,
			"devices/pci0000:00/0000:00:01.0/0000:01:00.0/current_link_speed: ") {
		t.Errorf("problems %v, want one about current_link_speed", problems)
	}

	if d := whole.FunctionAt(topology.Address{Bus: 1}).Details; d.Link != nil {
		t.Errorf("link %v of an invalid speed", d.Link)
	}
}

// TestReadPartialACS: a snapshot that has only some bits of ACS, as earlier versions wrote it, says
// so.
func TestReadPartialACS(t *testing.T) {
	for line, isPartial := range map[string]bool{
		"acs 0x0004 0x000c": true,
		"acs 0x0004 0x0000": true, // ACS off, or the bits that were not kept
		"acs 0x0000 0x0000": true, // a root port that passes nothing to others
		"acs 0x007f 0x001d": false,
		"acs 0x0013 0x0001": false,
	} {
		snapshot := parse(t, "-- bus/pci/devices/0000:00:01.0 -> "+
			"../../../devices/pci0000:00/0000:00:01.0 --\n"+
			"-- devices/pci0000:00/0000:00:01.0/extended_capabilities --\n"+line+"\n")
		whole, _ := readAll(snapshot)
		acs := whole.Functions[0].Details.ACS
		if acs == nil || acs.Partial != isPartial {
			t.Errorf("%s: %+v, want partial %t", line, acs, isPartial)
		}
	}
}

// TestReadAtomics: a snapshot of before Device Control 2 was kept does not say whether a port blocks
// AtomicOps.
func TestReadAtomics(t *testing.T) {
	const routing = topology.AtomicRouting
	for line, want := range map[string]*bool{
		"atomics 0x0040":        nil,
		"atomics 0x0040 0x0000": new(false),
		"atomics 0x0040 0x0080": new(true),
	} {
		snapshot := parse(t, "-- bus/pci/devices/0000:00:01.0 -> "+
			"../../../devices/pci0000:00/0000:00:01.0 --\n"+
			"-- devices/pci0000:00/0000:00:01.0/extended_capabilities --\n"+line+"\n")
		whole, _ := readAll(snapshot)
		details := whole.Functions[0].Details
		expect.Same(t, want, details.BlocksAtomics, "%s", line)
		expect.Same(t, routing, *details.AtomicOps, "%s", line)
	}
}

// TestReadCPU: vendor and family of x86 CPUs are in their modalias; other architectures have none.
// Where sysfs does not show it, a root port of AMD tells the vendor; one of Grace tells the model.
func TestReadCPU(t *testing.T) {
	for text, want := range map[string]topology.CPU{
		"cpu x86,ven0002fam0019mod0011": {Arch: "x86", Vendor: 2, Family: 0x19},
		"cpu x86,ven0000fam0006mod008F": {Arch: "x86", Family: 6},
		"cpu aarch64":                   {Arch: "aarch64"},
		"cpus 0 0-3":                    {},

		"pci0000:40/0000:40:01.0 vendor=0x1022\npci0000:40/0000:40:01.0/0000:41:00.0": {Vendor: 2},
		"cpu aarch64\npci0000:40/0000:40:00.0 vendor=0x10de device=0x22b2\n" +
			"pci0000:40/0000:40:00.0/0000:41:00.0": {Arch: "aarch64", IsGrace: true},
		"cpu x86,ven0000fam0006mod008F\npci0000:40/0000:40:01.0 vendor=0x1022\n" +
			"pci0000:40/0000:40:01.0/0000:41:00.0": {Arch: "x86", Family: 6},
		"pci0000:40/0000:40:01.0 vendor=0x8086\npci0000:40/0000:40:01.0/0000:41:00.0": {},
	} {
		files := described(t, text+"\npci0000:00/0000:00:01.0")
		whole, problems := readAll(files)
		expect.Problems(t, problems, nil)
		expect.Same(t, want, whole.CPU, "%s (-want +got)", text)
		copied, _ := readAll(parse(t, string(take(t, files, ""))))
		expect.Same(t, want, copied.CPU, "%s: the snapshot's (-want +got)", text)
	}
}

// TestReadRootComplex: with details the first function of each root bus is read beside a device, also
// of the bus of a VMD, whose devices are under a root bus of their own.
func TestReadRootComplex(t *testing.T) {
	files := described(t, `pci0000:10/0000:10:00.0 class=0x088000 vendor=0x8086 device=0x09a2
pci0000:10/0000:10:02.0 class=0x088000
pci0000:10/0000:10:01.0/0000:11:00.0 node=0
pci0000:80/0000:80:00.0 class=0x088000
pci0000:80/0000:80:05.5/pci10000:00/10000:00:01.0 class=0x088000
pci0000:80/0000:80:05.5/pci10000:00/10000:00:02.0/10000:01:00.0 node=0`)

	for id, want := range map[string]string{
		"0000:11:00.0":  "[0000:10:00.0 0000:10:01.0 0000:11:00.0]",
		"10000:01:00.0": "[10000:00:01.0 10000:00:02.0 10000:01:00.0]",
	} {
		read, problems := host.Read(files, []topology.DeviceID{pci(t, id)},
			host.Related|host.Details)
		expect.Problems(t, problems, nil)
		got := topology.Map(read.Functions, func(f topology.Function) topology.Address {
			return f.Address
		})

		if fmt.Sprint(got) != want {
			t.Errorf("%s: read %v, want %s", id, got, want)
		}
	}
}

func TestReadDetailsPackages(t *testing.T) {
	for text, want := range map[string]int{
		"packages 2": 2,
		"packages 1": 1,
		"cpus 0 0-3": 0, // no CPU shows its package
	} {
		fsys := described(t, text+"\npci0000:00/0000:00:01.0")
		whole, problems := readAll(fsys)
		expect.Problems(t, problems, nil)
		if whole.Packages != want {
			t.Errorf("%q: %d packages, want %d", text, whole.Packages, want)
		}
	}
}

// A link has what both ends support, or what one does where the other is not known. A speed
// that cannot be read is reported.
func TestReadLinkSpeeds(t *testing.T) {
	fsys := described(t, `pci0000:00/0000:00:01.0/0000:01:00.0 maxlink=32.0x16
pci0000:00/0000:00:01.0/0000:01:00.1 maxlink=Unknownx255
pci0000:00/0000:00:01.0/0000:01:08.0 physfn=0000:01:00.0
pci0000:00/0000:00:02.0/0000:02:00.0 maxlink=fastx16
pci0000:00/0000:00:03.0 maxlink=16.0x8
pci0000:00/0000:00:04.0/0000:04:00.0 maxlink=32.0x255
pci0000:00/0000:00:03.0/0000:03:00.0 maxlink=32.0x16
`)

	fsys["devices/pci0000:00/0000:00:01.0/0000:01:00.1/max_link_speed"].Data = []byte("Unknown\n")
	var ids []topology.DeviceID
	for _, a := range []topology.Address{
		{Bus: 1},
		{Bus: 1, Function: 1},
		{Bus: 1, Device: 8},
		{Bus: 2},
		{Bus: 3},
		{Bus: 4},
		{Bus: 9},
	} {
		ids = append(ids, topology.PCIDevice(a))
	}

	ids = append(ids, topology.MediatedDevice("4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01"))
	read, problems := host.Read(fsys, ids, host.LinkSpeeds)
	got := map[string]topology.Link{}
	for _, id := range ids {
		if link := read.BestLink(read.Function(id)); link != nil {
			got[id.String()] = *link
		}
	}

	want := map[string]topology.Link{
		"0000:01:00.0": {Speed: 32, Width: 16}, "0000:01:08.0": {Speed: 32, Width: 16},
		"0000:03:00.0": {Speed: 16, Width: 8},
	}

	expect.Same(t, want, got, "links (-want +got)")
	expect.Problems(t, problems, []string{
		`bad-sysfs devices/pci0000:00/0000:00:02.0/0000:02:00.0/max_link_speed: invalid link ` +
			`speed "fast GT/s PCIe"`,
		"no-sysfs bus/pci/devices/0000:09:00.0: ",
		"no-sysfs bus/mdev/devices/4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01: ",
	})
}

// TestAnswersATS: devices can have their requests translated if all IOMMUs answer them, and old
// snapshots do not say so.
func TestAnswersATS(t *testing.T) {
	for name, test := range map[string]struct{ iommus, want string }{
		"not recorded":  {"", "unknown"},
		"Intel":         {"iommu dmar0 intel-iommu/ecap=f020df", "true"},
		"Intel without": {"iommu dmar0 intel-iommu/ecap=f020da", "false"},
		"AMD":           {"iommu ivhd0 amd-iommu/cap=190b640f", "true"},
		"AMD without":   {"iommu ivhd0 amd-iommu/cap=180b640f", "false"},
		"one of two": {"iommu dmar0 intel-iommu/ecap=f020df\n" +
			"iommu dmar1 intel-iommu/ecap=f020da", "false"},
		"a number that is none": {"iommu dmar0 intel-iommu/ecap=many", "unknown"},
		"another kind":          {"iommu smmu3 smmu/idr=1", "unknown"},
	} {
		read, _ := readAll(expect.Host(t, "pci0000:00/0000:00:01.0\n"+test.iommus))
		got := "unknown"
		if read.AnswersATS != nil {
			got = fmt.Sprint(*read.AnswersATS)
		}
		expect.Same(t, test.want, got, "%s (-want +got)", name)
	}
}
