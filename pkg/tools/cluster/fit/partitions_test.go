package fit

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/fleet"
)

// TestPartitionsOfList counts VMs on nodes whose partitions a file or an annotation lists: as
// many as a search of all sets finds, each with GPUs that are a partition. A pair of each GPU
// with its NIC changes nothing.
func TestPartitionsOfList(t *testing.T) {
	for _, seed := range expect.Seeds(6, 24) {
		random := rand.New(rand.NewPCG(seed, 41))
		h := newHGX(t, random, boards[seed%3])
		if seed%2 == 0 {
			h.publish(false)
		} else {
			for i, d := range h.Slices[0].Spec.Devices {
				published := d.Attributes["resource.kubernetes.io/pciBusID"]
				address, err := topology.ParseAddress(*published.StringValue)
				expect.NoError(t, err)
				h.list.Addresses[h.module[i]] = address
			}
		}

		if seed%3 == 0 {
			h.annotate(fmpm(h.list))
		} else {
			h.Partitions = map[string]nvlink.List{"node": h.list}
		}

		if seed%8 < 4 { // the sum is counted anew then
			h.Slices = append(h.Slices, sharedSlice(t))
		}

		for _, size := range []int{1, 2, 3, 4, 8} {
			wish := Wish{GPUs: size, GPUClass: fleet.NVIDIA().Class, NICClass: fleet.SRIOV().Class}
			if seed%4 < 2 {
				wish.NICs, wish.Pair = size, true
			}

			answer, _ := count(t, h.Objects, wish, false)
			n := answer.Nodes[0]
			if answer.Now != n.Now || answer.Empty != n.Empty {
				t.Errorf("seed %d, %d GPUs: the sum is %d, %d, want %d, %d", seed, size, answer.Now,
					answer.Empty, n.Now, n.Empty)
			}

			if want := h.fits(size); n.Now != want || n.Empty != (hgx{list: h.list}).fits(size) {
				t.Errorf("seed %d, %d GPUs: %d fit now, %d when empty, want %d, %d; %s", seed, size,
					n.Now, n.Empty, want, (hgx{list: h.list}).fits(size), n.Why)
			}

			vms := 0
			for _, p := range n.Partitions {
				if p.State == next {
					vms++
				}
				if !h.legal(p.GPUs) || p.State == next && len(p.GPUs) != size {
					t.Errorf("seed %d, %d GPUs: partition %d of %v", seed, size, p.ID, p.GPUs)
				}
			}

			if vms != n.Now {
				t.Errorf("seed %d, %d GPUs: %d partitions for %d VMs", seed, size, vms, n.Now)
			}

			notes := strings.Join(answer.Notes, "\n")
			if n.Now > 0 && !strings.Contains(notes, "the claim does not hold a VM to these") {
				t.Errorf("seed %d: notes %s", seed, notes)
			}
		}
	}
}

// TestPublishedPartitions: where the driver publishes partitions, the claim that is written has a
// constraint that the scheduler's allocator meets with partitions only, as often as fit says.
func TestPublishedPartitions(t *testing.T) {
	written, nodes := 0, expect.Seeds(6, 24)
	for _, seed := range nodes {
		random := rand.New(rand.NewPCG(seed, 42))
		h := newHGX(t, random, boards[seed%3])
		h.publish(true)

		for _, size := range []int{1, 2, 3, 4, 8} {
			wish := Wish{GPUs: size, GPUClass: fleet.NVIDIA().Class}
			answer, claim, err := wish.Count(t.Context(), New(h.Objects))
			expect.NoError(t, err)
			if answer.Now != h.fits(size) {
				t.Errorf("seed %d, %d GPUs: %d fit, want %d", seed, size, answer.Now, h.fits(size))
			}

			if (claim == "") != (size == 3) {
				t.Errorf("seed %d, %d GPUs: claim %q", seed, size, claim)
			}

			if claim == "" {
				continue
			}

			written++
			o, err := parse(claim, text("vm", wish))
			expect.NoError(t, err)
			shape := shapeOf(t, o)
			sets := allocations(t, h.Objects, shape.Claims[0])
			if len(sets) != answer.Now {
				t.Errorf("seed %d, %d GPUs: %d fit, the scheduler allocates %d", seed, size,
					answer.Now, len(sets))
			}

			for _, addresses := range sets {
				if !h.legal(addresses) {
					t.Errorf("seed %d: the scheduler allocates %v, which are no partition", seed,
						addresses)
				}
			}
		}
	}

	if want := len(nodes) * 4; written != want {
		t.Errorf("%d claims are written, want %d", written, want)
	}
}

// allocations returns the addresses of the GPUs that the scheduler's allocator gives to one claim
// after the other.
func allocations(t *testing.T, o Objects, claim *resourceapi.ResourceClaim) (all [][]string) {
	t.Helper()
	taken := sets.New[structured.DeviceID]()
	for _, c := range o.Claims {
		for id := range results(c.Status.Allocation.Devices.Results).requests() {
			taken.Insert(id)
		}
	}

	f := New(o)
	for {
		allocator, err := structured.NewAllocator(t.Context(), f.allocator.features,
			structured.AllocatedState{
				AllocatedDevices: taken,
			}, f, o.Slices, cel.NewCache(10, cel.Features{EnableListTypeAttributes: true}))

		expect.NoError(t, err)
		found, err := allocator.Allocate(t.Context(), o.Nodes[0], []*resourceapi.ResourceClaim{
			claim,
		})

		expect.NoError(t, err)
		if len(found) == 0 {
			return all
		}

		given := results(found[0].Devices.Results)
		var addresses []string
		for _, d := range f.node(o.Nodes[0]).devices {
			if _, isGiven := given.requests()[d.id]; isGiven {
				addresses = append(addresses, d.Address)
				taken.Insert(d.id)
			}
		}

		all = append(all, addresses)
	}
}

// TestPartitionsLeft: a VM of two takes a partition of the half that is broken already, so that
// one of four still fits. An active partition blocks those that overlap.
func TestPartitionsLeft(t *testing.T) {
	h := newHGX(t, rand.New(rand.NewPCG(0, 0)), "hgx-h100")
	h.Claims, h.used = nil, sets.New[nvlink.Module]()
	for i := range h.module {
		h.module[i] = nvlink.Module(i + 1)
	}

	h.publish(false)
	h.Partitions = map[string]nvlink.List{"node": h.list}
	h.Claims = append(h.Claims, fleet.Allocated("one", h.Slices[0], 4)) // physical id 5
	answer, _ := count(t, h.Objects, Wish{GPUs: 2, GPUClass: fleet.NVIDIA().Class}, false)
	got := map[int]string{}
	for _, p := range answer.Nodes[0].Partitions {
		got[p.ID] = p.State + " " + p.By
	}

	expect.Same(t, map[int]string{
		0: "blocked ml/one", 1: "free ", 2: "blocked ml/one", 3: "next VM 2", 4: "next VM 3",
		5: "blocked ml/one", 6: "next VM 1",
		7: "free ", 8: "free ", 9: "free ", 10: "free ", 11: "used ml/one", 12: "free ",
		13: "free ", 14: "free ",
	}, got, "partitions (-want +got)")

	h.list.Partitions[3].IsActive = true // of physical ids 1 and 3
	answer, _ = count(t, h.Objects, Wish{GPUs: 4, GPUClass: fleet.NVIDIA().Class}, false)
	n := answer.Nodes[0]
	if n.Now != 0 || n.Empty != 2 || n.Partitions[1].By != "partition 3, which is active" {
		t.Errorf("%d of four fit beside an active partition, %d when empty; partition 1: %s %s",
			n.Now, n.Empty, n.Partitions[1].State, n.Partitions[1].By)
	}
}

// TestPartitionsOfPlugins: what a device plugin gives counts as often as partitions are free.
func TestPartitionsOfPlugins(t *testing.T) {
	const gpu, hgxName = "nvidia.com/GH100", "x86-2n8g-hgx-h100"
	read := readHost(t, hgxName)
	list := partitionsOf(t, "hgx-h100")
	var held topology.DeviceID
	module := nvlink.Module(0)
	for _, d := range read.Functions {
		if d.IDs() == "10de:2330" {
			module++
			list.Addresses[module] = d.Address
			held = topology.PCIDevice(d.Address) // the last, physical id 8
		}
	}

	kubevirt := &v1.KubeVirt{}
	kubevirt.Spec.Configuration.PermittedHostDevices = &v1.PermittedHostDevices{
		PciHostDevices: []v1.PciHostDevice{{PCIVendorSelector: "10de:2330", ResourceName: gpu}},
	}

	o := Objects{
		Nodes: []*corev1.Node{fleet.Node("node")}, KubeVirts: []*v1.KubeVirt{kubevirt},
		Hosts:      map[string]*topology.Host{"node": read},
		Held:       map[HostDevice]string{{"node", held}: "ml/one"},
		Partitions: map[string]nvlink.List{"node": list},
	}

	for size, want := range map[int]int{1: 7, 2: 3, 3: 0, 4: 1, 8: 0} {
		answer, err := New(o).Count(t.Context(), Shape{Devices: map[string]int{gpu: size}})
		expect.NoError(t, err)
		if answer.Now != want {
			t.Errorf("%d GPUs: %d fit, want %d; %s", size, answer.Now, want, answer.Nodes[0].Why)
		}
	}
}

// TestPartitionsOf: a VM's GPUs are compared with the partitions that the node's driver publishes,
// also of a node that is not among the objects.
func TestPartitionsOf(t *testing.T) {
	h := newHGX(t, rand.New(rand.NewPCG(0, 0)), "hgx-h100")
	for i := range h.module {
		h.module[i] = nvlink.Module(i + 1)
	}

	h.publish(true)
	h.Nodes = nil
	list, err := New(h.Objects).PartitionsOf("node")
	expect.NoError(t, err)

	for name, test := range map[string]struct {
		gpus []topology.Address
		want string
	}{
		"a partition": {[]topology.Address{{Bus: 0x1b}, {Bus: 0x52}}, ""},
		"no partition": {[]topology.Address{{Bus: 0x1b}, {Bus: 0x43}},
			"its 2 GPUs are not an NVLink partition, so CUDA may not start (802, system not yet " +
				"initialized); those of 2 GPUs are: 3 (0000:1b:00.0 0000:52:00.0), 4 "},
	} {
		got := list.Fault(test.gpus)
		if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestTwoBoards counts VMs on two A100 boards, where partitions of eight GPUs overlap: as many as a
// search of all sets finds, each with GPUs that are a partition.
func TestTwoBoards(t *testing.T) {
	for seed := range uint64(4) {
		h := newTwoBoards(t, rand.New(rand.NewPCG(seed, 43)))
		for _, size := range []int{2, 4, 8, 12, 16} {
			answer, _ := count(t, h.Objects, Wish{GPUs: size, GPUClass: fleet.NVIDIA().Class}, false)
			if want := h.fits(size); answer.Now != want {
				t.Errorf("seed %d, %d GPUs: %d fit, want %d", seed, size, answer.Now, want)
			}

			for _, p := range answer.Nodes[0].Partitions {
				if !h.legal(p.GPUs) || p.State == next && len(p.GPUs) != size {
					t.Errorf("seed %d, %d GPUs: partition %d of %v", seed, size, p.ID, p.GPUs)
				}
			}
		}
	}
}

// TestUnlistedGPUs: Fabric Manager lists no partition of a GPU that failed or is in MIG mode, so a
// VM of three does not get a partition of two and that GPU. A GPU of another model is free to go.
func TestUnlistedGPUs(t *testing.T) {
	for product, want := range map[string]int{"NVIDIA H100 80GB HBM3": 0, "NVIDIA L40S": 1} {
		h := newHGX(t, rand.New(rand.NewPCG(0, 0)), "hgx-h100")
		h.Claims, h.used = nil, sets.New[nvlink.Module]()
		h.publish(false)
		missing := slices.Index(h.module, 8)
		for i := range h.Slices[0].Spec.Devices {
			model := "NVIDIA H100 80GB HBM3"
			if i == missing {
				model = product
			}

			h.Slices[0].Spec.Devices[i].Attributes["productName"] = resourceapi.DeviceAttribute{
				StringValue: &model,
			}
		}

		h.list.Partitions = slices.DeleteFunc(h.list.Partitions, func(p nvlink.Partition) bool {
			return slices.Contains(p.Modules, 8)
		})
		h.Partitions = map[string]nvlink.List{"node": h.list}

		answer, _ := count(t, h.Objects, Wish{GPUs: 3, GPUClass: fleet.NVIDIA().Class}, false)
		if answer.Now != want {
			t.Errorf("with a %s: %d fit, want %d", product, answer.Now, want)
		}
	}
}

// TestModuleIDsOfOthers: on A100 the module id that NVML gives a GPU may be another than Fabric
// Manager's physical id (dra-driver-nvidia-gpu, fabric-manager-partitioning.md). Where the list has
// addresses, published ids say nothing of its GPUs, nor of one whose address it lacks.
func TestModuleIDsOfOthers(t *testing.T) {
	h := newHGX(t, rand.New(rand.NewPCG(0, 0)), "hgx-a100")
	h.publish(false)
	for i, d := range h.Slices[0].Spec.Devices[1:] {
		published := d.Attributes["resource.kubernetes.io/pciBusID"]
		address, err := topology.ParseAddress(*published.StringValue)
		expect.NoError(t, err)
		h.list.Addresses[h.module[i]] = address // each has the number of the one before
	}

	h.annotate(fmpm(h.list))
	list, err := New(h.Objects).PartitionsOf("node")
	expect.NoError(t, err)
	expect.Same(t, h.list.Addresses, list.Addresses, "addresses (-want +got)")
}

// TestBadAnnotation: a node whose annotation cannot be read is counted without partitions, and a
// note says why.
func TestBadAnnotation(t *testing.T) {
	h := newHGX(t, rand.New(rand.NewPCG(0, 0)), "hgx-h100")
	for text, want := range map[string]string{
		"{}": "node node: annotation hostdev.vm.kubevirt.io/nvlink-partitions: parse partitions: " +
			"partitionInfo has 0, must be 1 to 256, as fmpm -l prints them",
		fmpm(h.list): "node node: the list has no PCI addresses: fill in pciBusId (" +
			reasons.Page("docs/devices.md#nvlink-partitions") +
			" shows how), or have the driver publish gpu.nvidia.com/gpuModuleID",
	} {
		h.annotate(text)
		answer, err := New(h.Objects).Count(t.Context(), Shape{})
		expect.NoError(t, err)
		if got := strings.Join(answer.Notes, "; "); got != "NVLink partitions not counted: "+want {
			t.Errorf("notes %q, want %q", got, want)
		}
	}
}
