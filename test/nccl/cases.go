package nccl

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/pastes"
)

// Case is a VM on a host.
type Case struct {
	Name     string
	Sysfs    fs.FS
	Domain   []byte // as virt-launcher passes it to the hook
	VMI      []byte // nil for none
	NUMA     matrix.GuestNUMA
	Devices  []string
	Hardware Hardware
	IsCoarse bool // the guest has fewer cells than the host has nodes

	Described *pastes.Machine // nil for a snapshot
}

const testdata = "../../testdata" // from a package under test

// The CPUs of the cases' machines: Sapphire Rapids, Rome and Genoa.
const (
	intel = "GenuineIntel 6 143"
	rome  = "AuthenticAMD 23 49"
	genoa = "AuthenticAMD 25 17"
)

// machine is a host of testdata/hosts with its hardware.
type machine struct {
	name     string
	snapshot string
	hardware Hardware
	numa     []matrix.GuestNUMA // of its VMs; nil is a VM without cells
}

// Fine and coarse guests of a host with two nodes, and of one with eight.
var (
	twoNodes   = []matrix.GuestNUMA{{{0}, {1}}, nil}
	eightNodes = []matrix.GuestNUMA{
		{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}, {{0, 1, 2, 3}, {4, 5, 6, 7}}, nil,
	}
)

var machines = []machine{
	{"hgx-h100", "x86-2n8g-hgx-h100", Hardware{intel, 90, 18, 400_000}, twoNodes},
	{"dgx-a100", "x86-8n8g-dgx-a100", Hardware{rome, 80, 12, 200_000}, eightNodes},
	{"h100-amd", "x86-2n8g-mi300x", Hardware{genoa, 90, 18, 400_000}, twoNodes},
	{"pcie-8g4n", "x86-2n8g4n-pcie", Hardware{intel, 90, 0, 400_000}, twoNodes},
	{"pcie-4g2n", "x86-2n4g2n-pcie", Hardware{intel, 89, 0, 200_000}, twoNodes},
	{"three-roots", "x86-2n4g-three-roots", Hardware{intel, 90, 18, 400_000}, twoNodes},
	{"rtx-audio", "x86-1n2g-rtx-audio", Hardware{
		intel, 86, 0, 100_000,
	}, []matrix.GuestNUMA{{{0}}, nil}},
}

// Cases returns the VMs of the machines of testdata/hosts that have GPUs. The first one of a
// machine has a cell per node.
func Cases(tb testing.TB) []Case {
	tb.Helper()
	var all []Case
	for _, m := range machines {
		sysfs := m.sysfs(tb)
		devices, err := matrix.Sysfs{FS: sysfs}.Endpoints()
		expect.NoError(tb, err)

		for i, numa := range m.numa {
			c := Case{Name: m.name, Sysfs: sysfs, Devices: devices, Hardware: m.hardware,
				Domain: matrix.Domain(numa, devices), NUMA: numa, IsCoarse: i > 0}

			switch {
			case len(numa) == 0:
				c.Name += "-no-cells"
			case i > 0:
				c.Name += "-coarse"
			}

			all = append(all, c)
		}
	}

	return append(all, launcherCase(tb, all[0]))
}

// sysfs returns the snapshot, with NVIDIA's GPUs in the place of AMD's.
func (m machine) sysfs(tb testing.TB) fs.FS {
	tb.Helper()
	text := expect.File(tb, filepath.Join(testdata, "hosts", m.snapshot+".txtar"))
	text = bytes.ReplaceAll(text, []byte("0x1002"), []byte("0x10de"))
	text = bytes.ReplaceAll(text, []byte("0x74a1"), []byte("0x2330")) // MI300X, H100 SXM5

	sysfs, err := host.ParseSnapshot(text)
	expect.NoError(tb, err)
	return sysfs
}

// launcherCase returns the domain that the real virt-launcher passes for the HGX machine, with 8
// GPUs and 8 virtual functions.
func launcherCase(tb testing.TB, hgx Case) Case {
	tb.Helper()
	sample := filepath.Join(testdata, "samples", "02-8gpu-8nic-gate-off")
	hgx.Name = "hgx-h100-launcher"
	hgx.Domain = expect.File(tb, sample+".xml")
	hgx.VMI = expect.File(tb, sample+".vmi.json")
	return hgx
}

// Flags are the policy of a guest.
type Flags = map[policy.Key]string
