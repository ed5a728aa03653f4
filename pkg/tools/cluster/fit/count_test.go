package fit

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/fleet"
)

var update = flag.Bool("update", false, "rewrite testdata/slices")

// TestSlices keeps the file with two HGX nodes, for tests that have no Go.
func TestSlices(t *testing.T) {
	file := filepath.Join("..", "..", "..", "..", "testdata", "slices", "x86-2n8g-hgx-h100.yaml")
	expect.Golden(t, *update, file, fleet.YAML(t, hostFile("x86-2n8g-hgx-h100"), "gpu-1", "gpu-2"))
}

func hostFile(name string) string {
	return filepath.Join("..", "..", "..", "..", "testdata", "hosts", name+".txtar")
}

// objects returns a node of a host of testdata, as the drivers publish it.
func objects(t testing.TB, name string, gpu, nic fleet.Driver) Objects {
	t.Helper()
	gpus, nics := fleet.Host(t, hostFile(name))
	return Objects{
		Nodes:   []*corev1.Node{fleet.Node("node")},
		Slices:  []*resourceapi.ResourceSlice{gpu.Slice("node", gpus), nic.Slice("node", nics)},
		Classes: []*resourceapi.DeviceClass{gpu.DeviceClass(), nic.DeviceClass()},
	}
}

// parse reads objects of texts.
func parse(texts ...string) (Objects, error) {
	var files []File
	for i, text := range texts {
		files = append(files, File{fmt.Sprint("file ", i), []byte(text)})
	}
	return Parse(files...)
}

// shapeOf returns the shape of the VM in objects.
func shapeOf(t testing.TB, o Objects) Shape {
	t.Helper()
	shape, err := NewShape(o)
	expect.NoError(t, err)
	return shape
}

// answerFor returns the fleet's answer for a shape.
func answerFor(t testing.TB, o Objects, shape Shape) Answer {
	t.Helper()
	answer, err := New(o).Count(t.Context(), shape)
	expect.NoError(t, err)
	return answer
}

// count returns the fleet's answer for one claim: exactly that of the wish, or with overAll one
// that wants all devices on one PCIe root.
func count(t testing.TB, o Objects, w Wish, overAll bool) (Answer, Shape) {
	t.Helper()
	parsed, err := parse(text("claim", w), text("vm", w))
	expect.NoError(t, err)
	shape := shapeOf(t, parsed)
	if overAll {
		root := resourceapi.FullyQualifiedName("resource.kubernetes.io/pcieRoot")
		shape.Claims[0].Spec.Devices.Constraints = []resourceapi.DeviceConstraint{
			{MatchAttribute: &root},
		}
	}

	return answerFor(t, o, shape), shape
}

// TestHosts compares with what a person finds by hand on the hosts of testdata.
func TestHosts(t *testing.T) {
	const hgx, roots, vgpu, rtx = "x86-2n8g-hgx-h100", "x86-2n4g-three-roots", "x86-2n2g-t4-vgpu",
		"x86-1n2g-rtx-audio"
	tests := []struct {
		host     string
		gpu, nic fleet.Driver
		wish     Wish
		want     int
		pairs    string // on the host, as slices show it, and in the guest
		why      string
	}{
		// Eight PCIe roots with a GPU and a NIC each, four per socket.
		{host: hgx, wish: Wish{GPUs: 1, NICs: 1, Pair: true}, want: 8, pairs: "1 PHB"},
		{host: hgx, wish: Wish{GPUs: 2, NICs: 2, Pair: true}, want: 4, pairs: "2 PHB, 4 NODE"},
		{host: hgx, wish: Wish{GPUs: 4, NICs: 4, Pair: true}, want: 2, pairs: "4 PHB, 24 NODE"},
		{host: hgx, wish: Wish{
			GPUs: 8, NICs: 8, Pair: true,
		}, want: 1, pairs: "8 PHB, 48 NODE, 64 SYS"},
		{host: hgx, wish: Wish{GPUs: 4, NICs: 1, Pair: true}, want: 2, pairs: "1 PHB, 9 NODE"},
		{host: hgx, wish: Wish{
			GPUs: 9,
		}, pairs: "-", why: "8 of 8 vfio.gpu.nvidia.com are free, 9 needed"},
		// A NIC of its GPU's root is of its node.
		{host: hgx, wish: Wish{
			GPUs: 4, NICs: 4, Pair: true, OneSocket: true,
		}, want: 2, pairs: "4 PHB, 24 NODE"},
		{host: hgx, wish: Wish{
			GPUs: 4, NICs: 1, Pair: true, OneSocket: true,
		}, want: 2, pairs: "1 PHB, 9 NODE"},
		{host: hgx, wish: Wish{
			GPUs: 5, NICs: 5, Pair: true, OneSocket: true,
		}, pairs: "-",
			why: "at most 4 of 8 vfio.gpu.nvidia.com have the same " +
				"resource.kubernetes.io/numaNode, 5 needed"},
		// The two drivers publish the NUMA node under two names; one driver agrees with itself.
		{host: hgx, wish: Wish{
			GPUs: 4, NICs: 4, OneSocket: true,
		}, pairs: "-",
			why: "sriov has no resource.kubernetes.io/numaNode, its driver publishes " +
				"dra.net/numaNode: matchAttribute compares one name"},
		{host: hgx, wish: Wish{GPUs: 4, OneSocket: true}, want: 2, pairs: "6 NODE"},
		{host: hgx, wish: Wish{
			GPUs: 5, OneSocket: true,
		}, pairs: "-",
			why: "at most 4 of 8 vfio.gpu.nvidia.com have the same " +
				"resource.kubernetes.io/numaNode, 5 needed"},
		{host: hgx, gpu: fleet.Intel(), wish: Wish{
			GPUs: 1, NICs: 1, Pair: true,
		}, pairs: "-",
			why: "gpu.intel.com has no resource.kubernetes.io/pcieRoot, its driver publishes " +
				"gpu.intel.com/pciRoot: matchAttribute compares one name"},
		{host: hgx, gpu: fleet.ROCm(), wish: Wish{
			GPUs: 8, NICs: 8, Pair: true,
		}, want: 1, pairs: "8 PHB, 48 NODE, 64 SYS"},
		{host: hgx, gpu: fleet.ROCm(), wish: Wish{
			GPUs: 4, OneSocket: true,
		}, pairs: "-",
			why: "gpu.amd.com has no resource.kubernetes.io/numaNode, its driver publishes " +
				"gpu.amd.com/numaNode: matchAttribute compares one name"},
		// CPUs are no PCI devices: pairs are those of the GPUs.
		{host: hgx, nic: fleet.CPUs(), wish: Wish{
			GPUs: 8, NICs: 8, Pair: true,
		}, want: 1, pairs: "12 NODE, 16 SYS"},
		// Per socket two roots with a GPU and a NIC, and one with a NIC alone.
		{host: roots, wish: Wish{GPUs: 1, NICs: 1, Pair: true}, want: 4, pairs: "1 PHB"},
		{host: roots, wish: Wish{GPUs: 2, NICs: 2, Pair: true}, want: 2, pairs: "2 PHB, 4 NODE"},
		{host: roots, wish: Wish{
			GPUs: 4, NICs: 6, Pair: true,
		}, want: 1, pairs: "4 PHB, 16 NODE, 25 SYS"},
		{host: roots, wish: Wish{GPUs: 2, NICs: 3}, want: 2, pairs: "2 PHB, 8 NODE"},
		// A GPU per socket, and no NIC.
		{host: vgpu, wish: Wish{GPUs: 1}, want: 2, pairs: "-"},
		{host: vgpu, wish: Wish{GPUs: 2}, want: 1, pairs: "1 SYS"},
		{host: vgpu, wish: Wish{
			GPUs: 1, NICs: 1, Pair: true,
		}, pairs: "-", why: "0 of 0 sriov are free, 1 needed"},
		// One socket whose devices report no NUMA node, and a root for all.
		{host: rtx, wish: Wish{GPUs: 2}, want: 2, pairs: "1 PHB"},
		{host: rtx, wish: Wish{
			GPUs: 2, OneSocket: true,
		}, pairs: "-", why: "vfio.gpu.nvidia.com has no resource.kubernetes.io/numaNode"},
	}

	for _, test := range tests {
		if test.gpu.Name == "" {
			test.gpu = fleet.NVIDIA()
		}

		if test.nic.Name == "" {
			test.nic = fleet.SRIOV()
		}

		test.wish.GPUClass, test.wish.NICClass = test.gpu.Class, test.nic.Class
		t.Run(fmt.Sprint(test.host, " ", test.wish), func(t *testing.T) {
			answer, _ := count(t, objects(t, test.host, test.gpu, test.nic), test.wish, false)
			got := answer.Nodes[0]
			if got.Now != test.want || got.Empty != test.want || got.Pairs.String() != test.pairs ||
				got.Guest.String() != test.pairs || got.Why != test.why {
				t.Errorf("fits %d times, %d when empty, pairs %s, in the guest %s, why %q\nwant %d, %s, %q",
					got.Now, got.Empty, got.Pairs, got.Guest, got.Why, test.want, test.pairs, test.why)
			}
		})
	}
}

// TestRandomFleets compares Count with the allocator itself, which sees the whole cluster,
// allocates one VM after the other, and writes each claim's result where the scheduler does.
// The first fleet has 50 nodes, with WHOLE=1 200.
func TestRandomFleets(t *testing.T) {
	for i, seed := range expect.Seeds(5, 60) {
		random := rand.New(rand.NewPCG(seed, 27))
		nodes := 1 + random.IntN(12)
		if i == 0 {
			nodes = expect.Count(50, 200)
		}

		o, wish := randomFleet(random, nodes)
		answer, shape := count(t, o, wish, random.IntN(4) == 0)
		claim := shape.Claims[0]
		empty := o
		empty.Claims = nil

		for _, n := range answer.Nodes {
			if want := scheduled(t, o, n.Name, claim); n.Now != want {
				t.Errorf("seed %d, %s, node %s: %d fit now, the scheduler allocates %d; %s", seed,
					fmt.Sprint(wish), n.Name, n.Now, want, n.Why)
			}

			if want := scheduled(t, empty, n.Name, claim); n.Empty != want {
				t.Errorf("seed %d, %s, node %s: %d fit when empty, the scheduler allocates %d",
					seed, fmt.Sprint(wish), n.Name, n.Empty, want)
			}

			if (n.Why == "") != (n.Now > 0) {
				t.Errorf("seed %d, node %s: %d fit now, why not: %q", seed, n.Name, n.Now, n.Why)
			}
		}

		checkWritten(t, seed, o, empty, wish)
	}
}

// checkWritten checks that the scheduler allocates the claim that is written for a wish as often as
// the answer says, on every node.
func checkWritten(t *testing.T, seed uint64, o, empty Objects, wish Wish) {
	t.Helper()
	answer, written, err := wish.Count(t.Context(), New(o))
	if err != nil {
		t.Fatal(err)
	}

	if written == "" {
		return // no node meets any claim for it
	}

	_, vm, _ := strings.Cut(written, "\n# kind: VirtualMachine")
	parsed, err := parse(written, "kind: VirtualMachine"+strings.ReplaceAll(vm, "\n# ", "\n"))
	expect.NoError(t, err)
	shape := shapeOf(t, parsed)
	for _, n := range answer.Nodes {
		now, whenEmpty := scheduled(t, o, n.Name, shape.Claims[0]), scheduled(t, empty, n.Name,
			shape.Claims[0])
		if n.Now != now || n.Empty != whenEmpty {
			t.Errorf("seed %d, node %s: the scheduler allocates %d now and %d when empty of the "+
				"written claim, fit says %d and %d", seed, n.Name, now, whenEmpty, n.Now, n.Empty)
		}
	}
}

// scheduled returns how many claims the scheduler's allocator allocates on a node.
func scheduled(t *testing.T, o Objects, name string, claim *resourceapi.ResourceClaim) int {
	t.Helper()
	claims, classes := o.Claims, New(o)
	for count := 0; ; count++ {
		taken := sets.New[structured.DeviceID]()
		for _, c := range claims {
			for _, r := range c.Status.Allocation.Devices.Results {
				taken.Insert(structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
			}
		}

		features := New(o).allocator.features
		allocator, err := structured.NewAllocator(t.Context(), features, structured.AllocatedState{
			AllocatedDevices: taken,
		}, classes, o.Slices, cel.NewCache(10, cel.Features{EnableListTypeAttributes: true}))

		if err != nil {
			t.Fatal(err)
		}

		node := &corev1.Node{}
		node.Name = name
		results, err := allocator.Allocate(t.Context(), node, []*resourceapi.ResourceClaim{claim})
		if err != nil {
			t.Fatal(err)
		}

		if len(results) == 0 {
			return count
		}

		next := claim.DeepCopy()
		next.Status.Allocation = &results[0]
		claims = append(claims[:len(claims):len(claims)], next)
	}
}

// randomFleet returns nodes with up to six GPUs and six NICs of random drivers on random
// roots, of which random ones are allocated.
func randomFleet(random *rand.Rand, nodes int) (Objects, Wish) {
	gpu := []fleet.Driver{fleet.NVIDIA(), fleet.ROCm(), fleet.Intel()}[random.IntN(3)]
	nic := []fleet.Driver{fleet.SRIOV(), fleet.SRIOV(), fleet.CPUs()}[random.IntN(3)]
	o := Objects{Classes: []*resourceapi.DeviceClass{gpu.DeviceClass(), nic.DeviceClass()}}
	for i := range nodes {
		o.Nodes = append(o.Nodes, fleet.Node(fmt.Sprint("node", i)))
		for kind, d := range []fleet.Driver{gpu, nic} {
			var devices []fleet.Place
			for j := range random.IntN(7) {
				root := random.IntN(6)
				devices = append(devices, fleet.Place{
					Root:    fmt.Sprintf("pci0000:%02x", 16*root),
					Address: fmt.Sprintf("0000:%02x:%02x.0", 16*root, 8*kind+j),
					NUMA:    int64(root/3 - random.IntN(12)/11),
				})
			}

			s := d.Slice(fmt.Sprint("node", i), devices)
			o.Slices = append(o.Slices, s)

			for j := range devices {
				if random.IntN(3) == 0 {
					o.Claims = append(o.Claims,
						fleet.Allocated(fmt.Sprint("c", i, d.Class, j), s, j))
				}
			}
		}
	}

	wish := Wish{
		GPUs:      random.IntN(4),
		NICs:      1 + random.IntN(3),
		GPUClass:  gpu.Class,
		NICClass:  nic.Class,
		OneSocket: random.IntN(4) == 0,
	}

	wish.Pair = random.IntN(3) > 0
	return o, wish
}

// BenchmarkCount counts VMs of one pair, of which most fit, and of eight.
func BenchmarkCount(b *testing.B) {
	gpus, nics := fleet.Host(b, hostFile("x86-2n8g-hgx-h100"))
	for _, nodes := range []int{50, 200} {
		o := Objects{
			Classes: []*resourceapi.DeviceClass{
				fleet.NVIDIA().DeviceClass(), fleet.SRIOV().DeviceClass(),
			},
		}

		for i := range nodes {
			name := fmt.Sprint("node", i)
			o.Nodes = append(o.Nodes, fleet.Node(name))
			o.Slices = append(o.Slices, fleet.NVIDIA().Slice(name, gpus),
				fleet.SRIOV().Slice(name, nics))
			o.Claims = append(o.Claims, fleet.Allocated(name, o.Slices[2*i], i%8))
		}

		for _, pairs := range []int{1, 2, 4, 8} {
			wish := Wish{
				GPUs:     pairs,
				NICs:     pairs,
				GPUClass: fleet.NVIDIA().Class,
				NICClass: fleet.SRIOV().Class,
				Pair:     true,
			}
			b.Run(fmt.Sprintf("nodes=%d/pairs=%d", nodes, pairs), func(b *testing.B) {
				for b.Loop() {
					if _, _, err := wish.Count(b.Context(), New(o)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// TestAlike: nodes that are like another one have the answer that each has alone, with the names of
// their own devices and claims.
func TestAlike(t *testing.T) {
	gpus, _ := fleet.Host(t, hostFile("x86-2n8g-hgx-h100"))
	list := []any{fleet.NVIDIA().DeviceClass()}
	for i := range 9 {
		s := fleet.NVIDIA().Slice(fmt.Sprint("node", i), gpus[:8-i%2])
		for j := range s.Spec.Devices {
			id := fmt.Sprint("GPU-", i, j)
			s.Spec.Devices[j].Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: &id}
		}

		node := fleet.Node(fmt.Sprint("node", i))
		node.Kind = "Node"
		list = append(list, node, s)
		if i%3 > 0 {
			list = append(list, fleet.Allocated(fmt.Sprint("c", i), s, i%3))
		}
	}

	data, err := json.Marshal(map[string]any{"kind": "List", "items": list})
	expect.NoError(t, err)
	o, err := parse(string(data))
	expect.NoError(t, err)

	wish := Wish{GPUs: 2, GPUClass: fleet.NVIDIA().Class}
	answer, shape := count(t, o, wish, false)
	for _, n := range answer.Nodes {
		o.Only = n.Name
		alone := answerFor(t, o, shape).Nodes[0]
		want, err := json.Marshal(alone)
		expect.NoError(t, err)
		got, err := json.Marshal(n)
		expect.NoError(t, err)
		expect.Same(t, string(want), string(got), "node %s (-want +got)", n.Name)
	}
}
