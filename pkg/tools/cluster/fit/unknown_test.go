package fit

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/fleet"
)

// publishModel lets the driver publish the PCI ids of its first GPUs, and only these GPUs.
func (h hgx) publishModel(gpus int, device string) {
	spec := &h.Slices[0].Spec
	spec.Devices = spec.Devices[:gpus]
	vendor := "0x10de"
	for _, d := range spec.Devices {
		d.Attributes["vendorID"] = resourceapi.DeviceAttribute{StringValue: &vendor}
		d.Attributes["deviceID"] = resourceapi.DeviceAttribute{StringValue: &device}
	}
}

// TestUnknownPartitions: where nothing lists the partitions of a board with NVSwitches, all sets of
// its GPUs count, and a note says so. A VM with one GPU or all of them needs no set, and boards
// with four GPUs may have no NVSwitches.
func TestUnknownPartitions(t *testing.T) {
	const (
		unknown = "NVLink partitions of node node are not known, so any of its GPUs count"
		never   = "no board with NVSwitches has NVLink partitions of 3 GPUs"

		h100, b200, l40s = "0x2330", "0x2901", "0x26b9"
	)
	for _, test := range []struct {
		device     string
		gpus, size int
		want       []string // beginnings of notes
	}{
		{h100, 8, 1, nil}, {h100, 8, 8, nil},
		{h100, 8, 2, []string{unknown}},
		{h100, 8, 3, []string{never, unknown}},
		{h100, 4, 2, nil},
		{b200, 4, 2, []string{unknown}},
		{l40s, 8, 2, nil},
		{"x", 8, 2, nil},
	} {
		h := newHGX(t, rand.New(rand.NewPCG(0, 0)), "hgx-h100")
		h.Claims = nil
		h.publishModel(test.gpus, test.device)
		h.publishTwice()

		wish := Wish{GPUs: test.size, GPUClass: fleet.NVIDIA().Class}
		answer, claim, err := wish.Count(t.Context(), New(h.Objects))
		expect.NoError(t, err)
		isNote := func(note, want string) bool { return strings.HasPrefix(note, want) }
		if !slices.EqualFunc(answer.Notes, test.want, isNote) {
			t.Errorf("%d of %d GPUs %s: notes %q, want %q", test.size, test.gpus, test.device,
				answer.Notes, test.want)
		}

		for _, want := range test.want {
			if !strings.Contains(claim, "\n# "+want) {
				t.Errorf("the claim does not say: %s\n%s", want, claim)
			}
		}
	}
}

// TestUnknownPartitionsOfPlugins: a VM whose GPUs a device plugin gives needs a partition, unless
// it gets NVSwitches and so runs Fabric Manager itself.
func TestUnknownPartitionsOfPlugins(t *testing.T) {
	const gpu, nvSwitch = "nvidia.com/GH100", "nvidia.com/NVSWITCH"
	read := readHost(t, "x86-2n8g-hgx-h100")
	kubevirt := &v1.KubeVirt{}
	kubevirt.Spec.Configuration.PermittedHostDevices = &v1.PermittedHostDevices{
		PciHostDevices: []v1.PciHostDevice{
			{PCIVendorSelector: "10de:2330", ResourceName: gpu},
			{PCIVendorSelector: "10de:22a3", ResourceName: nvSwitch},
		},
	}

	for name, test := range map[string]struct {
		devices map[string]int
		isNoted bool
	}{
		"some GPUs":       {map[string]int{gpu: 4}, true},
		"all GPUs":        {map[string]int{gpu: 8}, false},
		"with NVSwitches": {map[string]int{gpu: 4, nvSwitch: 4}, false},
	} {
		answer, err := New(Objects{
			Nodes: []*corev1.Node{fleet.Node("node")}, KubeVirts: []*v1.KubeVirt{kubevirt},
			Hosts: map[string]*topology.Host{"node": read},
		}).Count(t.Context(), Shape{Devices: test.devices})
		expect.NoError(t, err)

		if got := len(answer.Notes) > 0; got != test.isNoted {
			t.Errorf("%s: notes %q", name, answer.Notes)
		}
	}
}
