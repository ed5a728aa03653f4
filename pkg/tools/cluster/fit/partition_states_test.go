package fit

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/fleet"
)

// publishTwice lets the driver publish each GPU for containers, too, as NVIDIA's does until one of
// the two devices is prepared (dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/allocatable.go).
func (h hgx) publishTwice() {
	spec := &h.Slices[0].Spec
	for _, d := range spec.Devices {
		twin := *d.DeepCopy()
		twin.Name = "twin-of-" + d.Name
		kind := "gpu"
		twin.Attributes["type"] = resourceapi.DeviceAttribute{StringValue: &kind}
		spec.Devices = append(spec.Devices, twin)
	}
}

// TestPartitionStates: a partition is used by the VM that has exactly its GPUs, and the VM blocks
// all others that have some of them. It makes no difference that GPUs are published twice.
func TestPartitionStates(t *testing.T) {
	for _, isTwice := range []bool{false, true} {
		h := newHGX(t, rand.New(rand.NewPCG(0, 0)), "hgx-h100")
		for i := range h.module {
			h.module[i] = nvlink.Module(i + 1)
		}

		h.Claims = []*resourceapi.ResourceClaim{
			fleet.Allocated("two", h.Slices[0], 0, 2),
			fleet.Allocated("one", h.Slices[0], 1),
			fleet.Allocated("three", h.Slices[0], 4, 5, 6), // no partition
		}
		h.publish(true)
		if isTwice {
			h.publishTwice()
		}

		answer, _ := count(t, h.Objects, Wish{GPUs: 1, GPUClass: fleet.NVIDIA().Class}, false)
		got := map[int]string{}
		for _, p := range answer.Nodes[0].Partitions {
			got[p.ID] = strings.TrimSpace(p.State + " " + p.By)
		}

		const all, left = "blocked ml/one, ml/three, ml/two", "blocked ml/one, ml/two"
		for id, want := range map[int]string{
			0: all, 1: left, 2: "blocked ml/three", // of 8, 4 and 4 GPUs
			3: "used ml/two", 4: "blocked ml/one", 5: "blocked ml/three", 6: "blocked ml/three",
			7: "blocked ml/two", 8: "used ml/one", 9: "blocked ml/two", 10: "next VM 1",
			11: "blocked ml/three", 14: "next VM 2",
		} {
			if got[id] != want {
				t.Errorf("published twice: %v; partition %d is %s, want %s", isTwice, id, got[id],
					want)
			}
		}
	}
}

// TestActiveWithoutVM: a partition that Fabric Manager has connected for nobody who is known is
// free, and the table says that it is active.
func TestActiveWithoutVM(t *testing.T) {
	h := newHGX(t, rand.New(rand.NewPCG(0, 0)), "hgx-h100")
	h.Claims = nil
	h.publish(false)
	h.list.Partitions[1].IsActive = true
	h.Partitions = map[string]nvlink.List{"node": h.list}

	answer, _ := count(t, h.Objects, Wish{GPUs: 2, GPUClass: fleet.NVIDIA().Class}, false)
	got := answer.Nodes[0].Partitions[1]
	if got.State != free || got.By != "active" {
		t.Errorf("the active partition is %s by %q", got.State, got.By)
	}
}

// TestActiveOnce: a partition that was active when the node got its annotation blocks no others.
func TestActiveOnce(t *testing.T) {
	h := newHGX(t, rand.New(rand.NewPCG(0, 0)), "hgx-h100")
	h.Claims = nil
	h.publish(false)
	h.annotate(strings.Replace(fmpm(h.list), `{"partitionId":3,`,
		`{"isActive": 1, "partitionId":3,`, 1))

	answer, _ := count(t, h.Objects, Wish{GPUs: 4, GPUClass: fleet.NVIDIA().Class}, false)
	if !strings.Contains(h.Nodes[0].Annotations[PartitionsAnnotation], `"isActive": 1`) ||
		answer.Now != 2 {
		t.Errorf("%d fit, want 2", answer.Now)
	}
}

// addressesOf returns the address of each GPU by its physical id.
func (h hgx) addressesOf(t *testing.T) map[nvlink.Module]topology.Address {
	t.Helper()
	addresses := map[nvlink.Module]topology.Address{}
	for i, d := range h.Slices[0].Spec.Devices {
		address, err := topology.ParseAddress(
			*d.Attributes["resource.kubernetes.io/pciBusID"].StringValue)
		expect.NoError(t, err)
		addresses[h.module[i]] = address
	}

	return addresses
}

// TestPartitionsNowhere: a list whose GPUs are not known by address, or are not the node's, is an
// error that says what to do.
func TestPartitionsNowhere(t *testing.T) {
	h := newHGX(t, rand.New(rand.NewPCG(0, 0)), "hgx-h100")
	for want, addresses := range map[string]map[nvlink.Module]topology.Address{
		"node node: the list has no PCI addresses: fill in pciBusId": nil,
		"node node: it offers no GPU at an address of the list: check that the list is of this " +
			"node": {1: {Bus: 0x99}, 3: {Bus: 0x98}},
	} {
		h.list.Addresses = addresses
		h.Partitions = map[string]nvlink.List{"node": h.list}
		_, err := New(h.Objects).Count(t.Context(), Shape{})
		if err == nil || !strings.HasPrefix(err.Error(), "count NVLink partitions: "+want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestUnfilledAddress: where the address of one GPU is missing, the partitions with it are not
// counted, and a note says so.
func TestUnfilledAddress(t *testing.T) {
	h := newHGX(t, rand.New(rand.NewPCG(0, 0)), "hgx-h100")
	h.Claims = nil
	h.list.Addresses = h.addressesOf(t)
	delete(h.list.Addresses, 8)
	h.Partitions = map[string]nvlink.List{"node": h.list}

	answer, _ := count(t, h.Objects, Wish{GPUs: 4, GPUClass: fleet.NVIDIA().Class}, false)
	const want = "NVLink partitions not counted: node node: those with a GPU whose pciBusId the " +
		"list lacks, physicalId 8"
	if answer.Now != 1 || answer.Notes[0] != want {
		t.Errorf("%d fit, notes %q, want 1 and %q", answer.Now, answer.Notes, want)
	}
}

// TestMissingGPU: a partition with a GPU that the node does not offer, for one since it failed, is
// blocked by that.
func TestMissingGPU(t *testing.T) {
	h := newHGX(t, rand.New(rand.NewPCG(0, 0)), "hgx-h100")
	h.Claims = nil
	h.list.Addresses = h.addressesOf(t)
	h.Partitions = map[string]nvlink.List{"node": h.list}
	missing := slices.Index(h.module, 8)
	h.Slices[0].Spec.Devices = slices.Delete(h.Slices[0].Spec.Devices, missing, missing+1)

	answer, _ := count(t, h.Objects, Wish{GPUs: 4, GPUClass: fleet.NVIDIA().Class}, false)
	n := answer.Nodes[0]
	by := h.list.Addresses[8].String() + ", which the node does not offer"
	if got := n.Partitions[2]; n.Now != 1 || got.State != blocked || got.By != by {
		t.Errorf("%d fit; partition 2 is %s by %q, want blocked by %q", n.Now, got.State, got.By,
			by)
	}
}
