package fit

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/fleet"
)

// TestPlugins compares what kubelet may give with what a person finds by hand.
func TestPlugins(t *testing.T) {
	const gpu, nic = "example.com/gpu", "example.com/nic"
	tests := []struct {
		host, gpu, nic string // the ids that KubeVirt permits
		gpus, nics     int
		want           string
	}{
		// Four GPUs and four NICs of a socket are all of it; the worst are two of each on
		// either socket, none with a PCIe root in common.
		{"x86-2n8g-hgx-h100", "10de:2330", "15b3:101e", 4, 4,
			"best 4 PIX, 24 NODE; worst 12 NODE, 16 SYS; single-numa-node 4 PIX, 24 NODE"},
		{"x86-2n8g-hgx-h100", "10DE:2330", "15b3:101e", 1, 1,
			"best 1 PIX; worst 1 SYS; single-numa-node 1 NODE"},
		{"x86-2n8g-hgx-h100", "10de:2330", "15b3:101e", 8, 8,
			"best 8 PIX, 48 NODE, 64 SYS; worst 8 PIX, 48 NODE, 64 SYS; single-numa-node <nil>"},
		{"x86-2n8g-hgx-h100", "10de:2330", "15b3:101e", 9, 0, "<nil>"},
		// The NIC without a GPU on its root makes a socket's worst worse.
		{"x86-2n4g-three-roots", "10de:2330", "15b3:1021", 2, 2,
			"best 2 PHB, 4 NODE; worst 2 NODE, 4 SYS; single-numa-node 1 PHB, 5 NODE"},
		{"x86-2n2g-t4-vgpu", "10de:1eb8", "", 2, 0,
			"best 1 SYS; worst 1 SYS; single-numa-node <nil>"},
		{"x86-1n2g-rtx-audio", "10de:2204", "", 2, 0,
			"best 1 PHB; worst 1 PHB; single-numa-node 1 PHB"},
	}

	for _, test := range tests {
		read := readHost(t, test.host)
		kubevirt := &v1.KubeVirt{}
		kubevirt.Spec.Configuration.PermittedHostDevices = &v1.PermittedHostDevices{
			PciHostDevices: []v1.PciHostDevice{
				{PCIVendorSelector: test.gpu, ResourceName: gpu},
				{PCIVendorSelector: test.nic, ResourceName: nic},
			},
		}

		o := Objects{
			Nodes:     []*corev1.Node{fleet.Node("node")},
			KubeVirts: []*v1.KubeVirt{kubevirt},
			Hosts:     map[string]*topology.Host{"node": read},
		}

		devices := map[string]int{gpu: test.gpus}
		if test.nics > 0 {
			devices[nic] = test.nics
		}

		answer, err := New(o).Count(t.Context(), Shape{Devices: devices})
		if err != nil {
			t.Fatal(err)
		}

		got := fmt.Sprintf("%v", answer.Nodes[0].Plugins)
		if b := answer.Nodes[0].Plugins; b != nil {
			got = fmt.Sprintf("best %v; worst %v; single-numa-node %v", b.Best, b.Worst, b.OneNode)
		}

		if got != test.want {
			t.Errorf("%s, %d GPUs, %d NICs: %s\nwant %s", test.host, test.gpus, test.nics, got,
				test.want)
		}
	}
}

// TestClaimWithSnapshot shows the switches of the node, which slices do not: each GPU and its NIC
// are under one. So they are in the guest, as layout auto has the demo of this host.
func TestClaimWithSnapshot(t *testing.T) {
	const hgx = "x86-2n8g-hgx-h100"
	o := objects(t, hgx, fleet.NVIDIA(), fleet.SRIOV())
	o.Hosts = map[string]*topology.Host{"node": readHost(t, hgx)}
	answer, _ := count(t, o, Wish{
		GPUs: 4, NICs: 4, GPUClass: fleet.NVIDIA().Class, NICClass: fleet.SRIOV().Class, Pair: true,
	}, false)

	n := answer.Nodes[0]
	if got := fmt.Sprintf("%s; %s %s", n.Pairs, n.Layout,
		n.Guest); got != "4 PIX, 24 NODE; mirror 4 PIX, 24 NODE" {
		t.Errorf("got %s, want 4 PIX, 24 NODE; mirror 4 PIX, 24 NODE", got)
	}
}

func readHost(t *testing.T, name string) *topology.Host {
	t.Helper()
	sysfs, err := host.OpenSysfs(hostFile(name))
	if err != nil {
		t.Fatal(err)
	}

	read, _ := host.Read(sysfs, nil, host.All)
	return read
}
