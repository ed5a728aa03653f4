package sample_test

import (
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/tools/sample"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// TestOf: the VM has the GPUs and NICs that a VFIO driver holds, and a cell per node with CPUs; the
// domain is one that the hook reads.
func TestOf(t *testing.T) {
	sysfs := expect.Host(t, `
cpus 0 0-3
cpus 1 4-7
pci0000:00/0000:00:01.0/0000:01:00.0 node=0 driver=vfio-pci
pci0000:00/0000:00:02.0/0000:02:00.0 node=0 driver=vfio-pci class=0x020700
pci0000:00/0000:00:03.0/0000:03:00.0 node=0 driver=nvidia
pci0000:00/0000:00:04.0/0000:04:00.0 node=0 driver=vfio-pci class=0x010802
`)

	shown, problems := host.Read(sysfs, nil, host.All)
	if len(problems) > 0 {
		t.Fatal(problems)
	}

	vm, err := sample.Of(shown)
	expect.NoError(t, err)

	text, err := vm.Domain()
	expect.NoError(t, err)
	parsed, err := domain.Parse(text)
	expect.NoError(t, err)
	var got []string
	for _, d := range parsed.Hostdevs {
		got = append(got, d.ID.String()+" "+d.Alias)
	}

	expect.Same(t, []string{"0000:02:00.0 ua-hostdevice-nic0", "0000:01:00.0 ua-gpu-gpu0"}, got,
		"devices of the domain (-want +got)")
	if len(vm.Cells) != 2 {
		t.Errorf("cells %v, of a host with two nodes", vm.Cells)
	}
}

// TestWithoutGPU: a host without a GPU for VMs has no sample.
func TestWithoutGPU(t *testing.T) {
	if _, err := sample.Of(&topology.Host{}); err == nil {
		t.Error("no error")
	}
}
