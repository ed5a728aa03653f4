package plan_test

import (
	"bytes"
	"testing"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
)

// TestGPUDirect: the numbers are those that NCCL 2.29.7's own code decides for the HGX and its
// guests (`make nccl`): root and numa are the same to it, and without the hook GPU 0 alone gets
// the host's NIC.
func TestGPUDirect(t *testing.T) {
	planner := plan.Planner{Sysfs: hosts(t)["x86-2n8g-hgx-h100.txtar"]}
	vm := planner.Read(plan.Request{
		Domain: sampleFile(t, "02-8gpu-8nic-gate-off.xml"),
		VMI:    sampleFile(t, "02-8gpu-8nic-gate-off.vmi.json"),
	})

	outcomes := map[policy.Layout]placement.GPUDirect{
		"numa":   {GPUs: 8, Host: 8, Guest: 0, Right: 4},
		"root":   {GPUs: 8, Host: 8, Guest: 0, Right: 4},
		"mirror": {GPUs: 8, Host: 8, Guest: 8, Right: 8},
		"auto":   {GPUs: 8, Host: 8, Guest: 8, Right: 8},
	}

	for layout, want := range outcomes {
		if got := vm.WithLayout(layout).Plan.GPUDirect(); got != want {
			t.Errorf("layout %s: %+v, want %+v", layout, got, want)
		}
	}

	flat := placement.GPUDirect{GPUs: 8, Host: 8, Guest: 0, Right: 1}
	if got := vm.Current().Plan.GPUDirect(); got != flat {
		t.Errorf("without the hook: %+v, want %+v", got, flat)
	}
}

// TestGPUDirectOfHidden: a NIC with <address type='unassigned'/> is not in the guest, so no GPU has
// one to take.
func TestGPUDirectOfHidden(t *testing.T) {
	const nics = "ua-sriov-rdma"
	domain := sampleFile(t, "02-8gpu-8nic-gate-off.xml")
	alias := []byte(`<alias name="` + nics)
	if !bytes.Contains(domain, alias) {
		t.Fatalf("the sample has no alias %s", nics)
	}

	planner := plan.Planner{Sysfs: hosts(t)["x86-2n8g-hgx-h100.txtar"]}
	hidden := bytes.ReplaceAll(domain, alias,
		append([]byte(`<address type="unassigned"></address>`), alias...))
	got := planner.Read(plan.Request{Domain: hidden}).WithLayout(
		policy.LayoutMirror).Plan.GPUDirect()
	if got != (placement.GPUDirect{}) {
		t.Errorf("%+v, want no GPU with a NIC to take", got)
	}
}
