package fit

import (
	"math/rand/v2"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"hook-sidecar/pkg/nvlink"
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
